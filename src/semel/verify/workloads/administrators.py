"""Those who make and delete topics, and who end transactions that are not theirs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from semel.types import TopicPartition
from semel.verify.history import Deleted, DeletionTried, Forbidden, TopicGone, TopicMade, TopicSeen
from semel.verify.workloads.client import Client, Connection, Lost
from semel.verify.workloads.producers import (
    ACKS_ALL,
    encoded,
    outcomes,
    plain_contents,
    request_of,
)
from semel.wire.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_producers,
    metadata,
    produce,
    write_txn_markers,
)

INTERNAL_TOPIC = "__consumer_offsets"
COORDINATOR_EPOCH = 2**20
OPERATOR_LOOKS = 20
"""Higher than any term."""


class Administrator:
    """Makes, enlarges and deletes topics, and tries what is forbidden.

    It gives each topic a new name, and never touches one again whose fate it does not know.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic_count = 0

    async def run(self) -> None:
        while True:
            connection = await self._client.connect()
            try:
                while True:
                    await self._live_through_a_topic(connection)
                    await self._trespass(connection)
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _live_through_a_topic(self, connection: Connection) -> None:
        rng, history = self._client.rng, self._client.history
        self._topic_count += 1
        topic = f"{self._client.name}-{self._topic_count}"
        made = await make_topic(connection, topic, rng.randint(1, 3))
        if made is None:
            raise Lost
        history.note(made)
        await self._client.think()
        history.note(await topic_seen(connection, topic))
        if rng.random() < 0.4:
            grown = await self._grow(connection, topic, made.partition_count + rng.randint(1, 2))
            if grown is not None:
                history.note(grown)
        if rng.random() < 0.5:
            await self._delete(connection, topic)
        history.note(await topic_seen(connection, topic))
        await self._client.think()

    async def _grow(self, connection: Connection, topic: str, count: int) -> TopicMade | None:
        request = create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(topic, count)], 1000
        )
        reply = await connection.ask(create_partitions, request)
        if reply.message.results[0].error_code:
            return None
        return TopicMade(reply.span, topic, count)

    async def _delete(self, connection: Connection, topic: str) -> None:
        history = self._client.history
        request = delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(topic)], [topic], 1000
        )
        future = connection.send(delete_topics, request)
        history.note(DeletionTried(self._client.now_s(), topic))
        reply = await connection.wait(future)
        if reply.message.responses[0].error_code == 0:
            history.note(Deleted(reply.span, topic))

    async def _trespass(self, connection: Connection) -> None:
        partition = TopicPartition(INTERNAL_TOPIC, 0)
        # With a key, without which a compacted topic takes no record anyway.
        (record,) = plain_contents(self._client, partition, ["trespass"])
        records = [record._replace(key=b"trespass")]
        content = encoded(self._client, records, (-1, -1, -1))
        reply = await connection.ask(produce, request_of(ACKS_ALL, [(partition, content)]))
        code, _ = outcomes(reply.message)[partition]
        if code == 0:
            self._client.history.note(Forbidden(f"a client has written to {INTERNAL_TOPIC}"))


class Operator:
    """Now and then aborts what it finds open, by the marker that Kafka's own tool would write."""

    def __init__(
        self, client: Client, partitions: Sequence[TopicPartition], looks_share: float = 0.02
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._looks_share = looks_share

    async def run(self) -> None:
        while True:
            partition = self._client.rng.choice(self._partitions)
            connection = await self._client.connect(partition)
            try:
                for _ in range(OPERATOR_LOOKS):
                    await self._client.think()
                    if self._client.rng.random() < self._looks_share:
                        await self._abort_one(connection, partition)
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _abort_one(self, connection: Connection, partition: TopicPartition) -> None:
        topic, index = partition
        asked = describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest(topic, [index])]
        )
        reply = await connection.ask(describe_producers, asked)
        for producer in reply.message.topics[0].partitions[0].active_producers:
            if producer.current_txn_start_offset < 0:
                continue
            marker = write_txn_markers.WritableTxnMarker(
                producer.producer_id,
                producer.producer_epoch,
                False,
                [write_txn_markers.WritableTxnMarkerTopic(topic, [index])],
                COORDINATOR_EPOCH,
            )
            await connection.ask(
                write_txn_markers, write_txn_markers.WriteTxnMarkersRequest([marker])
            )
            return


class Deleter:
    """Makes topics, offers them to those who write in transactions, and deletes them again."""

    def __init__(self, client: Client, brief: list[TopicPartition]) -> None:
        self._client = client
        self._brief = brief
        self._topic_count = 0

    async def run(self) -> None:
        while True:
            connection = await self._client.connect()
            try:
                while True:
                    await self._live_through_a_topic(connection)
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _live_through_a_topic(self, connection: Connection) -> None:
        self._topic_count += 1
        topic = f"{self._client.name}-{self._topic_count}"
        if await make_topic(connection, topic, 1) is None:
            raise Lost
        self._client.history.note(TopicGone(topic))
        self._brief.append(TopicPartition(topic, 0))
        for _ in range(20):
            await self._client.think()
        request = delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(topic)], [topic], 1000
        )
        await connection.ask(delete_topics, request)
        for _ in range(3):
            await self._client.think()
        self._brief.clear()


async def make_topic(
    connection: Connection,
    topic: str,
    partition_count: int,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> TopicMade | None:
    """None if it was refused."""
    configs = [create_topics.CreatableTopicConfig(name, value) for name, value in settings.items()]
    request = create_topics.CreateTopicsRequest(
        [create_topics.CreatableTopic(topic, partition_count, 1, configs=configs)], 1000
    )
    reply = await connection.ask(create_topics, request)
    if reply.message.topics[0].error_code:
        return None
    return TopicMade(reply.span, topic, partition_count)


async def topic_seen(connection: Connection, topic: str) -> TopicSeen:
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    reply = await connection.ask(metadata, request, version_min=4)
    (found,) = reply.message.topics
    return TopicSeen(reply.span, topic, len(found.partitions))
