"""Members of a group that poll all the time, watched from outside: who has what, who read what."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from semel import AsyncConsumer, Record
from semel.types import TopicPartition

DEADLINE_S = 60


class Members:
    """All members that a test has in one group; a partition is never two members' at once."""

    def __init__(self, servers: str, group: str, topics: Any) -> None:
        self.servers = servers
        self.group = group
        self.topics = topics
        self.owners: dict[TopicPartition, Member] = {}
        self.read: Counter[tuple[TopicPartition, int]] = Counter()
        """How often each record was handed out, by place and offset."""
        self._changed = asyncio.Condition()

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(is_so)

    @asynccontextmanager
    async def member(self, **options: Any) -> AsyncIterator["Member"]:
        options = {
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 30_000,
            "max_poll_interval_ms": 30_000,
            "metadata_age_ms_max": 200,
            **options,
        }
        consumer = AsyncConsumer(self.servers, self.group, **options)
        member = Member(self, consumer)
        async with consumer:
            await consumer.subscribe(
                self.topics,
                on_assigned=member.assigned,
                on_revoked=member.revoked,
                on_lost=member.lost,
            )
            polling = asyncio.create_task(member.poll())
            try:
                yield member
            finally:
                polling.cancel()
                await asyncio.wait([polling])
                if isinstance(member.error, AssertionError):
                    raise member.error
        await self.notify()


class Member:
    def __init__(self, members: Members, consumer: AsyncConsumer) -> None:
        self.consumer = consumer
        self.events: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.records: list[Record] = []
        self.vain_polls = 0
        """That gave no records; each takes as long as a heartbeat's interval."""
        self.owned: set[TopicPartition] = set()
        self.error: BaseException | None = None
        self.may_poll = asyncio.Event()
        self.may_poll.set()
        self._members = members

    async def poll(self) -> None:
        while True:
            await self.may_poll.wait()
            try:
                records = await self.consumer.poll(100)
            except Exception as error:
                self.error = error
                await self._members.notify()
                raise
            self.records += records
            self.vain_polls += not records
            for record in records:
                assert record.topic_partition in self.owned, (
                    f"{record.topic_partition} is not its own any more"
                )
                self._members.read[record.topic_partition, record.offset] += 1
            await self._members.notify()

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", tuple(partitions)))
        for place in partitions:
            assert place not in self._members.owners, f"{place} has an owner"
            self._members.owners[place] = self
        self.owned |= set(partitions)
        await self._members.notify()

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", tuple(partitions)))
        self._drop(partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", tuple(partitions)))
        self._drop(partitions)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        assert self.owned >= set(partitions)
        self.owned -= set(partitions)
        for place in partitions:
            if self._members.owners.get(place) is self:
                del self._members.owners[place]
