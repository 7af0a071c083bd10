"""Those who ask what must be true when it is told, of anybody who may believe to lead."""

import contextlib
from collections.abc import Sequence

from semel.errors import MessageTooLarge
from semel.records.records import Record, encode_batch
from semel.types import TopicPartition
from semel.verify.history import EpochSeen, Forbidden, Refusal
from semel.verify.workloads.client import Client, Connection, Lost
from semel.verify.workloads.groups import committed_offset
from semel.verify.workloads.producers import ACKS_ALL, Producer, outcomes, request_of
from semel.verify.workloads.readers import end_of, stable_end_of
from semel.verify.world.loop import START_MS
from semel.verify.world.network import Host, OfGroup
from semel.wire.messages import metadata, produce

PATIENCES_S = (0.3, 1.0, 6.0)
"""Who waits longer than a frozen leader sleeps hears what it says when it wakes up."""


class Watcher:
    """Asks each time over a new connection, so that a zombie is asked soon after it became one."""

    def __init__(
        self,
        client: Client,
        partitions: Sequence[TopicPartition],
        committed: Sequence[tuple[str, TopicPartition]],
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._committed = committed
        """Groups, each with what it commits offsets of."""
        client.zombie_share = 0.8

    async def run(self) -> None:
        client = self._client
        while True:
            client.patience_s = client.rng.choice(PATIENCES_S)
            count = client.rng.choice((1, 3, 10))
            if client.rng.random() < 0.5:
                await self._ask_group(count)
            else:
                await self._ask_partition(count)

    async def _ask_group(self, count: int) -> None:
        client = self._client
        group, source = client.rng.choice(self._committed)
        connection = await client.connect(OfGroup(group))
        try:
            for _ in range(count):
                client.history.note(await committed_offset(connection, group, source))
                await client.think()
        except Lost:
            await client.back_off()
        connection.drop()

    async def _ask_partition(self, count: int) -> None:
        client = self._client
        partition = client.rng.choice(self._partitions)
        connection = await client.connect(partition)
        try:
            for _ in range(count):
                what = client.rng.random()
                if what < 0.3:
                    client.history.note(await end_of(connection, partition))
                elif what < 0.6:
                    client.history.note(await stable_end_of(connection, partition))
                else:
                    await self._see_epoch(connection, partition)
                await client.think()
        except Lost:
            await client.back_off()
        connection.drop()

    async def _see_epoch(self, connection: Connection, partition: TopicPartition) -> None:
        asked = [metadata.MetadataRequestTopic(name=partition.topic)]
        request = metadata.MetadataRequest(asked, allow_auto_topic_creation=False)
        reply = await connection.ask(metadata, request, version_min=7)
        node_id = connection.host.node_id
        assert node_id is not None
        for topic in reply.message.topics:
            for found in topic.partitions:
                if found.leader_id == node_id and found.partition_index == partition.partition:
                    self._client.history.note(
                        EpochSeen(reply.span, partition, found.leader_epoch, node_id)
                    )


async def ask_end(client: Client, host: Host, partition: TopicPartition) -> None:
    """Of this node, whoever it is."""
    client.patience_s = max(PATIENCES_S)
    with contextlib.suppress(Lost):
        client.history.note(await end_of(await client.connect_to(host), partition))


async def ask_offset(client: Client, host: Host, group: str, partition: TopicPartition) -> None:
    client.patience_s = max(PATIENCES_S)
    with contextlib.suppress(Lost):
        connection = await client.connect_to(host)
        client.history.note(await committed_offset(connection, group, partition))


async def store_one(client: Client, partition: TopicPartition) -> None:
    """A batch, at whoever leads."""
    client.zombie_share = 0.0
    await Producer(client, [partition], ACKS_ALL, 1).run()


class Overreacher:
    """Sends a batch that is larger than any that is allowed."""

    def __init__(self, client: Client, partition: TopicPartition, size: int) -> None:
        self._client = client
        self._partition = partition
        self._size = size

    async def run(self) -> None:
        content = encode_batch([Record(None, bytes(self._size), START_MS)])
        request = request_of(ACKS_ALL, [(self._partition, content)])
        while True:
            connection = await self._client.connect(self._partition)
            try:
                while True:
                    reply = await connection.ask(produce, request)
                    code, _ = outcomes(reply.message)[self._partition]
                    if code == MessageTooLarge.code:
                        self._client.history.note(Refusal("-", "Produce", code))
                    else:
                        what = f"a batch of {len(content)} bytes was answered with {code}"
                        self._client.history.note(Forbidden(what))
                    await self._client.think()
            except Lost:
                await self._client.back_off()
            connection.drop()
