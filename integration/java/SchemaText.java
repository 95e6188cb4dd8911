import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Kafka's schema of one message version as JSON.
 *
 * <p>A primitive is Kafka's name for it ("INT32", "COMPACT_NULLABLE_STRING"). An array is {"array": element, "compact":
 * bool, "nullable": bool}. A struct is {"fields": [[name, type], ...], "tagged": {tag: [name, type]} or null where it
 * has no tag section, "nullable": bool}.
 */
final class SchemaText {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private SchemaText() {}

    static JsonNode describe(Type type) {
        if (type instanceof Schema) {
            return describeStruct((Schema) type);
        }
        if (type.isArray()) {
            ObjectNode array = JSON.objectNode();
            array.set("array", describe(type.arrayElementType().get()));
            return array.put("compact", type instanceof CompactArrayOf).put("nullable", type.isNullable());
        }
        return JSON.textNode(type.toString());
    }

    private static JsonNode describeStruct(Schema schema) {
        ObjectNode struct = JSON.objectNode().put("nullable", schema.isNullable());
        ArrayNode fields = struct.putArray("fields");
        struct.putNull("tagged");
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields) {
                ObjectNode tagged = struct.putObject("tagged");
                for (Map.Entry<Integer, Field> entry : ((TaggedFields) field.def.type).fields().entrySet()) {
                    tagged.set(entry.getKey().toString(), nameAndType(entry.getValue()));
                }
            } else {
                fields.add(nameAndType(field.def));
            }
        }
        return struct;
    }

    private static ArrayNode nameAndType(Field field) {
        return JSON.arrayNode().add(field.name).add(describe(field.type));
    }
}
