import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Random values for any schema; the same seed and index give the same values.
 *
 * <p>Index 0 is sparse (null, empty, no tagged fields wherever that is allowed), index 1 full (nothing null or empty,
 * each tagged field present), every later one a mixture. Unknown tagged fields come from a random source of their own,
 * so that they leave the rest as it is.
 */
final class RandomStructs {
    private static final int[] CODE_POINTS = {
        'a', 'Z', '9', '-', '.', ' ', 0, '\n', 0xe9, 0x7ff, 0x800, 0x20ac, 0xffff, 0x1f600
    };
    private static final long[] NUMBERS = {0, 1, -1, 2, 127, 128, 255, 16383, 16384, Long.MAX_VALUE, Long.MIN_VALUE};

    private final Random random;
    private final Random unknownTags;
    private final int index;
    private final boolean big;
    private int elementsLeft = 300; // nested arrays would multiply

    RandomStructs(long seed, int index, boolean big, boolean unknownTags) {
        this.random = new Random(seed * 1_000_003 + index);
        this.unknownTags = unknownTags ? new Random(seed) : null;
        this.index = index;
        this.big = big;
    }

    Struct struct(Schema schema) {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, value(field.def.type));
        }
        return struct;
    }

    private Object value(Type type) {
        if (type.isNullable() && !present(0.8)) {
            return null;
        }
        if (type instanceof Schema) {
            return struct((Schema) type);
        }
        if (type.isArray()) {
            return array(type.arrayElementType().get());
        }
        if (type instanceof TaggedFields) {
            return taggedFields(((TaggedFields) type).fields());
        }
        return primitive(type.toString().replace("COMPACT_", "").replace("NULLABLE_", ""));
    }

    private Object primitive(String type) {
        switch (type) {
            case "BOOLEAN":
                return present(0.5);
            case "INT8":
                return (byte) number(Byte.SIZE);
            case "INT16":
                return (short) number(Short.SIZE);
            case "INT32":
                return (int) number(Integer.SIZE);
            case "INT64":
                return number(Long.SIZE);
            case "UUID":
                return index == 0 ? Uuid.ZERO_UUID : new Uuid(number(Long.SIZE), number(Long.SIZE));
            case "STRING":
                return text();
            case "BYTES":
                return ByteBuffer.wrap(bytes(random, size()));
            case "RECORDS":
                return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(random, size())));
            default:
                throw new IllegalArgumentException("no random values for " + type);
        }
    }

    private Object[] array(Type element) {
        int size = index == 0 || elementsLeft <= 0 ? 0 : index == 1 ? 2 : arraySize();
        elementsLeft -= size;
        Object[] array = new Object[size];
        for (int i = 0; i < size; i++) {
            array[i] = value(element);
        }
        return array;
    }

    private int arraySize() {
        return big && random.nextInt(20) == 0 ? 100 + random.nextInt(100) : random.nextInt(4);
    }

    private NavigableMap<Integer, Object> taggedFields(Map<Integer, Field> known) {
        NavigableMap<Integer, Object> tagged = new TreeMap<>();
        for (Map.Entry<Integer, Field> entry : known.entrySet()) {
            if (present(0.6)) {
                tagged.put(entry.getKey(), value(entry.getValue().type));
            }
        }
        if (unknownTags != null) {
            for (int tag : new int[] {100, 101 + unknownTags.nextInt(100_000), Integer.MAX_VALUE - 1}) {
                tagged.put(tag, new RawTaggedField(tag, bytes(unknownTags, unknownTags.nextInt(big ? 200 : 10))));
            }
        }
        return tagged;
    }

    private boolean present(double probability) {
        return index == 1 || (index > 1 && random.nextDouble() < probability);
    }

    private long number(int bits) {
        if (index == 0) {
            return 0;
        }
        long number = index > 1 && random.nextBoolean() ? NUMBERS[random.nextInt(NUMBERS.length)] : random.nextLong();
        return number >> (number == Long.MAX_VALUE || number == Long.MIN_VALUE ? Long.SIZE - bits : 0);
    }

    private String text() {
        if (index == 0) {
            return "";
        }
        StringBuilder text = new StringBuilder();
        for (int left = size(); left > 0; left--) {
            text.appendCodePoint(CODE_POINTS[random.nextInt(CODE_POINTS.length)]);
        }
        return text.toString();
    }

    /** Strings take up to four times as many bytes, and no string is longer than 32,767 bytes. */
    private int size() {
        int limit = big && random.nextInt(100) == 0 ? Short.MAX_VALUE / 4 : big && random.nextInt(10) == 0 ? 200 : 10;
        return index == 0 ? 0 : index == 1 ? 1 + random.nextInt(limit) : random.nextInt(limit + 1);
    }

    private static byte[] bytes(Random source, int size) {
        byte[] bytes = new byte[size];
        source.nextBytes(bytes);
        return bytes;
    }
}
