"""`Consumer`: the consumer for code that blocks, with its loop in a thread of its own.

Records are opened in the caller's thread, and so are the application's callbacks called.
"""

import re
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from types import TracebackType, UnionType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from semel.client.cluster.loop_thread import LoopThread
from semel.client.consuming.actions import Callbacks, Tell
from semel.client.consuming.commits import Offsets, OnDone
from semel.client.consuming.deserializers import as_one, columns_or_all, deserializers_of
from semel.client.consuming.engine import ConsumerEngine
from semel.client.consuming.partition import Want
from semel.client.consuming.record import Key, Record, Value
from semel.client.consuming.settings import ConsumerOptions, seconds_of, settings_of
from semel.client.producing.coordination import GroupMetadata
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Listener = Callable[[Sequence[TopicPartition]], object]

_Result = TypeVar("_Result")


class Consumer(Generic[Key, Value]):
    """Reads the partitions that its group gives it, or those it is assigned by hand.

    >>> with Consumer("127.0.0.1:9092", "billing") as consumer:
    ...     consumer.subscribe(["orders"])
    ...     for record in consumer:
    ...         print(record.value)

    `key` and `value` say what to make of them: a model, a dataclass, `dict`, `str`. Without servers
    `SEMEL_BOOTSTRAP_SERVERS` names them. To be used by one thread at a time;
    callbacks are called in that.
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
        self._is_closed = False
        self._thread = LoopThread("consumer", self._main)

    async def _main(self, ready: Callable[[], None]) -> None:
        self._engine = ConsumerEngine(
            self._bootstrap_servers, self._settings, self._options, threading.Lock()
        )
        self._engine.loop.call_soon(ready)
        await self._engine.run()

    def _call(self, work: Callable[[ConsumerEngine], Coroutine[Any, Any, _Result]]) -> _Result:
        return self._thread.call(work(self._engine))

    def _do(self, act: Callable[[ConsumerEngine], _Result]) -> _Result:
        """In the consumer's thread, too: it has one thing done after the other."""

        async def work() -> _Result:
            return act(self._engine)

        return self._thread.call(work())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self._settings.group is not None:
            self._engine.commits.forgo()
        self.close()

    def close(self) -> None:
        """Commit if that is automatic, and leave the group; a static member stays in it."""
        if self._is_closed:
            return
        self._thread.check_may_wait()
        self._is_closed = True
        try:
            if self._thread.is_alive:
                self._call(ConsumerEngine.commit_automatically)
                self.unsubscribe()
        finally:
            self._thread.wake(self._engine.stop)
            self._thread.join()
        if self._thread.failure is not None:
            raise self._thread.failure

    def subscribe(
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
        names = {topics} if isinstance(topics, str) else topics
        self._call(lambda engine: engine.subscribe(names))
        self._callbacks = Callbacks(on_assigned, on_revoked, on_lost)

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        tell = self._do(ConsumerEngine.parting)
        try:
            if tell is not None:
                self._tell(tell)
        finally:
            self._call(ConsumerEngine.part)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without the group's say."""
        self._do(lambda engine: engine.assign(partitions))

    def poll(
        self, timeout_ms: float = 1_000, max_records: int | None = None
    ) -> list[Record[Key, Value]]:
        """The next records, as soon as there are any; none if there are none in time.

        With `max_records=0` it takes none, and only tells of partitions that come and go.
        """
        count_max = self._settings.count_max(max_records)
        positions = self._engine.positions
        taken = self._serve(lambda: positions.take(count_max), timeout_ms, count_max)
        return self._opened(taken)

    def poll_arrow(
        self,
        timeout_ms: float = 1_000,
        max_records: int | None = None,
        columns: Collection[str] | None = None,
    ) -> "pa.RecordBatch":
        """As `poll`, as an Arrow batch with the columns of `semel.read`; it may have no rows."""
        count_max = self._settings.count_max(max_records)
        chosen = columns_or_all(columns)
        positions = self._engine.positions
        return as_one(
            self._serve(lambda: positions.take_rows(count_max, chosen), timeout_ms, count_max),
            chosen,
        )

    def _serve(
        self, take: Callable[[], _Result], timeout_ms: float | None = None, count_max: int = 1
    ) -> _Result:
        engine = self._engine
        if self._is_closed or self._thread.is_forked:
            raise self._thread.closed()
        timeout_s = seconds_of(timeout_ms)
        deadline_s = None if timeout_s is None else engine.loop.time() + timeout_s
        while True:
            taken = engine.take_at_once(take)
            if engine.positions.has_room_news:
                self._thread.wake(engine.pump)
            if taken:
                return taken
            # Taken in this thread only: what a thread that is interrupted has waited for stays.
            outcome = self._call(
                lambda engine: engine.serve(
                    lambda: count_max > 0 and engine.positions.has_ready, deadline_s
                )
            )
            if isinstance(outcome, Tell):
                self._tell(outcome)
            elif not outcome:
                return take()

    def _tell(self, tell: Tell) -> None:
        self._call(lambda engine: engine.telling(tell))
        try:
            callback = self._callbacks.of(tell)
            if callback is not None:
                callback(sorted(tell.partitions))
        finally:
            self._do(lambda engine: engine.told(tell))

    def _opened(self, records: list[Record[Key, Value]]) -> list[Record[Key, Value]]:
        positions = self._engine.positions
        try:
            return self._deserializers.all_opened(records, positions)
        finally:
            if positions.has_room_news:
                self._thread.wake(self._engine.pump)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[Key, Value]:
        """The next record, waited for without end; the ones before it count as done."""
        positions = self._engine.positions
        return self._opened(self._serve(lambda: positions.take(1)))[0]

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out."""
        return self._call(lambda engine: engine.seeking.position(partition))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at this offset."""
        self._do(lambda engine: engine.seeking.seek(partition, offset))

    def seek_to_beginning(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on at the first record of these partitions; of all, if none is named."""
        self._call(lambda engine: engine.seeking.seek_to(Want.EARLIEST, partitions))

    def seek_to_end(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Go on behind the last record that may be read."""
        self._call(lambda engine: engine.seeking.seek_to(Want.LATEST, partitions))

    def seek_to_time(
        self, time: int | datetime, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        """Go on at the first record of this time or later, or at the end if there is none.

        The time is a datetime, or in milliseconds since 1970.
        """
        self._call(lambda engine: engine.seeking.seek_to_time(time, partitions))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        self._do(lambda engine: engine.seeking.pause(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        self._do(lambda engine: engine.seeking.resume(partitions))

    def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or what was handed out; CommitFailed if it was shut out."""
        self._call(lambda engine: engine.commit(offsets))

    def commit_later(
        self,
        offsets: Offsets | None = None,
        on_done: OnDone | None = None,
    ) -> None:
        """As `commit`, without waiting; later ones are sent after earlier ones."""
        self._do(lambda engine: engine.commit_later(offsets, on_done))

    def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """What the group has committed of these partitions, and of its own if none is named."""
        return self._call(lambda engine: engine.committed(partitions))

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition has between its position and its end."""
        return self._call(lambda engine: engine.seeking.lag())

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
