import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Load with the Java client. Does what the module `librdkafka` does, call by call and word by word:
 * a line says what to do, "ready" is the reply when all is connected, and "go" starts the clock.
 */
public final class Load {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final Map<String, String> words;
    private final BufferedReader input;

    private Load(Map<String, String> words, BufferedReader input) {
        this.words = words;
        this.input = input;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, String> words = new HashMap<>();
            for (String word : line.split(" ")) {
                String[] parts = word.split("=", 2);
                words.put(parts[0], parts.length == 2 ? parts[1] : "");
            }
            try {
                say(new Load(words, input).measured(line.split(" ")[0]));
            } catch (Exception refusal) {
                say("error " + refusal.toString().replace('\n', ' '));
            }
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private String measured(String call) throws Exception {
        return switch (call) {
            case "produce" -> produce();
            case "send_one" -> sendOne();
            case "transactions" -> transactions();
            case "consume" -> consume();
            default -> throw new IllegalArgumentException(call);
        };
    }

    private int number(String word) {
        return Integer.parseInt(words.get(word));
    }

    private long duration() {
        return (long) (Double.parseDouble(words.get("seconds")) * 1e9);
    }

    /** When the clock was started. */
    private Start ready() throws Exception {
        say("ready");
        if (!"go".equals(input.readLine())) {
            throw new IllegalStateException("nobody waits for it");
        }
        return new Start(System.nanoTime(), cpu());
    }

    private record Start(long at, long cpu) {
        String spent() {
            return String.format(
                "seconds=%.6f cpu_s=%.3f", (System.nanoTime() - at) / 1e9, (Load.cpu() - cpu) / 1e9);
        }
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words.get("servers"));
        settings.put("acks", "all");
        settings.putAll(more);
        ByteArraySerializer bytes = new ByteArraySerializer();
        return new KafkaProducer<>(settings, bytes, bytes);
    }

    private String produce() throws Exception {
        int count = number("producers");
        long most = Long.parseLong(words.get("records_max")) / count;
        byte[] value = new byte[number("record_size")];
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(count);
        try {
            for (int each = 0; each < count; each++) {
                producers.add(producer(Map.of()));
                producers.get(each).send(record(value)).get();
            }
            Start start = ready();
            long sent = sum(threads, producers, producer -> sendMany(producer, value, most, start));
            return "records=" + sent + " " + start.spent();
        } finally {
            threads.shutdown();
            producers.forEach(KafkaProducer::close);
        }
    }

    private ProducerRecord<byte[], byte[]> record(byte[] value) {
        return new ProducerRecord<>(words.get("topic"), value);
    }

    private long sendMany(
            KafkaProducer<byte[], byte[]> producer, byte[] value, long most, Start start)
            throws Exception {
        AtomicReference<Exception> failure = new AtomicReference<>();
        long ends = start.at() + duration();
        long sent = 0;
        while (sent < most && (sent % 100 != 0 || System.nanoTime() < ends)) {
            producer.send(record(value), (stored, refusal) -> {
                if (refusal != null) {
                    failure.set(refusal);
                }
            });
            sent++;
        }
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
        return sent;
    }

    private String sendOne() throws Exception {
        byte[] value = new byte[number("record_size")];
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("linger.ms", "0"))) {
            producer.send(record(value)).get();
            Start start = ready();
            long ends = start.at() + duration();
            List<Long> taken = new ArrayList<>();
            long before = System.nanoTime();
            while (before < ends) {
                producer.send(record(value)).get();
                long now = System.nanoTime();
                taken.add(now - before);
                before = now;
            }
            return start.spent() + " " + inMs(taken);
        }
    }

    private static String inMs(List<Long> taken) {
        return "ms=" + taken.stream()
            .map(each -> String.format("%.4f", each / 1e6)).collect(Collectors.joining(","));
    }

    private String transactions() throws Exception {
        int count = number("producers");
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        List<Long> taken = new ArrayList<>();
        try {
            for (int each = 0; each < count; each++) {
                producers.add(producer(Map.of("transactional.id", words.get("name") + each)));
            }
            sum(threads, producers, producer -> {
                producer.initTransactions();
                transact(producer);
                return 0L;
            });
            Start start = ready();
            long ends = start.at() + duration();
            sum(threads, producers, producer -> {
                List<Long> own = new ArrayList<>();
                long before = System.nanoTime();
                while (before < ends) {
                    transact(producer);
                    long now = System.nanoTime();
                    own.add(now - before);
                    before = now;
                }
                synchronized (taken) {
                    taken.addAll(own);
                }
                return 0L;
            });
            return start.spent() + " " + inMs(taken);
        } finally {
            threads.shutdown();
            producers.forEach(KafkaProducer::close);
        }
    }

    private void transact(KafkaProducer<byte[], byte[]> producer) {
        byte[] value = new byte[number("record_size")];
        producer.beginTransaction();
        for (int partition = 0; partition < number("partitions"); partition++) {
            producer.send(new ProducerRecord<>(words.get("topic"), partition, null, value));
        }
        producer.commitTransaction();
    }

    private String consume() throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words.get("servers"));
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> places = IntStream.range(0, number("partitions"))
                .mapToObj(each -> new TopicPartition(words.get("topic"), each)).toList();
            consumer.assign(places);
            consumer.endOffsets(places);
            consumer.seekToBeginning(places);
            Start start = ready();
            long ends = start.at() + PATIENCE.toNanos();
            long records = 0;
            while (records < number("records") && System.nanoTime() < ends) {
                records += consumer.poll(Duration.ofSeconds(1)).count();
            }
            return "records=" + records + " " + start.spent();
        }
    }

    private interface Work {
        long with(KafkaProducer<byte[], byte[]> producer) throws Exception;
    }

    /** What all of them give together, each in a thread of its own. */
    private static long sum(
            ExecutorService threads, List<KafkaProducer<byte[], byte[]>> producers, Work work)
            throws Exception {
        CountDownLatch begun = new CountDownLatch(producers.size());
        List<Future<Long>> running = new ArrayList<>();
        for (KafkaProducer<byte[], byte[]> producer : producers) {
            Callable<Long> whole = () -> {
                begun.countDown();
                begun.await();
                return work.with(producer);
            };
            running.add(threads.submit(whole));
        }
        long total = 0;
        for (Future<Long> each : running) {
            total += each.get();
        }
        return total;
    }
}
