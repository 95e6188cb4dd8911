import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member by Kafka's own consumer: its only argument is a job as JSON; leaves when a line comes in. */
public final class JavaMember implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final double COMMIT_EVERY_S = 0.2;
    private static final Map<String, Class<?>> ASSIGNORS =
            Map.of(
                    "range", Range.class,
                    "roundrobin", RoundRobin.class,
                    "sticky", Sticky.class,
                    "cooperative-sticky", CooperativeSticky.class);
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final PrintStream OUT =
            new PrintStream(new BufferedOutputStream(System.out, 1 << 20), false, StandardCharsets.UTF_8);
    private static volatile boolean leaving;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private boolean uncommitted;
    private double committedAt;
    private int generation = -1;

    private JavaMember(KafkaConsumer<byte[], byte[]> consumer) {
        this.consumer = consumer;
    }

    public static void main(String[] args) throws Exception {
        JsonNode job = MAPPER.readTree(args[0]);
        Thread listening = new Thread(JavaMember::listen);
        listening.setDaemon(true);
        listening.start();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config(job), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            new JavaMember(consumer).run(strings(job.get("topics")));
        }
        tell(report("left", null));
    }

    private static void listen() {
        try {
            System.in.read();
        } catch (IOException error) {
            // its end is as good as a line
        }
        leaving = true;
    }

    private static Properties config(JsonNode job) {
        Properties config = new Properties();
        config.put("bootstrap.servers", job.get("bootstrap_servers").asText());
        config.put("group.id", job.get("group").asText());
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("max.poll.records", "20");
        config.put("max.poll.interval.ms", job.get("max_poll_interval_ms").asText());
        if (job.get("strategies").isEmpty()) {
            config.put("group.protocol", "consumer");
            return config;
        }
        config.put("session.timeout.ms", job.get("session_timeout_ms").asText());
        config.put("heartbeat.interval.ms", job.get("heartbeat_interval_ms").asText());
        config.put(
                "partition.assignment.strategy",
                strings(job.get("strategies")).stream().map(ASSIGNORS::get).collect(Collectors.toList()));
        return config;
    }

    private static List<String> strings(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(text -> found.add(text.asText()));
        return found;
    }

    private void run(List<String> topics) {
        tell(report("begins", null));
        consumer.subscribe(topics, this);
        while (!leaving) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            // Where the brokers assign, an epoch in which nothing changes is not worth a callback.
            if (consumer.groupMetadata().generationId() > generation) {
                onPartitionsAssigned(List.of());
            }
            handle(records);
            if (now() > committedAt + COMMIT_EVERY_S) {
                commit();
            }
        }
        tell(report("leaves", consumer.groupMetadata()));
    }

    private void handle(ConsumerRecords<byte[], byte[]> records) {
        for (TopicPartition partition : records.partitions()) {
            ObjectNode report = report("handled", consumer.groupMetadata());
            put(report.putArray("partitions"), partition);
            ArrayNode offsets = report.putArray("offsets");
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                String value = new String(record.value(), StandardCharsets.US_ASCII);
                if (!value.equals(Long.toString(record.offset()))) {
                    throw new IllegalStateException("offset " + record.offset() + " holds " + value);
                }
                offsets.add(record.offset());
            }
            tell(report);
            uncommitted = true;
        }
    }

    /** What fails is tried again with what comes later, as long as the partitions stay. */
    private void commit() {
        committedAt = now();
        if (!uncommitted) {
            return;
        }
        ObjectNode report = report("committed", consumer.groupMetadata());
        ArrayNode partitions = report.putArray("partitions");
        ArrayNode offsets = report.putArray("offsets");
        for (TopicPartition partition : consumer.assignment()) {
            put(partitions, partition);
            offsets.add(consumer.position(partition));
        }
        try {
            consumer.commitSync();
            uncommitted = false;
        } catch (CommitFailedException | RebalanceInProgressException error) {
            report = report("refused", consumer.groupMetadata()).put("why", error.toString());
        }
        tell(report.put("at", now()));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        generation = consumer.groupMetadata().generationId();
        tell("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        tell("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", partitions);
    }

    private void tell(String said, Collection<TopicPartition> partitions) {
        ObjectNode report = report(said, consumer.groupMetadata());
        ArrayNode array = report.putArray("partitions");
        partitions.forEach(partition -> put(array, partition));
        tell(report);
    }

    private static GroupAssignment leads(GroupAssignment assignment) {
        ObjectNode report = report("leads", null);
        ObjectNode members = report.putObject("assignment");
        assignment
                .groupAssignment()
                .forEach(
                        (member, of) -> {
                            ArrayNode array = members.putArray(member);
                            of.partitions().forEach(partition -> put(array, partition));
                        });
        tell(report);
        return assignment;
    }

    private static void put(ArrayNode array, TopicPartition partition) {
        array.addArray().add(partition.topic()).add(partition.partition());
    }

    private static ObjectNode report(String said, ConsumerGroupMetadata metadata) {
        ObjectNode report = JsonNodeFactory.instance.objectNode().put("said", said).put("at", now());
        return metadata == null
                ? report
                : report.put("member", metadata.memberId()).put("generation", metadata.generationId());
    }

    /** Linux has one monotonic clock for all processes; Python's `time.monotonic` reads the same. */
    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private static synchronized void tell(ObjectNode report) {
        OUT.print(report + "\n");
        OUT.flush();
    }

    /** Each tells what it assigns, which makes its member the leader. */
    public static final class Range extends RangeAssignor {
        @Override
        public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
            return leads(super.assign(cluster, subscriptions));
        }
    }

    public static final class RoundRobin extends RoundRobinAssignor {
        @Override
        public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
            return leads(super.assign(cluster, subscriptions));
        }
    }

    public static final class Sticky extends StickyAssignor {
        @Override
        public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
            return leads(super.assign(cluster, subscriptions));
        }
    }

    public static final class CooperativeSticky extends CooperativeStickyAssignor {
        @Override
        public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
            return leads(super.assign(cluster, subscriptions));
        }
    }
}
