import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's clients do what a service does: create a topic, produce, produce in transactions, and read as a group by each
 * protocol. Arguments: the servers, and a topic to create. Prints a line for each step.
 */
public final class Clients {
    private static final int RECORDS = 1000;
    private static final long LIMIT_MS = 60_000;

    private final String servers;
    private final String topic;

    private Clients(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        Clients clients = new Clients(arguments[0], arguments[1]);
        clients.createTopic();
        clients.produce();
        clients.produceInTransactions();
        for (String protocol : List.of("classic", "consumer")) {
            clients.readAsGroup(protocol);
        }
        clients.describe();
    }

    private Properties properties(Map<String, String> more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.putAll(more);
        return properties;
    }

    private void createTopic() throws Exception {
        try (Admin admin = Admin.create(properties(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            System.out.println("created " + admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
        }
    }

    private void produce() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties(Map.of("compression.type", "lz4")))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "k" + number % 7, "v" + number)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
            System.out.println("acknowledged " + sent.size());
        }
    }

    private void produceInTransactions() {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties(Map.of("transactional.id", topic)))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "k", "committed"));
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "k", "aborted"));
            producer.flush();
            producer.abortTransaction();
            System.out.println("committed 1");
        }
    }

    private void readAsGroup(String protocol) {
        Properties properties = properties(Map.of(
            "group.id", topic + "-" + protocol, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "enable.auto.commit", "false"));
        Set<String> values = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + LIMIT_MS;
            while (values.size() < RECORDS + 1 && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
            long committed = consumer.committed(consumer.assignment()).values().stream().mapToLong(at -> at == null ? 0 : at.offset()).sum();
            System.out.println("read " + protocol + " " + values.size() + " " + values.contains("aborted") + " " + (committed >= values.size()));
        }
    }

    private void describe() throws Exception {
        try (Admin admin = Admin.create(properties(Map.of()))) {
            System.out.println("groups " + admin.listGroups().all().get().stream()
                .map(group -> group.groupId()).filter(name -> name.startsWith(topic)).sorted().collect(Collectors.joining(" ")));
        }
    }
}
