import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/**
 * Record batches between bytes and JSON.
 *
 * <p>A batch is {"codec", "base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch",
 * "base_sequence", "transactional", "append_time": ms or null, "marker": null or "COMMIT" or "ABORT", "records"}; a
 * record is {"offset", "timestamp", "key", "value", "headers": [[name, value], ...]}, with bytes in base64. A batch with
 * a marker is a control batch of its one record, whose key and value Kafka makes from "coordinator_epoch". A batch
 * without records is what compaction leaves of one. Reading adds what Kafka derives: "last_sequence", "max_timestamp".
 */
final class Batches {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private Batches() {}

    /** All batches one after another, as bytes. */
    static JsonNode write(JsonNode batches) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (JsonNode batch : batches) {
            boolean empty = batch.get("records").isEmpty();
            bytes.write(Utils.toArray(empty ? writeEmpty(batch) : writeRecords(batch).buffer()));
        }
        return JSON.binaryNode(bytes.toByteArray());
    }

    private static ByteBuffer writeEmpty(JsonNode batch) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(
                buffer,
                RecordBatch.MAGIC_VALUE_V2,
                batch.get("producer_id").asLong(),
                (short) batch.get("producer_epoch").asInt(),
                batch.get("base_sequence").asInt(),
                batch.get("base_offset").asLong(),
                batch.get("last_offset").asLong(),
                batch.get("leader_epoch").asInt(),
                TimestampType.CREATE_TIME,
                RecordBatch.NO_TIMESTAMP,
                batch.get("transactional").asBoolean(),
                false);
        buffer.flip();
        return buffer;
    }

    private static MemoryRecords writeRecords(JsonNode batch) throws IOException {
        String marker = batch.get("marker").textValue();
        boolean append = !batch.get("append_time").isNull();
        try (MemoryRecordsBuilder builder =
                MemoryRecords.builder(
                        ByteBuffer.allocate(1024),
                        RecordBatch.MAGIC_VALUE_V2,
                        Compression.of(batch.get("codec").asText()).build(),
                        append ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                        batch.get("base_offset").asLong(),
                        append ? batch.get("append_time").asLong() : RecordBatch.NO_TIMESTAMP,
                        batch.get("producer_id").asLong(),
                        (short) batch.get("producer_epoch").asInt(),
                        batch.get("base_sequence").asInt(),
                        batch.get("transactional").asBoolean(),
                        marker != null,
                        batch.get("leader_epoch").asInt())) {
            for (JsonNode record : batch.get("records")) {
                if (marker == null) {
                    append(builder, record);
                } else {
                    ControlRecordType type = ControlRecordType.valueOf(marker);
                    builder.appendEndTxnMarker(
                            record.get("timestamp").asLong(),
                            new EndTransactionMarker(type, batch.get("coordinator_epoch").asInt()));
                }
            }
            builder.overrideLastOffset(batch.get("last_offset").asLong());
            return builder.build();
        }
    }

    private static void append(MemoryRecordsBuilder builder, JsonNode record) throws IOException {
        Header[] headers = new Header[record.get("headers").size()];
        for (int index = 0; index < headers.length; index++) {
            JsonNode header = record.get("headers").get(index);
            headers[index] = new RecordHeader(header.get(0).asText(), header.get(1).binaryValue());
        }
        builder.appendWithOffset(
                record.get("offset").asLong(),
                record.get("timestamp").asLong(),
                record.get("key").binaryValue(),
                record.get("value").binaryValue(),
                headers);
    }

    /** Every batch of `bytes`, checked as a broker and a consumer check it. */
    static JsonNode read(byte[] bytes) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        if (records.validBytes() != bytes.length) {
            throw new IllegalArgumentException("only " + records.validBytes() + " bytes are whole batches");
        }
        ArrayNode answer = JSON.arrayNode();
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            answer.add(read(batch));
        }
        return answer;
    }

    private static ObjectNode read(RecordBatch batch) {
        boolean append = batch.timestampType() == TimestampType.LOG_APPEND_TIME;
        ObjectNode json = JSON.objectNode();
        json.put("codec", batch.compressionType().name);
        json.put("base_offset", batch.baseOffset()).put("last_offset", batch.lastOffset());
        json.put("leader_epoch", batch.partitionLeaderEpoch());
        json.put("producer_id", batch.producerId()).put("producer_epoch", batch.producerEpoch());
        json.put("base_sequence", batch.baseSequence()).put("last_sequence", batch.lastSequence());
        json.put("transactional", batch.isTransactional()).put("max_timestamp", batch.maxTimestamp());
        json.put("append_time", append ? (Long) batch.maxTimestamp() : null);
        json.putNull("marker");
        ArrayNode rows = json.putArray("records");
        int count = 0;
        for (Record record : batch) {
            record.ensureValid();
            if (batch.isControlBatch()) {
                json.put("marker", ControlRecordType.parse(record.key()).name());
            }
            rows.add(read(record));
            count++;
        }
        if (count != batch.countOrNull()) {
            throw new IllegalArgumentException("the batch says " + batch.countOrNull() + " records and has " + count);
        }
        return json;
    }

    private static ObjectNode read(Record record) {
        ObjectNode json = JSON.objectNode();
        json.put("offset", record.offset()).put("timestamp", record.timestamp());
        json.put("key", Utils.toNullableArray(record.key()));
        json.put("value", Utils.toNullableArray(record.value()));
        ArrayNode headers = json.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return json;
    }
}
