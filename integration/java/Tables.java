import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.IOException;
import org.apache.kafka.clients.consumer.internals.AutoOffsetResetStrategy;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** What Kafka's classes know as plain tables and functions: error codes, partitions of keys, values of a setting. */
final class Tables {
    private Tables() {}

    /** Each error as {"code", "name", "retriable", "refreshes_metadata"}. */
    static JsonNode errors() {
        ArrayNode answer = JsonNodeFactory.instance.arrayNode();
        for (Errors error : Errors.values()) {
            answer.addObject()
                    .put("code", error.code())
                    .put("name", error.name())
                    .put("retriable", error.exception() instanceof RetriableException)
                    .put("refreshes_metadata", error.exception() instanceof InvalidMetadataException);
        }
        return answer;
    }

    /** The partition of each of "keys" in a topic of "count" partitions, by the murmur2 of Java's producer. */
    static JsonNode partitions(JsonNode ask) throws IOException {
        ArrayNode answer = JsonNodeFactory.instance.arrayNode();
        for (JsonNode key : ask.get("keys")) {
            answer.add(BuiltInPartitioner.partitionForKey(key.binaryValue(), ask.get("count").asInt()));
        }
        return answer;
    }

    /** The milliseconds of each of "durations" in auto.offset.reset=by_duration:..., null where it is not valid. */
    static JsonNode durations(JsonNode ask) {
        ArrayNode answer = JsonNodeFactory.instance.arrayNode();
        for (JsonNode duration : ask.get("durations")) {
            try {
                String setting = "by_duration:" + duration.asText();
                answer.add(AutoOffsetResetStrategy.fromString(setting).duration().get().toMillis());
            } catch (IllegalArgumentException error) {
                answer.addNull();
            }
        }
        return answer;
    }
}
