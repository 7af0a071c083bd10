import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What Kafbat UI and AKHQ do to a cluster, by the client that AKHQ has: the last before 4.0, with
 * the calls that 4.0 has given up. Each step is printed as one line, or the error in its place.
 */
public final class UiCalls {
    private static final String TOPIC = "ui";
    private static final String GROUP = "ui-group";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);

    private final Admin admin;
    private final String servers;

    private UiCalls(Admin admin, String servers) {
        this.admin = admin;
        this.servers = servers;
    }

    /** Argument: the servers. */
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            UiCalls calls = new UiCalls(admin, arguments[0]);
            calls.topics();
            calls.topicConfigs();
            calls.brokerConfigs();
            calls.groups();
            calls.gone();
        }
    }

    private static void tell(String call, Callable<Object> answer) {
        String said;
        try {
            said = String.valueOf(answer.call());
        } catch (ExecutionException error) {
            said = "! " + error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            said = "! " + error.getClass().getSimpleName();
        }
        System.out.println(call + " = " + said);
    }

    private void topics() {
        tell("create", () -> admin.createTopics(List.of(
            new NewTopic(TOPIC, Optional.of(1), Optional.empty())
                .configs(Map.of("retention.ms", "1000000")))).all().get());
        tell("more partitions", () ->
            admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(2))).all().get());
        tell("send", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(strings())) {
                for (int number = 0; number < 4; number++) {
                    producer.send(new ProducerRecord<>(TOPIC, 0, null, "key", "value")).get();
                }
            }
            return "sent";
        });
        tell("clear", () -> admin.deleteRecords(
            Map.of(FIRST, RecordsToDelete.beforeOffset(1))).all().get());
        tell("offsets", () -> {
            List<TopicPartition> both =
                admin.describeTopics(List.of(TOPIC)).all().get().get(TOPIC).partitions().stream()
                    .map(each -> new TopicPartition(TOPIC, each.partition())).toList();
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(strings())) {
                return List.of(new TreeMap<>(named(consumer.beginningOffsets(both))),
                    new TreeMap<>(named(consumer.endOffsets(both))));
            }
        });
        tell("largest", () -> admin.listOffsets(Map.of(FIRST, OffsetSpec.maxTimestamp()))
            .partitionResult(FIRST).get().offset() >= 1);
        tell("shown", () -> admin.listTopics().listings().get().stream()
            .filter(each -> each.name().equals(TOPIC)).map(each -> each.isInternal()).toList());
    }

    /** AKHQ sets all that a topic has of its own; Kafbat takes back what is not given. */
    private void topicConfigs() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        tell("set all", () -> admin.alterConfigs(Map.of(topic, new Config(List.of(
            new ConfigEntry("retention.ms", "2000000"),
            new ConfigEntry("cleanup.policy", "compact"))))).all().get());
        tell("own configs", () -> own(topic));
        tell("set all, bad", () -> admin.alterConfigs(Map.of(topic, new Config(List.of(
            new ConfigEntry("retention.ms", "soon"))))).all().get());
        tell("replace", () -> {
            Stream<AlterConfigOp> back = entries(topic).stream()
                .filter(each -> each.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                .filter(each -> !each.name().equals("max.message.bytes"))
                .map(each -> new AlterConfigOp(each, AlterConfigOp.OpType.DELETE));
            Stream<AlterConfigOp> set = Stream.of(new AlterConfigOp(
                new ConfigEntry("max.message.bytes", "2000000"), AlterConfigOp.OpType.SET));
            return admin.incrementalAlterConfigs(
                Map.of(topic, Stream.concat(back, set).toList())).all().get();
        });
        tell("own configs, replaced", () -> own(topic));
    }

    private void brokerConfigs() throws Exception {
        int node = admin.describeCluster().controller().get().id();
        ConfigResource broker =
            new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node));
        change("broker", broker, "log.retention.ms", "3000000", AlterConfigOp.OpType.SET);
        tell("broker, shown", () -> ownOfBroker(broker, Set.of("log.retention.ms=3000000")));
        change("broker, back", broker, "log.retention.ms", "", AlterConfigOp.OpType.DELETE);
        tell("broker, shown again", () -> ownOfBroker(broker, Set.of()));
    }

    private void change(
            String whose, ConfigResource resource, String name, String value,
            AlterConfigOp.OpType type) {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), type);
        tell(whose, () ->
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get());
    }

    private void groups() {
        tell("set offsets", () -> admin.alterConsumerGroupOffsets(GROUP,
            Map.of(FIRST, new OffsetAndMetadata(2), new TopicPartition(TOPIC, 1),
                new OffsetAndMetadata(0))).all().get());
        tell("groups", () -> listed(new ListConsumerGroupsOptions()));
        tell("groups, empty", () -> listed(
            new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.EMPTY))));
        tell("groups, stable", () -> listed(
            new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.STABLE))));
        tell("groups, classic", () -> listed(
            new ListConsumerGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        tell("group", () -> admin.describeConsumerGroups(List.of(GROUP)).all().get().values()
            .stream().map(each -> List.of(each.isSimpleConsumerGroup(), each.state(),
                each.partitionAssignor(), each.members().size())).toList());
        tell("group's offsets", () -> committed());
        tell("forget offsets", () ->
            admin.deleteConsumerGroupOffsets(GROUP, Set.of(FIRST)).all().get());
        tell("group's offsets, less", () -> committed());
        tell("forget group", () -> admin.deleteConsumerGroups(Set.of(GROUP)).all().get());
        tell("groups, none", () -> listed(new ListConsumerGroupsOptions()));
    }

    private void gone() {
        tell("delete", () -> admin.deleteTopics(Set.of(TOPIC)).all().get());
        tell("shown, deleted", () -> admin.listTopics().names().get().contains(TOPIC));
    }

    private Properties strings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private static <V> Map<String, V> named(Map<TopicPartition, V> map) {
        return map.entrySet().stream()
            .collect(Collectors.toMap(each -> each.getKey().toString(), Map.Entry::getValue));
    }

    private Collection<ConfigEntry> entries(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries();
    }

    private Object own(ConfigResource resource) throws Exception {
        return entries(resource).stream()
            .filter(each -> each.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
            .map(each -> each.name() + "=" + each.value())
            .collect(Collectors.toCollection(TreeSet::new));
    }

    /** As soon as it is these: a broker of Kafka's hears of them a moment later. */
    private Object ownOfBroker(ConfigResource resource, Set<String> expected) throws Exception {
        Set<String> found = null;
        for (int asked = 0; asked < 1000 && !expected.equals(found); asked++) {
            found = entries(resource).stream()
                .filter(each -> each.source() == ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG)
                .map(each -> each.name() + "=" + each.value())
                .collect(Collectors.toCollection(TreeSet::new));
        }
        return found;
    }

    private Object listed(ListConsumerGroupsOptions options) throws Exception {
        return admin.listConsumerGroups(options).all().get().stream()
            .filter(each -> each.groupId().equals(GROUP))
            .map(each -> List.of(each.isSimpleConsumerGroup(), each.state(), each.type()))
            .toList();
    }

    private Object committed() throws Exception {
        return new TreeMap<>(named(admin.listConsumerGroupOffsets(GROUP)
            .partitionsToOffsetAndMetadata().get()));
    }
}
