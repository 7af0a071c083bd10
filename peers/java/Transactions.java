import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TransactionAbortableException;

/**
 * Scenarios with the transactional client of Apache Kafka. Each prints what it saw, one fact per
 * line; who started it judges.
 */
public final class Transactions {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final String servers;
    private final String topic;

    private Transactions(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
    }

    /** Arguments: the servers, the name of the scenario, a topic, and what else it needs. */
    public static void main(String[] arguments) throws Exception {
        Transactions scenarios = new Transactions(arguments[0], arguments[2]);
        switch (arguments[1]) {
            case "commit-and-abort" -> scenarios.commitAndAbort();
            case "fencing" -> scenarios.fencing();
            case "admin" -> scenarios.admin();
            case "terminate" -> scenarios.terminate();
            case "timeout" -> scenarios.timeout();
            case "power-loss" -> scenarios.powerLoss();
            case "many" -> scenarios.many(Integer.parseInt(arguments[3]));
            case "process" -> scenarios.process(arguments[3], Integer.parseInt(arguments[4]));
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static void say(String format, Object... values) {
        System.out.println(String.format(format, values));
        System.out.flush();
    }

    private KafkaProducer<String, String> producer(String transactionalId, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", transactionalId);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        return producer;
    }

    private KafkaConsumer<String, String> consumer(String groupId, String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", groupId);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", isolation);
        settings.put(
            "key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put(
            "value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(settings);
    }

    /** Every value up to what is the end for this isolation, in the order of partitions. */
    private List<String> values(String isolation) {
        try (KafkaConsumer<String, String> consumer = consumer("reader", isolation)) {
            List<TopicPartition> places = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(
                each -> places.add(new TopicPartition(topic, each.partition())));
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            List<String> values = new ArrayList<>();
            while (!ends.entrySet().stream()
                    .allMatch(end -> consumer.position(end.getKey()) >= end.getValue())) {
                consumer.poll(PATIENCE).forEach(record -> values.add(record.value()));
            }
            values.sort(null);
            return values;
        }
    }

    private void send(KafkaProducer<String, String> producer, int partition, String value) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    private void commitAndAbort() {
        try (KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            for (String round : List.of("first", "aborted", "last")) {
                producer.beginTransaction();
                for (int partition = 0; partition < 3; partition++) {
                    send(producer, partition, round + " " + partition);
                }
                if (round.equals("aborted")) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            producer.beginTransaction();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
            values("read_committed").forEach(value -> say("committed %s", value));
            say("stored %d", values("read_uncommitted").size());
        }
    }

    private void fencing() {
        try (KafkaProducer<String, String> old = producer(topic, 60_000)) {
            old.beginTransaction();
            send(old, 0, "of the old one");
            old.flush();
            try (KafkaProducer<String, String> successor = producer(topic, 60_000)) {
                try {
                    send(old, 0, "too late");
                    old.commitTransaction();
                    say("old committed");
                } catch (KafkaException refusal) {
                    say("old %s", root(refusal).getClass().getSimpleName());
                }
                successor.beginTransaction();
                send(successor, 0, "of the new one");
                successor.commitTransaction();
            }
        }
        values("read_committed").forEach(value -> say("committed %s", value));
    }

    private static Throwable root(Throwable error) {
        return error.getCause() == null ? error : root(error.getCause());
    }

    private void admin() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers));
                KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            say("version %d", admin.describeFeatures().featureMetadata().get()
                .finalizedFeatures().get("transaction.version").maxVersionLevel());
            producer.beginTransaction();
            send(producer, 0, "open");
            send(producer, 2, "open");
            producer.flush();
            for (TransactionListing each : admin.listTransactions(
                    new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING)))
                    .all().get()) {
                if (each.transactionalId().equals(topic)) {
                    say("listed %s", each.state());
                }
            }
            TransactionDescription open =
                admin.describeTransactions(Set.of(topic)).description(topic).get();
            say("described %s in %d timeout %d", open.state(), open.topicPartitions().size(),
                open.transactionTimeoutMs());
            TopicPartition place = new TopicPartition(topic, 2);
            ProducerState here = admin.describeProducers(Set.of(place))
                .partitionResult(place).get().activeProducers().get(0);
            say("producer first offset %d", here.currentTransactionStartOffset().getAsLong());
            admin.abortTransaction(new AbortTransactionSpec(
                place, here.producerId(), (short) here.producerEpoch(),
                here.coordinatorEpoch().orElse(0))).all().get();
            say("after abort %s", state(admin));
            try {
                producer.commitTransaction();
                say("aborted committed");
            } catch (KafkaException refusal) {
                say("aborted %s", root(refusal).getClass().getSimpleName());
            }
            admin.fenceProducers(Set.of(topic)).all().get();
            say("after fencing %s", state(admin));
            say("unknown %s", refusalOf(() ->
                admin.describeTransactions(Set.of("nobody")).description("nobody").get()));
        }
        say("committed %d", values("read_committed").size());
    }

    /** For clients since 4.2. */
    private void terminate() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers));
                KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            producer.beginTransaction();
            send(producer, 1, "terminated");
            producer.flush();
            admin.forceTerminateTransaction(topic).result().get();
            say("after termination %s", state(admin));
        }
        say("committed %d", values("read_committed").size());
    }

    private TransactionState state(Admin admin) throws Exception {
        return admin.describeTransactions(Set.of(topic)).description(topic).get().state();
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private static String refusalOf(Attempt attempt) throws Exception {
        try {
            attempt.run();
            return "none";
        } catch (ExecutionException refusal) {
            return refusal.getCause().getClass().getSimpleName();
        }
    }

    private void timeout() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers));
                KafkaProducer<String, String> producer = producer(topic, 500)) {
            producer.beginTransaction();
            send(producer, 0, "late");
            producer.flush();
            while (state(admin) == TransactionState.ONGOING) {
                Thread.sleep(20);
            }
            say("state %s", state(admin));
            try {
                producer.commitTransaction();
                say("late committed");
            } catch (KafkaException refusal) {
                say("late %s", root(refusal).getClass().getSimpleName());
            }
        }
        try (KafkaProducer<String, String> successor = producer(topic, 60_000)) {
            successor.beginTransaction();
            send(successor, 0, "in time");
            successor.commitTransaction();
        }
        values("read_committed").forEach(value -> say("committed %s", value));
    }

    /** Waits within a transaction until it is told to go on; then aborts until one succeeds. */
    private void powerLoss() throws IOException {
        try (KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            producer.beginTransaction();
            send(producer, 0, "lost");
            producer.flush();
            say("open");
            System.in.read();
            boolean isDone = false;
            while (!isDone) {
                try {
                    send(producer, 1, "kept");
                    producer.commitTransaction();
                    isDone = true;
                } catch (KafkaException refusal) {
                    say("refused");
                    producer.abortTransaction();
                    producer.beginTransaction();
                }
            }
        }
        values("read_committed").forEach(value -> say("committed %s", value));
    }

    /** Numbers, one transaction each; every third is aborted. What was said is done. */
    private void many(int count) {
        try (KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            for (int number = 0; number < count; number++) {
                boolean isDone = false;
                while (!isDone) {
                    isDone = attempt(producer, number);
                }
                say("done %d", number);
            }
        }
        values("read_committed").forEach(value -> say("committed %s", value));
    }

    private boolean attempt(KafkaProducer<String, String> producer, int number) {
        try {
            producer.beginTransaction();
            send(producer, number % 3, String.valueOf(number));
            if (number % 3 == 0) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
            return true;
        } catch (TransactionAbortableException refusal) {
            say("again %d", number);
            producer.abortTransaction();
            return false;
        }
    }

    /** Reads one topic and writes another, offsets in the transaction; every third is aborted. */
    private void process(String output, int count) {
        Map<TopicPartition, Long> done = new HashMap<>();
        int round = 0;
        try (KafkaConsumer<String, String> consumer = consumer(topic, "read_committed");
                KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            consumer.subscribe(List.of(topic));
            while (done.values().stream().mapToLong(Long::longValue).sum() < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(output, record.value()));
                    offsets.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (round++ % 3 == 0) {
                    producer.abortTransaction();
                    rewind(consumer, records.partitions());
                } else {
                    producer.commitTransaction();
                    offsets.forEach((place, offset) -> done.put(place, offset.offset()));
                }
            }
            consumer.committed(done.keySet()).forEach((place, offset) ->
                say("offset %d %d", place.partition(), offset.offset()));
        }
        new Transactions(servers, output).values("read_committed")
            .forEach(value -> say("committed %s", value));
    }

    private static void rewind(
            KafkaConsumer<String, String> consumer, Collection<TopicPartition> places) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(Set.copyOf(places));
        for (TopicPartition place : places) {
            OffsetAndMetadata offset = committed.get(place);
            consumer.seek(place, offset == null ? 0 : offset.offset());
        }
    }
}
