"""`AsyncConsumer`: the consumer on the caller's own asyncio loop."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import nullcontext
from datetime import datetime
from types import TracebackType, UnionType
from typing import TYPE_CHECKING, Generic, Self, TypeVar, Unpack

from semel.client.consuming.actions import Callbacks, Tell
from semel.client.consuming.commits import Offsets, OnDone
from semel.client.consuming.deserializers import as_one, columns_or_all, deserializers_of
from semel.client.consuming.engine import ConsumerEngine
from semel.client.consuming.partition import Want
from semel.client.consuming.record import Key, Record, Value
from semel.client.consuming.settings import ConsumerOptions, seconds_of, settings_of
from semel.client.producing.coordination import GroupMetadata
from semel.errors import NotInOrder
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Listener = Callable[[Sequence[TopicPartition]], Awaitable[object] | object]

_Result = TypeVar("_Result")


class AsyncConsumer(Generic[Key, Value]):
    """Reads the partitions that its group gives it, or those it is assigned by hand.

    >>> async with AsyncConsumer("127.0.0.1:9092", "billing") as consumer:
    ...     await consumer.subscribe(["orders"])
    ...     async for record in consumer:
    ...         print(record.value)

    `key` and `value` say what to make of them: a model, a dataclass, `dict`, `str`. Without servers
    `SEMEL_BOOTSTRAP_SERVERS` names them.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        group: str | None = None,
        *,
        key: "type[Key] | UnionType | None" = None,
        value: "type[Value] | UnionType | None" = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._settings = settings_of(group, options)
        self._bootstrap_servers = bootstrap_servers
        self._options = options
        self._deserializers = deserializers_of(options, key, value)
        self._callbacks: Callbacks[Listener] = Callbacks()
        self._maybe_engine: ConsumerEngine | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; `async with` does so too."""
        if self._maybe_engine is None:
            self._maybe_engine = ConsumerEngine(
                self._bootstrap_servers, self._settings, self._options, nullcontext()
            )
            self._running = asyncio.get_running_loop().create_task(self._maybe_engine.run())
            # It begins in the next tick of the loop.
            await asyncio.sleep(0)

    @property
    def _engine(self) -> ConsumerEngine:
        if self._maybe_engine is None:
            raise NotInOrder("the consumer is not started: use it with `async with`, or start it")
        return self._maybe_engine

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self._settings.group is not None:
            self._engine.commits.forgo()
        await self.close()

    async def close(self) -> None:
        """Commit if that is automatic, and leave the group; a static member stays in it."""
        engine, running = self._maybe_engine, self._running
        if engine is None or running is None:
            return
        try:
            if not running.done():
                await engine.commit_automatically()
                await self.unsubscribe()
        finally:
            engine.stop()
            await running

    async def subscribe(
        self,
        topics: str | Collection[str] | re.Pattern[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Join the group for these topics, or all whose names match a pattern.

        The callbacks are called by `poll`, never while the application works on records:
        `on_revoked` while the partitions are still its own, `on_lost` (or `on_revoked` if there
        is none) when they may be another's already, `on_assigned` before their first record.
        """
        await self._engine.subscribe({topics} if isinstance(topics, str) else topics)
        self._callbacks = Callbacks(on_assigned, on_revoked, on_lost)

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        engine = self._engine
        tell = engine.parting()
        try:
            if tell is not None:
                await self._tell(tell)
        finally:
            await engine.part()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without the group's say."""
        self._engine.assign(partitions)

    async def poll(
        self, timeout_ms: float = 1_000, max_records: int | None = None
    ) -> list[Record[Key, Value]]:
        """The next records, as soon as there are any; none if there are none in time.

        With `max_records=0` it takes none, and only tells of partitions that come and go.
        """
        count_max = self._settings.count_max(max_records)
        engine = self._engine
        # Who polls again and again leaves the loop some time for what goes on behind.
        await asyncio.sleep(0)
        taken = await self._serve(lambda: engine.positions.take(count_max), timeout_ms)
        return self._deserializers.all_opened(taken, engine.positions)

    async def poll_arrow(
        self,
        timeout_ms: float = 1_000,
        max_records: int | None = None,
        columns: Collection[str] | None = None,
    ) -> "pa.RecordBatch":
        """As `poll`, as an Arrow batch with the columns of `semel.read`; it may have no rows."""
        count_max = self._settings.count_max(max_records)
        chosen = columns_or_all(columns)
        engine = self._engine
        await asyncio.sleep(0)
        taken = await self._serve(lambda: engine.positions.take_rows(count_max, chosen), timeout_ms)
        return as_one(taken, chosen)

    async def _serve(self, take: Callable[[], _Result], timeout_ms: float | None = None) -> _Result:
        engine = self._engine
        timeout_s = seconds_of(timeout_ms)
        deadline_s = None if timeout_s is None else engine.loop.time() + timeout_s
        while True:
            outcome = await engine.serve(take, deadline_s)
            if not isinstance(outcome, Tell):
                return outcome
            await self._tell(outcome)

    async def _tell(self, tell: Tell) -> None:
        engine = self._engine
        await engine.telling(tell)
        try:
            callback = self._callbacks.of(tell)
            if callback is not None:
                result = callback(sorted(tell.partitions))
                if inspect.isawaitable(result):
                    await result
        finally:
            engine.told(tell)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[Key, Value]:
        """The next record, waited for without end; the ones before it count as done."""
        engine = self._engine
        positions = engine.positions
        if positions.has_room_news:
            # Before a record is taken, which would be lost if the caller were cancelled here.
            await asyncio.sleep(0)
            engine.pump()
        taken = engine.take_at_once(lambda: positions.take(1))
        if not taken:
            await asyncio.sleep(0)
            taken = await self._serve(lambda: positions.take(1))
        return self._deserializers.all_opened(taken, positions)[0]

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out."""
        return await self._engine.seeking.position(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at this offset."""
        self._engine.seeking.seek(partition, offset)

    async def seek_to_beginning(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on at the first record of these partitions; of all, if none is named."""
        await self._engine.seeking.seek_to(Want.EARLIEST, partitions)

    async def seek_to_end(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on behind the last record that may be read."""
        await self._engine.seeking.seek_to(Want.LATEST, partitions)

    async def seek_to_time(
        self, time: int | datetime, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        """Go on at the first record of this time or later, or at the end if there is none.

        The time is a datetime, or in milliseconds since 1970.
        """
        await self._engine.seeking.seek_to_time(time, partitions)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        self._engine.seeking.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        self._engine.seeking.resume(partitions)

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or what was handed out; CommitFailed if it was shut out."""
        await self._engine.commit(offsets)

    def commit_later(
        self,
        offsets: Offsets | None = None,
        on_done: OnDone | None = None,
    ) -> None:
        """As `commit`, without waiting; later ones are sent after earlier ones."""
        self._engine.commit_later(offsets, on_done)

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """What the group has committed of these partitions, and of its own if none is named."""
        return await self._engine.committed(partitions)

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition has between its position and its end."""
        return await self._engine.seeking.lag()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return self._engine.positions.partitions

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those of them that are paused."""
        return self._engine.positions.paused

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return self._engine.subscription

    @property
    def membership(self) -> GroupMetadata:
        """Who reads, for `send_offsets_to_transaction`; generation -1 outside of a group."""
        return self._engine.membership
