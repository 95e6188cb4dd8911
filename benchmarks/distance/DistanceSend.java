import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's producer as a contender: arguments are those of `Job`, output is one line of JSON. */
public class DistanceSend {
    private static final AtomicLong acknowledged = new AtomicLong();
    private static final AtomicInteger sampled = new AtomicInteger();
    private static long[] latenciesNs;
    private static volatile long begunNs = Long.MAX_VALUE;

    public static void main(String[] given) throws Exception {
        double warmUp = Double.parseDouble(given[4]), seconds = Double.parseDouble(given[5]);
        int rate = Integer.parseInt(given[6]);
        latenciesNs = new long[(int) (rate * (warmUp + seconds) * 2)];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        for (int i = 7; i < given.length; i++) {
            String[] pair = given[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        byte[][] keys = Arrays.stream(given[2].split(","))
                .map(key -> key.isEmpty() ? null : key.getBytes(StandardCharsets.UTF_8))
                .toArray(byte[][]::new);
        byte[] value = new byte[Integer.parseInt(given[3])];
        Arrays.fill(value, (byte) 'x');
        var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.partitionsFor(given[1]);
        Thread sender = new Thread(() -> send(producer, given[1], keys, value, rate));
        sender.setDaemon(true);
        sender.start();
        Thread.sleep((long) (warmUp * 1000));
        long startNs = begunNs = System.nanoTime();
        long startCpuNs = ProcessCosts.cpuNs(), before = acknowledged.get();
        Thread.sleep((long) (seconds * 1000));
        double records = acknowledged.get() - before;
        double wallS = (System.nanoTime() - startNs) / 1e9;
        double cpuUs = (ProcessCosts.cpuNs() - startCpuNs) / 1e3;
        System.out.printf(
                Locale.ROOT,
                "{\"records_per_s\": %.1f, \"cpu_us\": %.3f, \"peak_mb\": %.1f, \"p50_ms\": %s, \"p99_ms\": %s}%n",
                records / wallS,
                cpuUs / records,
                ProcessCosts.peakMb(),
                percentile(50),
                percentile(99));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Sends until the process ends: as fast as there is room, or at a rate. */
    private static void send(
            KafkaProducer<byte[], byte[]> producer, String topic, byte[][] keys, byte[] value, int rate) {
        long dueNs = System.nanoTime();
        for (int i = 0; ; i = (i + 1) % keys.length) {
            if (rate > 0) {
                for (long leftNs; (leftNs = dueNs - System.nanoTime()) > 0; ) {
                    LockSupport.parkNanos(leftNs);
                }
                dueNs += 1_000_000_000L / rate;
            }
            long sentNs = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, keys[i], value), (metadata, error) -> {
                if (error != null) {
                    error.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
                acknowledged.getAndIncrement();
                if (rate > 0 && System.nanoTime() >= begunNs && sampled.get() < latenciesNs.length) {
                    latenciesNs[sampled.get()] = System.nanoTime() - sentNs;
                    sampled.getAndIncrement();
                }
            });
        }
    }

    private static String percentile(int percent) {
        int count = sampled.get();
        if (count == 0) {
            return "null";
        }
        long[] ordered = Arrays.copyOf(latenciesNs, count);
        Arrays.sort(ordered);
        return String.format(Locale.ROOT, "%.3f", ordered[Math.min(count - 1, count * percent / 100)] / 1e6);
    }
}
