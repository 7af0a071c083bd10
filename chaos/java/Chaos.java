import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * The clients of Apache Kafka under torture, with their own defaults but for how long they wait for
 * an answer. What they were told is printed, one operation of a history to a line, until standard
 * input ends. A line that begins with an exclamation mark is a failure.
 */
public final class Chaos {
    private static final int REQUEST_TIMEOUT_MS = 2_000;
    private static final int END_S = 60;
    private static final int QUEUED_MAX = 200;
    private static final int SENDS_PER_TURN = 5;
    private static final int TURN_MS = 100;
    private static final int RECORDS_MAX = 6;
    private static final int ABORTED_OF_TEN = 1;
    private static final Duration POLL = Duration.ofMillis(200);
    private static final String STRING = "org.apache.kafka.common.serialization.String";
    private static final Map<String, Integer> PARTITIONS = Map.of("plain", 3, "left", 2, "right", 1);

    private static volatile boolean isStopping;

    private final String servers;
    private final Random random;

    private Chaos(String servers, long seed) {
        this.servers = servers;
        this.random = new Random(seed);
    }

    /** Arguments: the servers, a seed. */
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        long seed = Long.parseLong(arguments[1]);
        List<Thread> threads = List.of(
            thread(() -> new Chaos(servers, seed).produce("java-idempotent")),
            thread(() -> new Chaos(servers, seed + 1).transact("java-transactional")),
            thread(() -> new Chaos(servers, seed + 2).copy("java-copier")));
        threads.forEach(Thread::start);
        awaitEndOfInput();
        isStopping = true;
        double began = now();
        for (Thread each : threads) {
            each.join(Math.max(1, (long) (1000 * (began + END_S - now()))));
            if (each.isAlive()) {
                // Nobody may be left who could answer it.
                Runtime.getRuntime().halt(1);
            }
        }
    }

    private static void awaitEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            continue;
        }
    }

    private static Thread thread(Runnable work) {
        return new Thread(() -> {
            try {
                work.run();
            } catch (RuntimeException error) {
                say("! " + error);
            }
        });
    }

    // What is told

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private static String span(double began) {
        return String.format(Locale.ROOT, "[%.6f,%.6f]", began, now());
    }

    /** One record that was handed over, and what became of it. */
    private record Sent(double began, TopicPartition partition, String value, long[] offset) {
        void tell(String process, String transaction, boolean isStored) {
            say(String.format(
                "{\"op\":\"send\",\"span\":%s,\"process\":\"%s\",\"partition\":[\"%s\",%d],"
                    + "\"value\":\"%s\",\"known\":\"%s\"%s%s}",
                span(began), process, partition.topic(), partition.partition(), value,
                isStored ? "ok" : "unknown",
                isStored ? ",\"offset\":" + offset[0] : "",
                transaction == null ? "" : ",\"transaction\":\"" + transaction + "\""));
        }
    }

    private static void tellEnd(
            double began, String process, String transaction, boolean isKnown, boolean isCommit) {
        say(String.format(
            "{\"op\":\"end\",\"span\":%s,\"process\":\"%s\",\"transaction\":\"%s\","
                + "\"known\":\"%s\",\"is_commit\":%b}",
            span(began), process, transaction, isKnown ? "ok" : "unknown", isCommit));
    }

    // Without transactions

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("request.timeout.ms", REQUEST_TIMEOUT_MS);
        settings.put("key.serializer", STRING + "Serializer");
        settings.put("value.serializer", STRING + "Serializer");
        settings.put("key.deserializer", STRING + "Deserializer");
        settings.put("value.deserializer", STRING + "Deserializer");
        return settings;
    }

    private TopicPartition pick(String... topics) {
        String topic = topics[random.nextInt(topics.length)];
        return new TopicPartition(topic, random.nextInt(PARTITIONS.get(topic)));
    }

    /** No record may be refused: there is always somebody who will take it. */
    private void produce(String process) {
        AtomicInteger underWay = new AtomicInteger();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings())) {
            for (int number = 0; !isStopping;) {
                for (int count = 0; count < SENDS_PER_TURN && underWay.get() < QUEUED_MAX; count++) {
                    Sent sent = new Sent(now(), pick("plain"), process + "-" + number++, new long[1]);
                    underWay.incrementAndGet();
                    producer.send(recordOf(sent), (stored, error) -> {
                        underWay.decrementAndGet();
                        if (error == null) {
                            sent.offset()[0] = stored.offset();
                        } else {
                            say("! an idempotent send was refused: " + error);
                        }
                        sent.tell(process, null, error == null);
                    });
                }
                pause();
            }
        }
    }

    private static ProducerRecord<String, String> recordOf(Sent sent) {
        TopicPartition partition = sent.partition();
        return new ProducerRecord<>(
            partition.topic(), partition.partition(), null, sent.value());
    }

    private static void pause() {
        try {
            Thread.sleep(TURN_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    // In transactions

    private interface Work {
        void run(String transaction, List<Sent> sent);
    }

    /** A transactional producer, which starts anew when it is fenced. */
    private final class Transactions {
        private final String name;
        private int restarts;
        private int number;
        private String process;
        private KafkaProducer<String, String> producer;

        Transactions(String name) {
            this.name = name;
            begin();
        }

        private void begin() {
            process = name + "." + restarts;
            double began = now();
            Properties settings = settings();
            settings.put("transactional.id", name);
            settings.put("transaction.timeout.ms", 30_000);
            settings.put("max.block.ms", 30_000);
            producer = new KafkaProducer<>(settings);
            insist(producer::initTransactions);
            say(String.format(
                "{\"op\":\"init\",\"span\":%s,\"process\":\"%s\",\"transactional_id\":\"%s\"}",
                span(began), process, name));
        }

        String next() {
            return process + "-" + (number + 1);
        }

        /** Whether it is committed, for all that is known. */
        boolean transact(Work work, boolean isCommit) {
            String transaction = next();
            number++;
            List<Sent> sent = new ArrayList<>();
            double began = now();
            try {
                producer.beginTransaction();
                work.run(transaction, sent);
                began = now();
                if (isCommit) {
                    insist(producer::commitTransaction);
                } else {
                    insist(producer::abortTransaction);
                }
            } catch (KafkaException error) {
                recover(transaction, sent, began, error);
                return false;
            }
            sent.forEach(each -> each.tell(process, transaction, isCommit));
            tellEnd(began, process, transaction, true, isCommit);
            return isCommit;
        }

        private void recover(
                String transaction, List<Sent> sent, double began, KafkaException error) {
            boolean isAborted = false;
            try {
                insist(producer::abortTransaction);
                isAborted = true;
            } catch (KafkaException fatal) {
                System.err.println(transaction + ": " + error + ", and then: " + fatal);
            }
            sent.forEach(each -> each.tell(process, transaction, false));
            tellEnd(began, process, transaction, isAborted, false);
            if (!isAborted) {
                producer.close(Duration.ZERO);
                restarts++;
                begin();
            }
        }

        void send(Sent each, List<Sent> sent) {
            sent.add(each);
            producer.send(recordOf(each), (stored, error) -> {
                if (error == null) {
                    each.offset()[0] = stored.offset();
                }
            });
        }

        void close() {
            producer.close(Duration.ZERO);
        }
    }

    /** What was not answered in time is asked again, as the manual has it. */
    private static void insist(Runnable deed) {
        while (true) {
            try {
                deed.run();
                return;
            } catch (TimeoutException error) {
                continue;
            }
        }
    }

    private void transact(String name) {
        Transactions transactions = new Transactions(name);
        while (!isStopping) {
            boolean isCommit = random.nextInt(10) >= ABORTED_OF_TEN;
            transactions.transact((transaction, sent) -> {
                int count = 1 + random.nextInt(RECORDS_MAX);
                for (int number = 0; number < count; number++) {
                    String value = transaction + "/" + number;
                    transactions.send(
                        new Sent(now(), pick("left", "right"), value, new long[1]), sent);
                }
            }, isCommit);
            pause();
        }
        transactions.close();
    }

    /** Consume, transform, produce: what is written and where it was read to are one. */
    private void copy(String name) {
        Transactions transactions = new Transactions(name);
        Set<TopicPartition> moved = new HashSet<>();
        Properties settings = settings();
        settings.put("group.id", "java-copiers");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("session.timeout.ms", 10_000);
        settings.put("max.poll.records", 20);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of("plain"), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    moved.addAll(partitions);
                }
            });
            while (!isStopping) {
                double began = now();
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                for (TopicPartition each : records.partitions()) {
                    tellPoll(began, name, each, records, moved.remove(each), transactions.next());
                }
                if (!records.isEmpty() && !transactions.transact(
                        (transaction, sent) ->
                            copyAll(transactions, consumer, records, transaction, sent), true)) {
                    goBack(consumer, moved);
                }
            }
        }
        transactions.close();
    }

    private static void tellPoll(
            double began, String process, TopicPartition partition,
            ConsumerRecords<String, String> records, boolean hasMoved, String transaction) {
        List<String> seen = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records.records(partition)) {
            seen.add("[" + each.offset() + ",\"" + each.value() + "\"]");
        }
        say(String.format(
            "{\"op\":\"poll\",\"span\":%s,\"process\":\"%s\",\"partition\":[\"%s\",%d],"
                + "\"records\":[%s],\"has_moved\":%b,\"transaction\":\"%s\"}",
            span(began), process, partition.topic(), partition.partition(),
            String.join(",", seen), hasMoved, transaction));
    }

    private static void copyAll(
            Transactions transactions, KafkaConsumer<String, String> consumer,
            ConsumerRecords<String, String> records, String transaction, List<Sent> sent) {
        TopicPartition target = new TopicPartition("java-copies", 0);
        Map<TopicPartition, OffsetAndMetadata> behind = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            List<String> read = new ArrayList<>();
            long next = 0;
            for (ConsumerRecord<String, String> each : records.records(partition)) {
                String value = each.value() + ">" + transaction;
                transactions.send(new Sent(now(), target, value, new long[1]), sent);
                read.add(String.valueOf(each.offset()));
                next = each.offset() + 1;
            }
            behind.put(partition, new OffsetAndMetadata(next));
            say(String.format(
                "{\"op\":\"inputs\",\"transaction\":\"%s\",\"group\":\"java-copiers\","
                    + "\"partition\":[\"%s\",%d],\"offset\":%d,\"read\":[%s]}",
                transaction, partition.topic(), partition.partition(), next,
                String.join(",", read)));
        }
        transactions.producer.sendOffsetsToTransaction(behind, consumer.groupMetadata());
    }

    /** To what is committed. */
    private static void goBack(KafkaConsumer<String, String> consumer, Set<TopicPartition> moved) {
        while (!isStopping) {
            try {
                Set<TopicPartition> assigned = consumer.assignment();
                consumer.committed(assigned).forEach((partition, offset) -> {
                    consumer.seek(partition, offset == null ? 0 : offset.offset());
                    moved.add(partition);
                });
                return;
            } catch (KafkaException error) {
                pause();
            }
        }
    }
}
