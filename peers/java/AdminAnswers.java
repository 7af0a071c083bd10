import java.time.Duration;
import java.util.ArrayList;
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
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClassicGroupsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The calls of the Admin client that Kafbat UI, AKHQ and Kafka's own tools make. Each answer is
 * printed as one line, without what differs from cluster to cluster, or the error in its place; who
 * started it compares the lines of two brokers.
 */
public final class AdminAnswers {
    private static final String TOPIC = "answers";
    private static final TopicPartition FIRST = new TopicPartition(TOPIC, 0);
    private static final TopicPartition SECOND = new TopicPartition(TOPIC, 1);
    private static final TopicPartition MISSING = new TopicPartition("missing", 0);
    private static final String GROUP = "answers-group";
    private static final String IDLE_GROUP = "answers-idle";
    private static final String TRANSACTIONAL_ID = "answers-id";
    private static final int TIMEOUT_MS = 20_000;

    private final Admin admin;
    private final String servers;
    private final int node;

    private AdminAnswers(Admin admin, String servers) throws Exception {
        this.admin = admin;
        this.servers = servers;
        this.node = admin.describeCluster().controller().get().id();
    }

    /** Argument: the servers. */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "default.api.timeout.ms", TIMEOUT_MS, "request.timeout.ms", TIMEOUT_MS);
        try (Admin admin = Admin.create(settings)) {
            AdminAnswers answers = new AdminAnswers(admin, arguments[0]);
            answers.topics();
            try (KafkaProducer<String, String> producer = answers.filled();
                    KafkaConsumer<String, String> member = answers.member()) {
                answers.cluster();
                answers.offsets(member);
                answers.places();
                answers.transactions();
                answers.groups();
                answers.configs();
                answers.security();
                answers.partitions();
                producer.abortTransaction();
            }
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

    /** A time that a record was given, and not one at which a broker wrote something. */
    private static Object known(long timestampMs) {
        return timestampMs < 10_000 ? timestampMs : "now";
    }

    private static <K, V> Map<String, V> sorted(Map<K, V> map) {
        Map<String, V> inOrder = new TreeMap<>();
        map.forEach((key, value) -> inOrder.put(key.toString(), value));
        return inOrder;
    }

    private static <T> Set<String> sorted(Collection<T> all) {
        return all == null
            ? null : all.stream().map(Object::toString).collect(Collectors.toCollection(TreeSet::new));
    }

    private static <K, V, W> Map<String, W> sorted(Map<K, V> map, Function<V, W> view) {
        Map<String, W> inOrder = new TreeMap<>();
        map.forEach((key, value) -> inOrder.put(key.toString(), view.apply(value)));
        return inOrder;
    }

    /** With records of known times, of which one is deleted, and a transaction that is left open. */
    private KafkaProducer<String, String> filled() throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", TRANSACTIONAL_ID);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        producer.beginTransaction();
        for (long time : new long[] {1_000, 3_000, 2_000}) {
            producer.send(new ProducerRecord<>(TOPIC, 0, time, "key", "value")).get();
        }
        producer.commitTransaction();
        admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(1))).all().get();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(TOPIC, 1, 1_000L, "key", "value")).get();
        return producer;
    }

    private KafkaConsumer<String, String> member() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", GROUP);
        settings.put("group.protocol", "classic");
        settings.put("client.id", "a-client");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        KafkaConsumer<String, String> member = new KafkaConsumer<>(settings);
        member.subscribe(List.of(TOPIC));
        while (member.poll(Duration.ofMillis(TIMEOUT_MS)).isEmpty()) { }
        member.commitSync(Map.of(FIRST, new OffsetAndMetadata(3)));
        return member;
    }

    private void topics() {
        Map<String, String> configs = Map.of("retention.ms", "-1", "max.message.bytes", "500000");
        tell("createTopics", () -> {
            var made = admin.createTopics(
                List.of(new NewTopic(TOPIC, 2, (short) 1).configs(configs)));
            return List.of(made.numPartitions(TOPIC).get(), made.replicationFactor(TOPIC).get(),
                made.config(TOPIC).get().get("retention.ms").value());
        });
        Map<String, NewTopic> bad = Map.of(
            "again", new NewTopic(TOPIC, 2, (short) 1),
            "three replicas", new NewTopic("replicated", 1, (short) 3),
            "no partitions", new NewTopic("empty", 0, (short) 1),
            "a bad name", new NewTopic("a/b", 1, (short) 1),
            "an unknown config", new NewTopic("odd", 1, (short) 1).configs(Map.of("no.such", "1")),
            "a bad config", new NewTopic("odd", 1, (short) 1).configs(Map.of("retention.ms", "x")),
            "assigned", new NewTopic("assigned", Map.of(0, List.of(1), 1, List.of(1))),
            "assigned elsewhere", new NewTopic("elsewhere", Map.of(0, List.of(7))),
            "a collision", new NewTopic("a_collision.of", 1, (short) 1));
        sorted(bad).forEach((name, topic) -> tell("createTopics, " + name, () ->
            admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(true))
                .all().get()));
        tell("createPartitions, fewer", () ->
            admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(1))).all().get());
        tell("createPartitions, as many", () ->
            admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(2))).all().get());
        tell("deleteTopics, unknown", () -> admin.deleteTopics(List.of("missing")).all().get());
        tell("deleteTopics, unknown id", () ->
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).all().get());
        tell("listTopics", () -> sorted(admin.listTopics().names().get()));
        DescribeTopicsOptions all = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        tell("describeTopics", () -> described(
            admin.describeTopics(List.of(TOPIC), all).allTopicNames().get().get(TOPIC)));
        tell("describeTopics, by id", () -> {
            Uuid id = admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC)
                .topicId();
            return described(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id)), all)
                .allTopicIds().get().get(id));
        });
        tell("describeTopics, in pages of one", () -> described(
            admin.describeTopics(
                    List.of(TOPIC), new DescribeTopicsOptions().partitionSizeLimitPerResponse(1))
                .allTopicNames().get().get(TOPIC)));
        tell("describeTopics, unknown", () ->
            admin.describeTopics(List.of("missing")).allTopicNames().get());
        tell("describeTopics, unknown id", () ->
            admin.describeTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid())))
                .allTopicIds().get());
    }

    private List<Object> described(TopicDescription topic) {
        List<Object> said = new ArrayList<>();
        said.add(topic.name());
        said.add(topic.isInternal());
        said.add(topic.topicId().equals(Uuid.ZERO_UUID));
        said.add(sorted(topic.authorizedOperations()));
        topic.partitions().forEach(each -> said.add(List.of(each.partition(),
            each.leader().id() == node, each.replicas().size(), each.isr().size(),
            String.valueOf(each.elr()), String.valueOf(each.lastKnownElr()))));
        return said;
    }

    private void cluster() {
        tell("describeCluster", () -> {
            DescribeClusterResult cluster = admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true));
            return List.of(cluster.nodes().get().size(), cluster.controller().get().id() == node,
                cluster.clusterId().get().length(), sorted(cluster.authorizedOperations().get()));
        });
        tell("describeCluster, plain", () ->
            String.valueOf(admin.describeCluster().authorizedOperations().get()));
        tell("describeCluster, fenced brokers too", () -> admin.describeCluster(
            new DescribeClusterOptions().includeFencedBrokers(true)).nodes().get().size());
        tell("describeFeatures, finalized", () ->
            sorted(admin.describeFeatures().featureMetadata().get().finalizedFeatures()));
        tell("describeFeatures, supported", () ->
            sorted(admin.describeFeatures().featureMetadata().get().supportedFeatures()));
        tell("describeMetadataQuorum", () -> {
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            return List.of(quorum.leaderId() == node, quorum.leaderEpoch() > 0,
                quorum.highWatermark() >= 0, quorum.voters().size(), quorum.observers().size());
        });
    }

    private void offsets(KafkaConsumer<String, String> consumer) {
        Map<String, OffsetSpec> specs = Map.of(
            "earliest", OffsetSpec.earliest(),
            "latest", OffsetSpec.latest(),
            "max timestamp", OffsetSpec.maxTimestamp(),
            "earliest local", OffsetSpec.earliestLocal(),
            "latest tiered", OffsetSpec.latestTiered(),
            "earliest pending upload", OffsetSpec.earliestPendingUpload(),
            "from 0", OffsetSpec.forTimestamp(0),
            "from 2500", OffsetSpec.forTimestamp(2_500),
            "from 9000", OffsetSpec.forTimestamp(9_000));
        for (IsolationLevel isolation : IsolationLevel.values()) {
            sorted(specs).forEach((name, spec) -> tell("listOffsets, " + name + ", " + isolation,
                () -> sorted(admin.listOffsets(
                    Map.of(FIRST, spec, SECOND, spec), new ListOffsetsOptions(isolation))
                    .all().get(), found -> List.of(
                        found.offset(), known(found.timestamp()), found.leaderEpoch()))));
        }
        tell("listOffsets, unknown", () ->
            admin.listOffsets(Map.of(MISSING, OffsetSpec.latest())).all().get());
        Set<TopicPartition> both = Set.of(FIRST, SECOND);
        tell("offsetsForTimes", () ->
            sorted(consumer.offsetsForTimes(Map.of(FIRST, 0L, SECOND, 0L))));
        tell("beginningOffsets", () -> sorted(consumer.beginningOffsets(both)));
        tell("endOffsets", () -> sorted(consumer.endOffsets(both)));
        tell("deleteRecords, again", () -> admin.deleteRecords(
            Map.of(FIRST, RecordsToDelete.beforeOffset(1))).lowWatermarks().get(FIRST).get()
            .lowWatermark());
        tell("deleteRecords, beyond the end", () -> admin.deleteRecords(
            Map.of(FIRST, RecordsToDelete.beforeOffset(99))).all().get());
        tell("deleteRecords, unknown", () -> admin.deleteRecords(
            Map.of(MISSING, RecordsToDelete.beforeOffset(1))).all().get());
    }

    private void places() {
        tell("describeLogDirs", () -> {
            Map<String, LogDirDescription> folders =
                admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
            return folders.values().stream().map(folder -> List.of(
                String.valueOf(folder.error()), folder.totalBytes().isPresent(),
                folder.usableBytes().isPresent(),
                sorted(folder.replicaInfos(), replica -> List.of(
                    replica.size() > 0, replica.offsetLag(), replica.isFuture()))
                    .entrySet().stream().filter(each -> each.getKey().startsWith(TOPIC)).toList())
            ).toList();
        });
        TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, node);
        tell("describeReplicaLogDirs", () -> {
            var found = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
            return List.of(found.getCurrentReplicaLogDir() != null,
                found.getCurrentReplicaOffsetLag(),
                String.valueOf(found.getFutureReplicaLogDir()), found.getFutureReplicaOffsetLag());
        });
        tell("alterReplicaLogDirs, elsewhere", () ->
            admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all().get());
    }

    private void transactions() {
        tell("describeProducers", () -> sorted(
            admin.describeProducers(List.of(FIRST, SECOND)).all().get(),
            partition -> partition.activeProducers().stream().map(AdminAnswers::described).toList()));
        tell("describeProducers, unknown", () ->
            admin.describeProducers(List.of(MISSING)).all().get());
        tell("listTransactions", () -> admin.listTransactions().all().get().stream()
            .map(each -> each.transactionalId() + " " + each.state()).toList());
        ListTransactionsOptions old = new ListTransactionsOptions().filterOnDuration(3_600_000);
        tell("listTransactions, of an hour", () -> admin.listTransactions(old).all().get());
        ListTransactionsOptions named =
            new ListTransactionsOptions().filterOnTransactionalIdPattern("answers-.*");
        tell("listTransactions, by pattern", () -> admin.listTransactions(named).all().get().size());
        tell("describeTransactions", () -> {
            TransactionDescription found = admin.describeTransactions(List.of(TRANSACTIONAL_ID))
                .description(TRANSACTIONAL_ID).get();
            return List.of(found.coordinatorId() == node, found.state(), found.producerEpoch() >= 0,
                found.transactionTimeoutMs(), found.transactionStartTimeMs().isPresent(),
                sorted(found.topicPartitions()));
        });
        tell("describeTransactions, unknown", () ->
            admin.describeTransactions(List.of("missing")).all().get());
    }

    private static List<Object> described(ProducerState producer) {
        return List.of(producer.lastSequence(), known(producer.lastTimestamp()),
            producer.coordinatorEpoch().isPresent(),
            producer.currentTransactionStartOffset().isPresent()
                ? producer.currentTransactionStartOffset().getAsLong() : "none");
    }

    private void groups() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
            Map.of(FIRST, new OffsetAndMetadata(2, "a note"));
        tell("alterConsumerGroupOffsets", () ->
            admin.alterConsumerGroupOffsets(IDLE_GROUP, offsets).all().get());
        tell("alterConsumerGroupOffsets, of a live one", () ->
            admin.alterConsumerGroupOffsets(GROUP, offsets).all().get());
        tell("listGroups", () -> listed(new ListGroupsOptions()));
        tell("listGroups, of consumers", () -> listed(ListGroupsOptions.forConsumerGroups()));
        tell("listGroups, of shares", () -> listed(ListGroupsOptions.forShareGroups()));
        tell("listGroups, classic", () ->
            listed(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        tell("listGroups, of the new protocol", () ->
            listed(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))));
        tell("listGroups, empty", () ->
            listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))));
        tell("describeConsumerGroups", () -> {
            ConsumerGroupDescription group = admin.describeConsumerGroups(List.of(GROUP),
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
                .describedGroups().get(GROUP).get();
            return List.of(group.groupId(), group.isSimpleConsumerGroup(), group.type(),
                group.groupState(), group.partitionAssignor(), group.coordinator().id() == node,
                String.valueOf(group.groupEpoch()), String.valueOf(group.targetAssignmentEpoch()),
                String.valueOf(sorted(group.authorizedOperations())),
                group.members().stream().map(each -> List.of(
                    each.clientId(), each.host().startsWith("/"), each.groupInstanceId(),
                    sorted(each.assignment().topicPartitions()), each.targetAssignment(),
                    String.valueOf(each.memberEpoch()), String.valueOf(each.upgraded()))).toList());
        });
        tell("describeConsumerGroups, idle", () -> {
            ConsumerGroupDescription group =
                admin.describeConsumerGroups(List.of(IDLE_GROUP)).all().get().get(IDLE_GROUP);
            return List.of(group.isSimpleConsumerGroup(), group.type(), group.groupState(),
                group.partitionAssignor(), group.members());
        });
        tell("describeConsumerGroups, unknown", () ->
            admin.describeConsumerGroups(List.of("missing")).all().get());
        tell("describeClassicGroups", () -> {
            var group = admin.describeClassicGroups(List.of(GROUP),
                new DescribeClassicGroupsOptions()).all().get().get(GROUP);
            return List.of(group.protocol(), group.protocolData(), group.state(),
                group.members().size());
        });
        tell("listConsumerGroupOffsets", () -> sorted(
            admin.listConsumerGroupOffsets(IDLE_GROUP).partitionsToOffsetAndMetadata().get()));
        tell("listConsumerGroupOffsets, of two", () -> sorted(admin.listConsumerGroupOffsets(Map.of(
            GROUP, new ListConsumerGroupOffsetsSpec(),
            IDLE_GROUP, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(SECOND))))
            .all().get(), found -> sorted(found, each -> each == null ? -1 : each.offset())));
        tell("listConsumerGroupOffsets, unknown", () ->
            admin.listConsumerGroupOffsets("missing").partitionsToOffsetAndMetadata().get());
        tell("deleteConsumerGroupOffsets, subscribed", () ->
            admin.deleteConsumerGroupOffsets(GROUP, Set.of(FIRST)).all().get());
        tell("deleteConsumerGroupOffsets, none", () ->
            admin.deleteConsumerGroupOffsets(IDLE_GROUP, Set.of(MISSING)).all().get());
        tell("deleteConsumerGroups, alive", () ->
            admin.deleteConsumerGroups(List.of(GROUP)).all().get());
        tell("deleteConsumerGroups, unknown", () ->
            admin.deleteConsumerGroups(List.of("missing")).all().get());
        tell("deleteConsumerGroups", () ->
            admin.deleteConsumerGroups(List.of(IDLE_GROUP)).all().get());
        tell("describeShareGroups", () ->
            admin.describeShareGroups(List.of("missing")).all().get());
        tell("describeStreamsGroups", () ->
            admin.describeStreamsGroups(List.of("missing")).all().get());
    }

    private Object listed(ListGroupsOptions options) throws Exception {
        return sorted(admin.listGroups(options).all().get().stream().map(each ->
            List.of(each.groupId(), each.type(), each.protocol(), each.groupState(),
                each.isSimpleConsumerGroup())).toList());
    }

    private void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        ConfigResource broker =
            new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node));
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
        for (ConfigResource each : List.of(topic, broker, group)) {
            DescribeConfigsOptions all =
                new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            try {
                admin.describeConfigs(List.of(each), all).all().get().get(each).entries()
                    .forEach(entry -> tell("describeConfigs, " + each.type() + " " + entry.name(),
                        () -> described(entry)));
            } catch (ExecutionException error) {
                tell("describeConfigs, " + each.type(), () -> { throw error; });
            }
        }
        Map<String, ConfigResource> others = Map.of(
            "of all brokers", brokers,
            "of a missing topic", new ConfigResource(ConfigResource.Type.TOPIC, "missing"),
            "of client metrics", new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "missing"));
        sorted(others).forEach((name, each) -> tell("describeConfigs, " + name, () ->
            admin.describeConfigs(List.of(each)).all().get().get(each).entries().size()));
        change("a topic's", topic, "retention.ms", "1000", AlterConfigOp.OpType.SET);
        change("a topic's, back", topic, "retention.ms", "", AlterConfigOp.OpType.DELETE);
        change("a topic's, more", topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        change("a topic's, less", topic, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT);
        change("a topic's, no list", topic, "retention.ms", "1", AlterConfigOp.OpType.APPEND);
        change("a topic's, bad", topic, "retention.ms", "soon", AlterConfigOp.OpType.SET);
        change("a topic's, unknown", topic, "no.such", "1", AlterConfigOp.OpType.SET);
        change("a missing topic's", others.get("of a missing topic"), "retention.ms", "1",
            AlterConfigOp.OpType.SET);
        change("a broker's", broker, "log.retention.ms", "1000", AlterConfigOp.OpType.SET);
        change("a broker's, bad", broker, "log.retention.ms", "soon", AlterConfigOp.OpType.SET);
        change("a broker's, fixed", broker, "node.id", "7", AlterConfigOp.OpType.SET);
        change("another broker's", new ConfigResource(ConfigResource.Type.BROKER, "77"),
            "log.retention.ms", "1000", AlterConfigOp.OpType.SET);
        change("all brokers'", brokers, "log.retention.ms", "1000", AlterConfigOp.OpType.SET);
        change("a group's", group, "consumer.session.timeout.ms", "50000",
            AlterConfigOp.OpType.SET);
        for (ConfigResource.Type type : ConfigResource.Type.values()) {
            tell("listConfigResources, " + type, () -> sorted(admin.listConfigResources(
                Set.of(type), new ListConfigResourcesOptions()).all().get().stream()
                .filter(each -> !each.name().startsWith("__"))
                .map(each -> each.type() + " " + each.name().replace("" + node, "node")).toList()));
        }
    }

    private void change(
            String whose, ConfigResource resource, String name, String value,
            AlterConfigOp.OpType type) {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), type);
        tell("incrementalAlterConfigs, " + whose, () -> admin.incrementalAlterConfigs(
            Map.of(resource, List.of(change)), new AlterConfigsOptions().validateOnly(true))
            .all().get());
    }

    private static List<Object> described(ConfigEntry entry) {
        return List.of(String.valueOf(entry.value()), entry.source(), entry.isReadOnly(),
            entry.isSensitive(), entry.type(), entry.documentation() != null,
            entry.synonyms().stream().map(each -> each.name() + " " + each.source()).toList());
    }

    private void security() {
        AclBinding binding = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
        tell("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        tell("createAcls", () -> admin.createAcls(List.of(binding)).all().get());
        tell("deleteAcls", () -> admin.deleteAcls(List.of(binding.toFilter())).all().get());
        ClientQuotaEntity client = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "a"));
        tell("describeClientQuotas", () ->
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        tell("alterClientQuotas", () -> admin.alterClientQuotas(
            List.of(new ClientQuotaAlteration(client,
                List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", 1e6)))),
            new AlterClientQuotasOptions().validateOnly(true)).all().get());
        tell("describeUserScramCredentials", () ->
            admin.describeUserScramCredentials().all().get());
        tell("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens()
            .get());
    }

    private void partitions() {
        tell("listPartitionReassignments", () ->
            admin.listPartitionReassignments().reassignments().get());
        tell("alterPartitionReassignments, none", () -> admin.alterPartitionReassignments(
            Map.of(FIRST, Optional.empty())).all().get());
        tell("alterPartitionReassignments, as it is", () -> admin.alterPartitionReassignments(
            Map.of(FIRST, Optional.of(new NewPartitionReassignment(List.of(node))))).all().get());
        tell("electLeaders", () -> sorted(
            admin.electLeaders(ElectionType.PREFERRED, Set.of(FIRST, SECOND)).partitions().get(),
            error -> error.map(each -> each.getClass().getSimpleName())));
        tell("electLeaders, of all", () ->
            admin.electLeaders(ElectionType.PREFERRED, null).partitions().get());
        tell("unregisterBroker", () -> admin.unregisterBroker(77).all().get());
    }
}
