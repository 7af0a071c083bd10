import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts the words of the topic `lines`, exactly once, and writes each new count to `counts`. The
 * words pass through a repartition topic, the counts are kept in a store with a changelog.
 *
 * <p>Prints what it restored of that, one fact per line, and ends well upon SIGTERM.
 */
public final class WordCount {
    private static final Map<String, String> OFTEN_COMPACTED = Map.of(
        "min.cleanable.dirty.ratio", "0.01",
        "delete.retention.ms", "0");

    private WordCount() {}

    /** Arguments: the servers, and a folder for the store. */
    public static void main(String[] arguments) throws Exception {
        KafkaStreams streams = new KafkaStreams(
            topology().build(), settings(arguments[0], arguments[1]));
        streams.setGlobalStateRestoreListener(new Restored());
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            say("closed " + streams.close(Duration.ofSeconds(60)));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static synchronized void say(String fact) {
        System.out.println(fact);
        System.out.flush();
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines =
            builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()));
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store =
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("store")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long())
                .withLoggingEnabled(OFTEN_COMPACTED);
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(store)
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private static Properties settings(String servers, String folder) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // Without a cache every count is written, also those that are soon replaced.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
        settings.put("auto.offset.reset", "earliest");
        // One that was killed is missed soon.
        settings.put("session.timeout.ms", 6_000);
        settings.put("heartbeat.interval.ms", 500);
        return settings;
    }

    /** What was read back from the changelog. */
    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            say(String.format("restoring %d from %d to %d", partition.partition(), start, end));
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long count) {
            say(String.format("restored %d %d", partition.partition(), count));
        }
    }
}
