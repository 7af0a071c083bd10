"""Those who end what is not theirs: one aborts transactions, one deletes topics."""

from collections.abc import Sequence

from semel.types import TopicPartition
from semel.verify.administrator import make_topic
from semel.verify.client import Client
from semel.verify.link import Link, Lost
from semel.verify.transaction_history import TopicGone
from semel.wire.messages import delete_topics, describe_producers, write_txn_markers

COORDINATOR_EPOCH = 2**20
"""Higher than any term."""


class Operator:
    """Now and then aborts what it finds open, by the marker that Kafka's own tool would write."""

    def __init__(self, client: Client, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._partitions = partitions

    async def run(self) -> None:
        while True:
            link = await self._client.link()
            try:
                while True:
                    await self._client.think()
                    if self._client.rng.random() < 0.02:
                        await self._abort_one(link, self._client.rng.choice(self._partitions))
            except Lost:
                await self._client.back_off()
            link.drop()

    async def _abort_one(self, link: Link, partition: TopicPartition) -> None:
        topic, index = partition
        asked = describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest(topic, [index])]
        )
        reply = await link.ask(describe_producers, asked)
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
            await link.ask(write_txn_markers, write_txn_markers.WriteTxnMarkersRequest([marker]))
            return


class Deleter:
    """Makes topics, offers them to those who write in transactions, and deletes them again."""

    def __init__(self, client: Client, brief: list[TopicPartition]) -> None:
        self._client = client
        self._brief = brief
        self._topic_count = 0

    async def run(self) -> None:
        while True:
            link = await self._client.link()
            try:
                while True:
                    await self._live_through_a_topic(link)
            except Lost:
                await self._client.back_off()
            link.drop()

    async def _live_through_a_topic(self, link: Link) -> None:
        self._topic_count += 1
        topic = f"{self._client.name}-{self._topic_count}"
        if await make_topic(link, topic, 1) is None:
            raise Lost
        self._client.history.note(TopicGone(topic))
        self._brief.append(TopicPartition(topic, 0))
        for _ in range(20):
            await self._client.think()
        request = delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(topic)], [topic], 1000
        )
        await link.ask(delete_topics, request)
        for _ in range(3):
            await self._client.think()
        self._brief.clear()
