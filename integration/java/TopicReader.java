import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads a whole topic with Kafka's consumer and answers {partition: {"count", "sha256"}}. */
final class TopicReader {
    private TopicReader() {}

    static JsonNode read(JsonNode ask) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", ask.get("bootstrap").asText());
        config.put("isolation.level", ask.get("isolation").asText());
        config.put("check.crcs", "true");
        config.put("enable.auto.commit", "false");
        Map<Integer, Digest> digests = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions =
                    consumer.partitionsFor(ask.get("topic").asText()).stream()
                            .map(info -> new TopicPartition(info.topic(), info.partition()))
                            .collect(Collectors.toList());
            for (TopicPartition partition : partitions) {
                digests.put(partition.partition(), new Digest());
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> unread = new HashMap<>(consumer.endOffsets(partitions));
            long deadline = System.nanoTime() + Duration.ofSeconds(ask.get("timeout_s").asLong()).toNanos();
            while (true) {
                unread.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
                if (unread.isEmpty()) {
                    break;
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not all was read in time, the ends are " + unread);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    digests.get(record.partition()).add(record);
                }
            }
        }
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        digests.forEach((partition, digest) -> answer.set(partition.toString(), digest.answer()));
        return answer;
    }

    /** The records of one partition in a checksum; `PartitionDigest` in Python defines the layout. */
    private static final class Digest {
        private final MessageDigest sha256;
        private final DataOutputStream out;
        private long count;

        Digest() throws NoSuchAlgorithmException {
            sha256 = MessageDigest.getInstance("SHA-256");
            out = new DataOutputStream(new DigestOutputStream(OutputStream.nullOutputStream(), sha256));
        }

        void add(ConsumerRecord<byte[], byte[]> record) throws IOException {
            count++;
            out.writeLong(record.offset());
            out.writeLong(record.timestamp());
            add(record.key());
            add(record.value());
            Header[] headers = record.headers().toArray();
            out.writeInt(headers.length);
            for (Header header : headers) {
                add(header.key().getBytes(StandardCharsets.UTF_8));
                add(header.value());
            }
        }

        private void add(byte[] bytes) throws IOException {
            out.writeInt(bytes == null ? -1 : bytes.length);
            if (bytes != null) {
                out.write(bytes);
            }
        }

        ObjectNode answer() {
            ObjectNode json = JsonNodeFactory.instance.objectNode();
            return json.put("count", count).put("sha256", HexFormat.of().formatHex(sha256.digest()));
        }
    }
}
