import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Confluent's parallel-consumer as a contender: arguments are those of `Job`, output is one line of JSON. */
public class ParallelWork {
    private static final AtomicLong begun = new AtomicLong();
    private static final AtomicLong ended = new AtomicLong();
    private static final AtomicLong overlaps = new AtomicLong();
    private static final Set<String> busy = ConcurrentHashMap.newKeySet();
    private static final CountDownLatch done = new CountDownLatch(1);
    private static volatile long startNs, startCpuNs, endNs, endCpuNs;

    public static void main(String[] given) throws Exception {
        long records = Long.parseLong(given[4]), warmUp = Long.parseLong(given[5]);
        long waitMs = Long.parseLong(given[6]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[1]);
        settings.put("group.id", given[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new ByteArrayDeserializer());
        var options = ParallelConsumerOptions.<String, byte[]>builder()
                .ordering(ParallelConsumerOptions.ProcessingOrder.valueOf(given[0]))
                .maxConcurrency(Integer.parseInt(given[7]))
                .consumer(consumer)
                .build();
        try (var processor = ParallelStreamProcessor.createEosStreamProcessor(options)) {
            processor.subscribe(List.of(given[2]));
            processor.poll(context -> handle(context.getSingleConsumerRecord().key(), records, warmUp, waitMs));
            done.await();
            double measured = records - warmUp;
            System.out.printf(
                    Locale.ROOT,
                    "{\"cpu_us\": %.2f, \"records_per_s\": %.1f, \"peak_mb\": %.1f, \"overlaps\": %d}%n",
                    (endCpuNs - startCpuNs) / 1e3 / measured,
                    measured / ((endNs - startNs) / 1e9),
                    ProcessCosts.peakMb(),
                    overlaps.get());
            System.out.flush();
        }
    }

    private static void handle(String key, long records, long warmUp, long waitMs) {
        if (begun.getAndIncrement() == warmUp) {
            startNs = System.nanoTime();
            startCpuNs = ProcessCosts.cpuNs();
        }
        if (waitMs > 0) {
            if (!busy.add(key)) {
                overlaps.incrementAndGet();
            }
            try {
                Thread.sleep(waitMs);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            busy.remove(key);
        }
        if (ended.incrementAndGet() == records) {
            endNs = System.nanoTime();
            endCpuNs = ProcessCosts.cpuNs();
            done.countDown();
        }
    }
}
