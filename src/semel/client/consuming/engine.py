"""A consumer on an asyncio loop, without a face: all that runs, and what poll waits for.

The faces call back the application, each in its own way: `serve` hands them what it is to be
told (`Tell`) in place of records, and goes on when that is done.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.consuming.actions import NOBODY, Kind, Tell
from semel.client.consuming.attendance import Attendance
from semel.client.consuming.commits import Commits, Offsets, OnDone
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.fetching import Fetching
from semel.client.consuming.locating import Locating
from semel.client.consuming.membership import Membership
from semel.client.consuming.partition import Want, places_of
from semel.client.consuming.positions import Positions
from semel.client.consuming.seeking import Seeking
from semel.client.consuming.settings import ConsumerOptions, ConsumerSettings
from semel.client.consuming.watching import Watching, matching
from semel.client.producing.coordination import GroupMetadata
from semel.client.security import PLAINTEXT
from semel.errors import NotInOrder, SemelError
from semel.types import TopicPartition

_Result = TypeVar("_Result")

Topics = Collection[str] | re.Pattern[str]


class Engine:
    """To be made on the loop that it will run on."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        settings: ConsumerSettings,
        options: ConsumerOptions,
        guard: AbstractContextManager[Any],
    ) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self._clusters = tuple(
            Cluster(
                parse_bootstrap_servers(bootstrap_servers),
                client_id=options.get("client_id", "semel"),
                timeout_ms=settings.request_timeout_ms,
                security=options.get("security", PLAINTEXT),
            )
            for _ in range(4)
        )
        # A connection answers in order: fetches wait for records and joins for other members.
        self._asking, waiting, *fetching = self._clusters
        self.positions = Positions(settings.partition_size_max, settings.buffered_size_max, guard)
        self._errors: deque[SemelError] = deque()
        self._news = asyncio.Event()
        self._notify = self._news.set
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._is_serving = False
        self._late_commits: set[asyncio.Task[None]] = set()
        self._attendance: Attendance | None = None
        self._attending: asyncio.Task[None] | None = None
        self._coordination: GroupCoordination | None = None
        self._commits: Commits | None = None
        if settings.group is not None:
            self._coordination = GroupCoordination(waiting, self._asking, settings.group, settings)
            self._commits = Commits(
                self._coordination, self.positions, settings, lambda: self._attendance, self._report
            )
        self.seeking = Seeking(
            self._asking, self.positions, settings, self.pump, self._news, self.check_open
        )
        self._watching = Watching(
            self._asking, fetching, self.positions, settings, self.pump, self._report
        )
        self._locating = Locating(
            self._asking,
            self.positions,
            settings,
            self._coordination,
            self._start,
            self.pump,
            self._report,
            self._watching.look,
        )
        self._fetching = Fetching(
            fetching,
            self.positions,
            settings,
            self._start,
            self._notify,
            self._report,
            self._locating.reset,
            self._watching.look,
        )

    # Running

    async def run(self) -> None:
        """Until `stop`: the owner of all that is under way."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._start(self._watching.run())
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
        self._locating.pump()
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
        if self._attendance is None and self.positions.places:
            raise NotInOrder("partitions are assigned by hand: unsubscribe from them first")
        pattern: re.Pattern[str] | None = None
        if isinstance(topics, re.Pattern):
            pattern = topics
            topics = matching(pattern, await self._asking.retry(self._asking.describe))
        self._watching.pattern = pattern
        if self._attendance is None:
            self._attend(self._coordination, topics)
        else:
            self._attendance.membership.subscribe(topics)
            self._attendance.wake()
        self._watching.look()

    def _attend(self, coordination: GroupCoordination, topics: Collection[str]) -> None:
        settings = self.settings
        membership = Membership(topics, settings.assignors, settings.group_instance_id)
        self._attendance = self._watching.attendance = Attendance(
            membership,
            coordination,
            settings,
            self._watching.count_partitions,
            self._notify,
            self._report,
        )
        self._attending = self._start(self._attendance.run())

    @property
    def subscription(self) -> frozenset[str]:
        return frozenset() if self._attendance is None else self._attendance.membership.topics

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self.check_open()
        if self._attendance is not None:
            raise NotInOrder("topics are subscribed to: unsubscribe from them first")
        wanted = places_of(partitions)
        self.positions.remove(self.positions.places - wanted)
        self.positions.add(wanted, Want.COMMITTED)
        self._watching.place()
        self.pump()

    def parting(self) -> Tell | None:
        """What the application is to be told before it leaves its group."""
        if self._attendance is None or not self.positions.places:
            return None
        membership = self._attendance.membership
        kind = Kind.REVOKED if membership.is_member else Kind.LOST
        return Tell(kind, self.positions.places, membership.identity.generation_id)

    async def part(self) -> None:
        """Leave the group, and read nothing more."""
        if self._late_commits:
            await asyncio.wait(self._late_commits, timeout=self.settings.request_timeout_ms / 1000)
        attendance, self._attendance = self._attendance, None
        self._watching.attendance = self._watching.pattern = None
        self.positions.remove(self.positions.places)
        if attendance is None:
            return
        if self._attending is not None:
            self._attending.cancel()
        member_id = attendance.membership.identity.member_id
        if member_id and self.settings.group_instance_id is None and self._coordination is not None:
            # Without a word, its partitions would wait for its session to end.
            with suppress(SemelError):
                await self._coordination.leave(member_id)

    # What the application is told

    async def telling(self, tell: Tell) -> None:
        """Before it is told: what comes is its own, what goes is committed."""
        if tell.kind is Kind.ASSIGNED:
            if self._attendance is not None:
                self._attendance.membership.telling(tell)
            self.positions.add(tell.partitions, Want.COMMITTED)
            self._watching.place()
            self.pump()
        elif tell.kind is Kind.REVOKED:
            await self.commit_automatically(tell.partitions)

    def told(self, tell: Tell) -> None:
        if tell.kind is not Kind.ASSIGNED:
            self.positions.remove(tell.partitions)
            if self._commits is not None:
                self._commits.forget(tell.partitions)
        if self._attendance is not None:
            self._attendance.told(tell)
        self.pump()

    # What it asks for

    def take_at_once(self, take: Callable[[], _Result]) -> _Result | None:
        """What is there, if nothing else is to be done first; any thread may ask."""
        attendance = self._attendance
        if (
            self._errors
            or self._stopping.is_set()
            or (attendance is not None and not attendance.is_quiet)
            or (self._commits is not None and self._commits.is_due)
        ):
            return None
        if attendance is not None:
            attendance.polling(is_polling=False)
        return take()

    async def serve(self, take: Callable[[], _Result], deadline_s: float | None) -> _Result | Tell:
        """What `take` gives, as soon as that is something; or what is to be told before."""
        attendance = self._attendance
        if attendance is None and not self.positions.places:
            raise NotInOrder("nothing is read: subscribe to topics, or assign partitions")
        if self._is_serving:
            raise NotInOrder("one poll at a time: another one is waiting")
        self._is_serving = True
        if attendance is not None:
            attendance.polling(is_polling=True)
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
            if attendance is not None:
                attendance.polling(is_polling=False)

    def _first_to_do(self) -> Tell | None:
        self.check_open()
        attendance = self._attendance
        if attendance is not None:
            tell = attendance.membership.due_tell()
            if tell is not None:
                return tell
            if attendance.membership.fatal is not None:
                # Raised at every poll, it would add to its traceback for ever.
                raise attendance.membership.fatal.with_traceback(None)
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

    async def commit_automatically(self, places: Collection[TopicPartition] | None = None) -> None:
        if self._commits is not None:
            await self._commits.automatic(places)

    async def committed(
        self, places: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, int]:
        self.check_open()
        if self._coordination is None:
            raise NotInOrder("a consumer without a group has committed nothing")
        chosen = self.positions.places if places is None else places
        found = await self._coordination.committed(chosen)
        return {place: position.offset for place, position in found.items()}

    @property
    def membership(self) -> GroupMetadata:
        if self.settings.group is None:
            raise NotInOrder("a consumer without a group is no member of one")
        attendance = self._attendance
        identity = NOBODY if attendance is None else attendance.membership.holder
        return GroupMetadata(
            self.settings.group,
            *identity,
            self.settings.group_instance_id if identity.generation_id >= 0 else None,
        )
