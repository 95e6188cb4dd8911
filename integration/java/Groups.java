import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/** The blobs that members of a group send each other, written and read by Java's consumer. */
final class Groups {
    private Groups() {}

    /**
     * For each of "members" {"topics", "owned": [[topic, partition]], "generation", "rack", "user_data"} in "version":
     * the bytes of its subscription and of an assignment of what it owns, and what the sticky assignors say of that.
     */
    static JsonNode blobs(JsonNode ask) throws IOException {
        short version = (short) ask.get("version").asInt();
        ArrayNode answer = JsonNodeFactory.instance.arrayNode();
        for (JsonNode member : ask.get("members")) {
            List<TopicPartition> owned = partitions(member.get("owned"));
            int generation = member.get("generation").asInt();
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            Subscription subscription =
                    new Subscription(topics, data(member), owned, generation, Optional.ofNullable(text(member, "rack")));
            answer.addObject()
                    .put("subscription", bytes(ConsumerProtocol.serializeSubscription(subscription, version)))
                    .put("assignment", bytes(ConsumerProtocol.serializeAssignment(new Assignment(owned), version)))
                    .put("sticky", said(new StickyAssignor(), owned, generation))
                    .put("cooperative", said(new CooperativeStickyAssignor(), owned, generation));
        }
        return answer;
    }

    /** What Java reads of "subscriptions" and "assignments". */
    static JsonNode readBlobs(JsonNode ask) throws IOException {
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        ArrayNode subscriptions = answer.putArray("subscriptions");
        for (JsonNode blob : ask.get("subscriptions")) {
            Subscription read = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(blob.binaryValue()));
            ObjectNode row = subscriptions.addObject();
            ArrayNode topics = row.putArray("topics");
            read.topics().forEach(topics::add);
            write(row.putArray("owned"), read.ownedPartitions());
            row.put("generation", read.generationId().orElse(-1)).put("rack", read.rackId().orElse(null));
            row.put("user_data", read.userData() == null ? null : bytes(read.userData()));
        }
        ArrayNode assignments = answer.putArray("assignments");
        for (JsonNode blob : ask.get("assignments")) {
            Assignment read = ConsumerProtocol.deserializeAssignment(ByteBuffer.wrap(blob.binaryValue()));
            write(assignments.addArray(), read.partitions());
        }
        return answer;
    }

    private static byte[] said(ConsumerPartitionAssignor assignor, List<TopicPartition> owned, int generation) {
        assignor.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        return bytes(assignor.subscriptionUserData(Set.of()));
    }

    private static ByteBuffer data(JsonNode member) throws IOException {
        return member.get("user_data").isNull() ? null : ByteBuffer.wrap(member.get("user_data").binaryValue());
    }

    private static String text(JsonNode row, String field) {
        return row.get(field).isNull() ? null : row.get(field).asText();
    }

    private static List<TopicPartition> partitions(JsonNode rows) {
        List<TopicPartition> found = new ArrayList<>();
        rows.forEach(row -> found.add(new TopicPartition(row.get(0).asText(), row.get(1).asInt())));
        return found;
    }

    private static void write(ArrayNode rows, List<TopicPartition> partitions) {
        partitions.forEach(one -> rows.addArray().add(one.topic()).add(one.partition()));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return found;
    }
}
