"""A consumer on an asyncio loop, without a face: all that runs, and what poll waits for.

The faces call back the application, each in its own way: `serve` hands them what it is to be
told (`Tell`) in place of records, and goes on when that is done.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.connecting.security_settings import as_security
from semel.client.consuming.actions import NOBODY, Change, Tell
from semel.client.consuming.commits import Commits, Offsets, OnDone
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.fetching import Fetching
from semel.client.consuming.membership import Membership
from semel.client.consuming.membership_loop import MembershipLoop
from semel.client.consuming.metadata_refresh import MetadataRefresh, matching
from semel.client.consuming.offset_reset import OffsetReset
from semel.client.consuming.partition import Spot, Want, as_topic_partitions
from semel.client.consuming.positions import Positions
from semel.client.consuming.seeking import Seeking
from semel.client.consuming.settings import ConsumerOptions, ConsumerSettings
from semel.client.producing.coordination import GroupMetadata
from semel.errors import ConfigError, NotInOrder, OffsetOutOfRange, SemelError
from semel.security import PLAINTEXT
from semel.topic_names import check_name
from semel.types import TopicPartition

_Result = TypeVar("_Result")

Topics = Collection[str] | re.Pattern[str]


class ConsumerEngine:
    """To be made on the loop that it will run on."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        settings: ConsumerSettings,
        options: ConsumerOptions,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self._clusters = tuple(
            Cluster(
                parse_bootstrap_servers(bootstrap_servers),
                client_id=options.get("client_id", "semel"),
                timeout_ms=settings.request_timeout_ms,
                security=as_security(options.get("security", PLAINTEXT)),
            )
            for _ in range(4)
        )
        # A connection answers in order: fetches wait for records and joins for other members.
        self._asking, waiting, *fetching = self._clusters
        self.positions = Positions(settings.partition_size_max, settings.buffered_size_max, lock)
        self._errors: deque[SemelError] = deque()
        self._news = asyncio.Event()
        self._notify = self._news.set
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._is_serving = False
        self._late_commits: set[asyncio.Task[None]] = set()
        self._membership_loop: MembershipLoop | None = None
        self._membership_task: asyncio.Task[None] | None = None
        self._coordination: GroupCoordination | None = None
        self._commits: Commits | None = None
        if settings.group is not None:
            self._coordination = GroupCoordination(waiting, self._asking, settings.group, settings)
            self._commits = Commits(
                self._coordination,
                self.positions,
                settings,
                lambda: self._membership_loop,
                self._report,
            )
        self.seeking = Seeking(
            self._asking, self.positions, settings, self.pump, self._news, self.check_open
        )
        self._metadata_refresh = MetadataRefresh(
            self._asking, fetching, self.positions, settings, self.pump, self._report
        )
        self._offset_reset = OffsetReset(
            self._asking,
            self.positions,
            settings,
            self._coordination,
            self._start,
            self.pump,
            self._report,
            self._metadata_refresh.look,
        )
        self._metadata_refresh.lost_position = self._lose_position
        self._fetching = Fetching(
            fetching,
            self.positions,
            settings,
            self._start,
            self._notify,
            self._report,
            self._offset_reset.reset,
            self._metadata_refresh.look,
        )

    def _lose_position(self, spot: Spot) -> None:
        """Its topic was deleted and made anew: as if the offset were not there."""
        sentence = f"the topic of {spot.partition} was deleted and made anew"
        self._offset_reset.reset(spot, OffsetOutOfRange(sentence))

    # Running

    async def run(self) -> None:
        """Until `stop`: the owner of all that is under way."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._start(self._metadata_refresh.run())
                await self._stopping.wait()
                for task in self._running:
                    task.cancel()
        finally:
            self._tasks = None
            self._stopping.set()
            self._notify()
            for cluster in self._clusters:
                await cluster.__aexit__(None, None, None)

    def stop(self) -> None:
        self._stopping.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        if self._tasks is None or self._stopping.is_set():
            work.close()
            return None
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def pump(self) -> None:
        self._offset_reset.pump()
        self._fetching.pump()
        self._notify()

    def _report(self, error: SemelError) -> None:
        """The application hears of it at its next poll; the same thing not twice."""
        if not any(str(error) == str(other) for other in self._errors):
            self._errors.append(error)
        self._notify()

    def check_open(self) -> None:
        if self._stopping.is_set():
            raise NotInOrder("the consumer is closed")

    # What is read

    async def subscribe(self, topics: Topics) -> None:
        self.check_open()
        if self._coordination is None:
            raise NotInOrder("a consumer without a group has no subscription: use assign")
        if self._membership_loop is None and self.positions.partitions:
            raise NotInOrder("partitions are assigned by hand: unsubscribe from them first")
        pattern: re.Pattern[str] | None = None
        if isinstance(topics, re.Pattern):
            pattern = topics
            topics = matching(pattern, await self._asking.retry(self._asking.describe))
        else:
            if not isinstance(topics, Iterable):
                raise ConfigError(
                    f"topics are named by text, or a list of it, not by {topics!r:.100}"
                )
            topics = list(topics)
            # One that there can never be would be waited for without end.
            for name in topics:
                check_name(name)
        self._metadata_refresh.pattern = pattern
        if self._membership_loop is None:
            self._begin_membership(self._coordination, topics)
        else:
            self._membership_loop.membership.subscribe(topics)
            self._membership_loop.wake()
        self._metadata_refresh.look()

    def _begin_membership(self, coordination: GroupCoordination, topics: Collection[str]) -> None:
        settings = self.settings
        membership = Membership(topics, settings.assignors, settings.group_instance_id)
        self._membership_loop = self._metadata_refresh.membership_loop = MembershipLoop(
            membership,
            coordination,
            settings,
            self._metadata_refresh.count_partitions,
            self._notify,
            self._report,
        )
        self._membership_task = self._start(self._membership_loop.run())

    @property
    def subscription(self) -> frozenset[str]:
        return (
            frozenset()
            if self._membership_loop is None
            else self._membership_loop.membership.topics
        )

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self.check_open()
        if self._membership_loop is not None:
            raise NotInOrder("topics are subscribed to: unsubscribe from them first")
        wanted = as_topic_partitions(partitions)
        self.positions.remove(self.positions.partitions - wanted)
        self.positions.add(wanted, Want.COMMITTED)
        self._metadata_refresh.find_leaders()
        self.pump()

    def parting(self) -> Tell | None:
        """What the application is to be told before it leaves its group."""
        if self._membership_loop is None or not self.positions.partitions:
            return None
        membership = self._membership_loop.membership
        kind = Change.REVOKED if membership.is_member else Change.LOST
        return Tell(kind, self.positions.partitions, membership.identity.generation_id)

    async def part(self) -> None:
        """Leave the group, and read nothing more."""
        if self._late_commits:
            await asyncio.wait(self._late_commits, timeout=self.settings.request_timeout_ms / 1000)
        membership_loop, self._membership_loop = self._membership_loop, None
        self._metadata_refresh.membership_loop = self._metadata_refresh.pattern = None
        self.positions.remove(self.positions.partitions)
        if membership_loop is None:
            return
        if self._membership_task is not None:
            self._membership_task.cancel()
        member_id = membership_loop.membership.identity.member_id
        if member_id and self.settings.group_instance_id is None and self._coordination is not None:
            # Without a word, its partitions would wait for its session to end.
            with suppress(SemelError):
                await self._coordination.leave(member_id)

    # What the application is told

    async def telling(self, tell: Tell) -> None:
        """Before it is told: what comes is its own, what goes is committed."""
        if tell.change is Change.ASSIGNED:
            if self._membership_loop is not None:
                self._membership_loop.membership.telling(tell)
            self.positions.add(tell.partitions, Want.COMMITTED)
            self._metadata_refresh.find_leaders()
            self.pump()
        elif tell.change is Change.REVOKED:
            await self.commit_automatically(tell.partitions)

    def told(self, tell: Tell) -> None:
        if tell.change is not Change.ASSIGNED:
            self.positions.remove(tell.partitions)
            if self._commits is not None:
                self._commits.forget(tell.partitions)
        if self._membership_loop is not None:
            self._membership_loop.told(tell)
        self.pump()

    # What it asks for

    def take_at_once(self, take: Callable[[], _Result]) -> _Result | None:
        """What is there, if nothing else is to be done first; any thread may ask."""
        membership_loop = self._membership_loop
        if (
            self._errors
            or self._stopping.is_set()
            or (membership_loop is not None and not membership_loop.is_quiet)
            or (self._commits is not None and self._commits.is_due)
        ):
            return None
        if membership_loop is not None:
            membership_loop.polling(is_polling=False)
        return take()

    async def serve(self, take: Callable[[], _Result], deadline_s: float | None) -> _Result | Tell:
        """What `take` gives, as soon as that is something; or what is to be told before."""
        membership_loop = self._membership_loop
        if membership_loop is None and not self.positions.partitions:
            raise NotInOrder("nothing is read: subscribe to topics, or assign partitions")
        if self._is_serving:
            raise NotInOrder("one poll at a time: another one is waiting")
        self._is_serving = True
        if membership_loop is not None:
            membership_loop.polling(is_polling=True)
        try:
            while True:
                self._news.clear()
                tell = self._first_to_do()
                if tell is not None:
                    return tell
                taken = take()
                if self.positions.has_room_news:
                    self.pump()
                if taken:
                    return taken
                try:
                    async with asyncio.timeout_at(deadline_s):
                        await self._news.wait()
                except TimeoutError:
                    return taken
        finally:
            self._is_serving = False
            if membership_loop is not None:
                membership_loop.polling(is_polling=False)

    def _first_to_do(self) -> Tell | None:
        self.check_open()
        membership_loop = self._membership_loop
        if membership_loop is not None:
            tell = membership_loop.membership.due_tell()
            if tell is not None:
                return tell
            if membership_loop.membership.fatal is not None:
                # Raised at every poll, it would add to its traceback for ever.
                raise membership_loop.membership.fatal.with_traceback(None)
        if self._errors:
            raise self._errors.popleft()
        if self._commits is not None and self._commits.is_due:
            self._start(self._commits.automatic())
        return None

    # Commits

    @property
    def commits(self) -> Commits:
        if self._commits is None:
            raise NotInOrder("a consumer without a group has nothing to commit to")
        return self._commits

    async def commit(self, offsets: Offsets | None) -> None:
        self.check_open()
        await self.commits.commit(self.commits.offsets(offsets))

    def commit_later(self, offsets: Offsets | None, on_done: OnDone | None) -> None:
        self.check_open()
        task = self._start(self.commits.later(self.commits.offsets(offsets), on_done))
        if task is not None:
            self._late_commits.add(task)
            task.add_done_callback(self._late_commits.discard)

    async def commit_automatically(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        if self._commits is not None:
            await self._commits.automatic(partitions)

    async def committed(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, int]:
        self.check_open()
        if self._coordination is None:
            raise NotInOrder("a consumer without a group has committed nothing")
        chosen = (
            self.positions.partitions if partitions is None else as_topic_partitions(partitions)
        )
        found = await self._coordination.committed(chosen)
        return {partition: position.offset for partition, position in found.items()}

    @property
    def membership(self) -> GroupMetadata:
        if self.settings.group is None:
            raise NotInOrder("a consumer without a group is no member of one")
        membership_loop = self._membership_loop
        identity = NOBODY if membership_loop is None else membership_loop.membership.holder
        return GroupMetadata(
            self.settings.group,
            *identity,
            self.settings.group_instance_id if identity.generation_id >= 0 else None,
        )
