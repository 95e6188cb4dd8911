import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/** One message of the protocol: the generated class and its schemas, for a request or a response of one API. */
final class Messages {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private final ApiMessageType api;
    private final boolean request;

    private Messages(ApiMessageType api, boolean request) {
        this.api = api;
        this.request = request;
    }

    static Messages of(JsonNode ask) {
        ApiMessageType api = ApiMessageType.fromApiKey((short) ask.get("api").asInt());
        return new Messages(api, ask.get("kind").asText().equals("request"));
    }

    /** The name, the last stable version, and the schema of each version, unstable ones too. */
    JsonNode schemas() {
        ObjectNode answer = JSON.objectNode();
        answer.put("name", api.name).put("highest_stable", api.highestSupportedVersion(false));
        ObjectNode versions = answer.putObject("versions");
        for (short version = api.lowestSupportedVersion(); version <= api.highestSupportedVersion(true); version++) {
            versions.set(Short.toString(version), SchemaText.describe(schema(version)));
        }
        return answer;
    }

    /** The bytes of the header of a request, and of the header of its response. */
    JsonNode headers(JsonNode ask) {
        ApiKeys key = ApiKeys.forId(api.apiKey());
        int correlationId = ask.get("correlation_id").asInt();
        RequestHeader header = new RequestHeader(key, version(ask), ask.get("client_id").textValue(), correlationId);
        ObjectNode answer = JSON.objectNode();
        answer.put("request_bytes", bytes(header.data(), header.headerVersion()));
        ResponseHeader responseHeader = header.toResponseHeader();
        return answer.put("response_bytes", bytes(responseHeader.data(), responseHeader.headerVersion()));
    }

    /** The message of which nothing was set. */
    JsonNode unset(JsonNode ask) {
        return JSON.binaryNode(bytes(empty(), version(ask)));
    }

    /** Random messages, each as bytes, as the same bytes with unknown tagged fields added, and as JSON. */
    JsonNode random(JsonNode ask) throws Exception {
        short version = version(ask);
        ArrayNode answer = JSON.arrayNode();
        for (int index = 0; index < ask.get("count").asInt(); index++) {
            ApiMessage message = random(ask, index, false);
            ObjectNode row = answer.addObject();
            row.put("bytes", bytes(message, version));
            row.put("bytes_unknown_tags", bytes(random(ask, index, true), version));
            row.set("json", json(message, version));
        }
        return answer;
    }

    /** Whether each of the given bytes reads as the random message that the same seed made. */
    JsonNode same(JsonNode ask) throws IOException {
        ArrayNode answer = JSON.arrayNode();
        JsonNode messages = ask.get("messages");
        for (int index = 0; index < messages.size(); index++) {
            answer.add(random(ask, index, false).equals(message(messages.get(index).binaryValue(), version(ask))));
        }
        return answer;
    }

    /** Reads messages made elsewhere: whether their bytes and their JSON are the same object, and its bytes. */
    JsonNode read(JsonNode ask) throws Exception {
        short version = version(ask);
        ArrayNode answer = JSON.arrayNode();
        for (JsonNode row : ask.get("messages")) {
            ApiMessage message = message(row.get("bytes").binaryValue(), version);
            ObjectNode read = answer.addObject();
            read.put("same", message.equals(message(row.get("json"), version)));
            read.put("bytes", bytes(message, version));
        }
        return answer;
    }

    /** Bytes of one version as bytes of another one; null where the other version has no place for what is set. */
    JsonNode convert(JsonNode ask) throws IOException {
        ArrayNode answer = JSON.arrayNode();
        for (JsonNode row : ask.get("messages")) {
            ApiMessage message = message(row.binaryValue(), version(ask));
            ArrayNode converted = answer.addArray();
            for (JsonNode to : ask.get("to")) {
                try {
                    converted.add(bytes(message, (short) to.asInt()));
                } catch (RuntimeException refused) { // UnsupportedVersionException, or null where it is not allowed
                    converted.addNull();
                }
            }
        }
        return answer;
    }

    private ApiMessage random(JsonNode ask, int index, boolean unknownTags) {
        long seed = ask.get("seed").asLong();
        RandomStructs random = new RandomStructs(seed, index, ask.get("big").asBoolean(), unknownTags);
        Struct struct = random.struct(schema(version(ask)));
        ByteBuffer buffer = ByteBuffer.allocate(struct.sizeOf());
        struct.writeTo(buffer);
        return message(buffer.array(), version(ask));
    }

    private ApiMessage empty() {
        return request ? api.newRequest() : api.newResponse();
    }

    private Schema schema(short version) {
        return (request ? api.requestSchemas() : api.responseSchemas())[version];
    }

    private ApiMessage message(byte[] bytes, short version) {
        ApiMessage message = empty();
        ByteBufferAccessor reader = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        message.read(reader, version);
        if (reader.remaining() > 0) {
            throw new IllegalArgumentException(reader.remaining() + " bytes are left over");
        }
        return message;
    }

    private ApiMessage message(JsonNode json, short version) throws Exception {
        return (ApiMessage) converter().getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
    }

    private JsonNode json(ApiMessage message, short version) throws Exception {
        Method write = converter().getMethod("write", message.getClass(), short.class, boolean.class);
        JsonNode json = (JsonNode) write.invoke(null, message, version, true);
        if (message instanceof ProduceRequestData) {
            fillRecords(json, (ProduceRequestData) message);
        } else if (message instanceof FetchResponseData) {
            fillRecords(json, (FetchResponseData) message);
        }
        return json;
    }

    private Class<?> converter() throws ClassNotFoundException {
        return Class.forName(empty().getClass().getName() + "JsonConverter");
    }

    /** Kafka's converters write records as an empty string; this puts the bytes in. */
    private static void fillRecords(JsonNode json, ProduceRequestData message) {
        int topicIndex = 0;
        for (ProduceRequestData.TopicProduceData topic : message.topicData()) {
            JsonNode partitions = json.get("topicData").get(topicIndex++).get("partitionData");
            for (int index = 0; index < partitions.size(); index++) {
                fillRecords(partitions.get(index), (MemoryRecords) topic.partitionData().get(index).records());
            }
        }
    }

    private static void fillRecords(JsonNode json, FetchResponseData message) {
        int topicIndex = 0;
        for (FetchResponseData.FetchableTopicResponse topic : message.responses()) {
            JsonNode partitions = json.get("responses").get(topicIndex++).get("partitions");
            for (int index = 0; index < partitions.size(); index++) {
                fillRecords(partitions.get(index), (MemoryRecords) topic.partitions().get(index).records());
            }
        }
    }

    private static void fillRecords(JsonNode partition, MemoryRecords records) {
        if (records != null) {
            ((ObjectNode) partition).put("records", array(records.buffer()));
        }
    }

    private static short version(JsonNode ask) {
        return (short) ask.get("version").asInt();
    }

    private static byte[] bytes(ApiMessage message, short version) {
        return array(MessageUtil.toByteBufferAccessor(message, version).buffer());
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
