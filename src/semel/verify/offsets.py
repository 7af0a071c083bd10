"""Offsets of groups as those see them who are no members: committed, read, and audited."""

from collections.abc import Sequence

from semel.types import TopicPartition
from semel.verify.client import Client
from semel.verify.history import Committed, CommitTried, OffsetSeen
from semel.verify.link import Link, Lost
from semel.wire.messages import offset_commit, offset_fetch


class Auditor:
    """Reads what a group has committed, without being a part of it."""

    def __init__(self, client: Client, group: str, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._group = group
        self._partitions = partitions

    async def run(self) -> None:
        while True:
            link = await self._client.link()
            try:
                while True:
                    partition = self._client.rng.choice(self._partitions)
                    seen = await committed_offset(link, self._group, partition)
                    self._client.history.note(seen)
                    await self._client.think()
            except Lost:
                await self._client.back_off()


class Bookkeeper:
    """Commits on one connection, and reads on another what it has not been told to be durable.

    A group has one such connection in its life, so that no late commit can set it back.
    """

    def __init__(self, client: Client, partition: TopicPartition) -> None:
        self._client = client
        self._partition = partition
        self._group_count = 0

    async def run(self) -> None:
        while True:
            self._group_count += 1
            group = f"{self._client.name}-{self._group_count}"
            writing = await self._client.link()
            reading = await self._client.link()
            try:
                await self._keep(group, writing, reading)
            except Lost:
                await self._client.back_off()
            writing.drop()
            reading.drop()
            await self._look_back(group)

    async def _keep(self, group: str, writing: Link, reading: Link) -> None:
        history = self._client.history
        offset = 0
        while True:
            offset += self._client.rng.randint(1, 5)
            history.note(CommitTried(group, self._partition, offset))
            coming = writing.send(offset_commit, commit_request(group, self._partition, offset))
            while not coming.done():
                history.note(await committed_offset(reading, group, self._partition))
                await self._client.think()
            reply = await writing.wait(coming)
            (outcome,) = reply.message.topics[0].partitions
            if outcome.error_code:
                raise Lost
            history.note(Committed(reply.span, group, self._partition, offset))

    async def _look_back(self, group: str) -> None:
        """What was seen before the connections were lost must be there still."""
        link = await self._client.link()
        try:
            self._client.history.note(await committed_offset(link, group, self._partition))
        except Lost:
            await self._client.back_off()
        link.drop()


def commit_request(
    group: str,
    partition: TopicPartition,
    offset: int,
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> offset_commit.OffsetCommitRequest:
    committed = offset_commit.OffsetCommitRequestPartition(partition.partition, offset)
    return offset_commit.OffsetCommitRequest(
        group,
        generation,
        member_id,
        instance_id,
        topics=[offset_commit.OffsetCommitRequestTopic(partition.topic, [committed])],
    )


async def committed_offset(link: Link, group: str, partition: TopicPartition) -> OffsetSeen:
    """In the form of every version at once; only one of them is encoded."""
    index = partition.partition
    request = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group, [offset_fetch.OffsetFetchRequestTopics(partition.topic, [index])]
            )
        ],
        group_id=group,
        topics=[offset_fetch.OffsetFetchRequestTopic(partition.topic, [index])],
    )
    reply = await link.ask(offset_fetch, request)
    response: offset_fetch.OffsetFetchResponse = reply.message
    if response.groups:
        offset = response.groups[0].topics[0].partitions[0].committed_offset
    else:
        offset = response.topics[0].partitions[0].committed_offset
    return OffsetSeen(reply.span, group, partition, offset)
