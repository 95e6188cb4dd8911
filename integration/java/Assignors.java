import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What the assignors of Kafka's consumer make of a group, in one or in many orders of its maps, and how long they take.
 *
 * <p>A group is {"topics": {name: [the racks of each partition's replicas]}, "members": {id: {"topics", "owned":
 * {topic: [partitions]}, "generation", "rack", "instance", "is_old"}}}. A member that "is_old" says its generation in its
 * user data only: the first versions of the subscription have no field for it.
 */
final class Assignors {
    private static final String[] NAMES = {"range", "roundrobin", "sticky", "cooperative-sticky"};
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private final JsonNode group;

    /** Text behind each name of members and topics: it changes their hashes, but not how they sort. */
    private final String suffix;

    private Assignors(JsonNode group, int order) {
        this.group = group;
        this.suffix = "\1".repeat(order);
    }

    /**
     * For each of "groups" by assignor the different answers in "orders" orders of Java's maps, each {member: [[topic,
     * partition], ...]} or the text of an error. The first one is that of a HashMap filled in the order given.
     */
    static JsonNode assign(JsonNode ask) {
        List<JsonNode> groups = new ArrayList<>();
        ask.get("groups").forEach(groups::add);
        ArrayNode answer = JSON.arrayNode();
        groups.parallelStream()
                .map(group -> answers(group, ask.get("orders").asInt()))
                .forEachOrdered(answer::add);
        return answer;
    }

    /**
     * How long "assignor" takes for "group", in each of "runs", and the largest heap it came to, garbage included:
     * {"seconds": [...], "bytes"}. Null if it takes longer than "limit_s" seconds in all, and goes on taking them.
     */
    static JsonNode time(JsonNode ask) throws Exception {
        Assignors asked = new Assignors(ask.get("group"), 0);
        String name = ask.get("assignor").asText();
        GroupSubscription members = new GroupSubscription(new HashMap<>(asked.subscriptions(name)));
        Cluster cluster = asked.cluster();
        ObjectNode answer = JSON.objectNode();
        ArrayNode seconds = answer.putArray("seconds");
        long before = usedHeap();
        Thread runs = new Thread(() -> {
            for (int run = 0; run < ask.get("runs").asInt(); run++) {
                long start = System.nanoTime();
                assignor(name).assign(cluster, members);
                seconds.add((System.nanoTime() - start) / 1e9);
            }
        });
        runs.setDaemon(true);
        runs.start();
        runs.join(ask.get("limit_s").asInt() * 1000L);
        if (runs.isAlive()) {
            return JSON.nullNode();
        }
        long peak = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            peak += pool.getType() == MemoryType.HEAP ? pool.getPeakUsage().getUsed() : 0;
        }
        return answer.put("bytes", peak - before);
    }

    /** The bytes in use after a collection, from which on the peak is counted. */
    private static long usedHeap() {
        System.gc();
        ManagementFactory.getMemoryPoolMXBeans().forEach(MemoryPoolMXBean::resetPeakUsage);
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private static JsonNode answers(JsonNode group, int orders) {
        ObjectNode answers = JSON.objectNode();
        for (String name : NAMES) {
            Set<JsonNode> different = new LinkedHashSet<>();
            for (int order = 0; order < orders; order++) {
                different.add(new Assignors(group, order).assigned(name, order));
            }
            answers.set(name, JSON.arrayNode().addAll(different));
        }
        return answers;
    }

    private JsonNode assigned(String name, int order) {
        Map<String, Subscription> given = subscriptions(name);
        List<String> ids = new ArrayList<>(given.keySet());
        if (order > 0) {
            Collections.shuffle(ids, new Random(order));
        }
        Map<String, Subscription> members = order > 0 ? new LinkedHashMap<>() : new HashMap<>();
        ids.forEach(id -> members.put(id, given.get(id)));
        return assigned(assignor(name), members);
    }

    private JsonNode assigned(ConsumerPartitionAssignor assignor, Map<String, Subscription> members) {
        try {
            ObjectNode answer = JSON.objectNode();
            new TreeMap<>(assignor.assign(cluster(), new GroupSubscription(members)).groupAssignment())
                    .forEach((id, assignment) -> {
                        ArrayNode partitions = answer.putArray(original(id));
                        for (TopicPartition tp : assignment.partitions()) {
                            partitions.addArray().add(original(tp.topic())).add(tp.partition());
                        }
                    });
            return answer;
        } catch (RuntimeException error) {
            return JSON.textNode(error.toString());
        }
    }

    private String original(String name) {
        return name.substring(0, name.length() - suffix.length());
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            default:
                return new CooperativeStickyAssignor();
        }
    }

    private Cluster cluster() {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        group.get("topics").fields().forEachRemaining(topic -> {
            for (int index = 0; index < topic.getValue().size(); index++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(index)) {
                    replicas.add(nodes.computeIfAbsent(
                            rack.asText(), name -> new Node(nodes.size(), "host", 9092, name)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey() + suffix, index, null, all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private Map<String, Subscription> subscriptions(String assignor) {
        Map<String, Subscription> members = new LinkedHashMap<>();
        group.get("members").fields().forEachRemaining(
                member -> members.put(member.getKey() + suffix, subscription(assignor, member.getValue())));
        return members;
    }

    private Subscription subscription(String assignor, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText() + suffix));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").fields().forEachRemaining(topic -> topic.getValue().forEach(
                index -> owned.add(new TopicPartition(topic.getKey() + suffix, index.asInt()))));
        int generation = member.get("generation").asInt();
        Subscription subscription = new Subscription(
                topics,
                userData(assignor(assignor), owned, generation),
                owned,
                member.get("is_old").asBoolean() ? -1 : generation,
                Optional.ofNullable(member.get("rack").textValue()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
        return subscription;
    }

    /** What the assignor of a member says that got these partitions in that generation. */
    private static ByteBuffer userData(ConsumerPartitionAssignor assignor, List<TopicPartition> owned, int generation) {
        assignor.onAssignment(
                new Assignment(owned), new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        return assignor.subscriptionUserData(Set.of());
    }
}
