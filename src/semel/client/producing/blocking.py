"""`Producer`: the producer for code that blocks, with its loop in a thread of its own.

`send` fills batches in the caller's thread, under a lock; the other thread sends them.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from semel.client.cluster.loop_thread import LoopThread
from semel.client.outcome import MustAbort, MustStop, TransactionFailed
from semel.client.producing.assembly import Machinery, make_intake, make_machinery
from semel.client.producing.coordination import GroupMetadata
from semel.client.producing.failures import Failures
from semel.client.producing.intake import Headers, as_headers, as_timestamp_ms
from semel.client.producing.sent import Delivered, Sent
from semel.client.producing.settings import ProducerOptions
from semel.client.producing.transaction_state import TransactionStatus
from semel.errors import NotInOrder, RequestTimedOut
from semel.types import TopicPartition
from semel.world import SystemClock

_Result = TypeVar("_Result")


class BlockingSent(Sent):
    """A record that was handed over."""

    __slots__ = ()

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Wait for its place; raises why it has none, or TimeoutError."""
        if not self.done():
            done = threading.Event()

            def release() -> None:
                # Before another thread's `flush` goes on, which would raise it as well.
                self._tell()
                done.set()

            self._when_done(release)
            try:
                is_over = done.wait(timeout_s)
            except BaseException:
                self._give_up(release)
                raise
            if not is_over and self._give_up(release):
                raise TimeoutError(f"the record is still on its way after {timeout_s} s")
        return self.outcome()


class Producer:
    """Sends records; each is stored once, and in order within its partition.

    >>> with Producer("127.0.0.1:9092") as producer:
    ...     sent = producer.send("greetings", "hello")
    ...     print(sent.result().offset)

    Without servers `SEMEL_BOOTSTRAP_SERVERS` names them. May be used by several threads, but has
    one transaction at a time.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._core, self._intake = make_intake(options)
        self._bootstrap_servers = bootstrap_servers
        self._options = options
        self._now_ms = SystemClock().wall_ms
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._is_closed = False
        self._thread = LoopThread("producer", self._main, self._hinder)

    async def _main(self, ready: Callable[[], None]) -> None:
        self._machinery = make_machinery(
            self._bootstrap_servers,
            self._options,
            self._core,
            self._intake,
            self._lock,
            self._make_room,
        )
        asyncio.get_running_loop().call_soon(ready)
        try:
            await self._machinery.engine.run()
        finally:
            self._make_room()
            await self._machinery.cluster.__aexit__(None, None, None)

    def _make_room(self) -> None:
        with self._room:
            self._room.notify_all()

    def _call(self, work: Callable[[Machinery], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run this in the producer's thread, and wait for it."""
        return self._thread.call(work(self._machinery))

    def _hinder(self, refusal: NotInOrder) -> None:
        """Let no record be taken that nobody would send."""
        self._core.fatal = refusal
        # What failed before the fork is told by the parent.
        self._core.failures = Failures()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._wind_up()
        if error is None:
            self._core.failures.raise_untold()
        else:
            self._core.failures.add_untold_to(error)

    def close(self) -> None:
        """Store what was sent, abort what was not committed, and let go of all connections.

        Raises the first failure of a record that nobody was told of.
        """
        self._wind_up()
        self._core.failures.raise_untold()

    def _wind_up(self) -> None:
        if self._is_closed:
            return
        self._thread.check_may_wait()
        self._is_closed = True
        if self._thread.is_alive:
            try:
                with suppress(NotInOrder):
                    self._call(Machinery.wind_up)
            finally:
                self._thread.wake(self._machinery.engine.stop)
                self._thread.join()
        if self._thread.failure is not None:
            raise self._thread.failure

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: Callable[[BlockingSent], object] | None = None,
    ) -> BlockingSent:
        """Hand over a record; `result()` of what is returned waits until it is stored.

        Waits while the topic is not known, or too much is on its way.
        """
        core, intake = self._core, self._intake
        if topic not in intake.queues or core.is_hindered:
            self._prepare(topic)
        now_ms = self._now_ms() if timestamp_ms is None else as_timestamp_ms(timestamp_ms)
        key_bytes = None if key is None and intake.is_plain else intake.key_bytes(key)
        value_bytes = (
            value if type(value) is bytes and intake.is_plain else intake.value_bytes(value)
        )
        wire_headers = as_headers(headers) if headers else ()
        with self._lock:
            if core.transaction is not None:
                core.transaction.check_open()
            elif core.fatal is not None:
                # It has ended since it was looked at without the lock.
                raise core.fatal.with_traceback(None)
            batch = intake.put(topic, key_bytes, value_bytes, wire_headers, now_ms, partition)
            sent = BlockingSent(batch, now_ms)
            if on_delivery is not None:
                sent.add_done_callback(on_delivery)
            has_news, core.has_news = core.has_news, False
        if has_news:
            self._thread.wake(self._machinery.engine.pump)
        return sent

    def _prepare(self, topic: str) -> None:
        core = self._core
        if self._is_closed:
            raise self._thread.closed()
        # The lock of a forked process may be held for ever.
        self._thread.check_alive()
        if topic not in self._intake.queues:
            self._call(lambda machinery: machinery.engine.learn(topic))
        with self._room:
            if not core.has_room and core.fatal is None:
                self._thread.check_may_wait()
                core.close_batches()
                self._thread.wake(self._machinery.engine.pump)
                timeout_s = core.settings.block_timeout_ms / 1000
                if not self._room.wait_for(lambda: core.has_room or core.fatal, timeout_s):
                    raise RequestTimedOut(f"no room for a record of {topic}")
        if core.fatal is not None and core.transaction is None:
            raise core.fatal.with_traceback(None)

    def learn_topics(self, topics: Iterable[str]) -> None:
        """Refuse now what `send` would refuse: best before a transaction that writes to them."""
        self._call(lambda machinery: machinery.engine.learn_all(topics))

    def flush(self) -> None:
        """Return when everything sent before is stored.

        Raises the first failure of a record that nobody was told of; transactions tell of theirs.
        """
        self._call(lambda machinery: machinery.engine.flush())
        self._core.failures.raise_untold()

    # Transactions

    def init_transactions(self) -> None:
        """Shut out older producers of this id; the first transaction does so, too."""
        self._call(lambda machinery: machinery.transactions.initialise())

    def begin_transaction(self) -> None:
        transaction = self._core.transaction
        if transaction is not None and transaction.status is TransactionStatus.READY:
            with self._lock:
                transaction.begin()
        else:
            self._call(lambda machinery: machinery.transactions.begin())

    def commit_transaction(self) -> None:
        self._call(lambda machinery: machinery.transactions.commit())

    def abort_transaction(self) -> None:
        self._call(lambda machinery: machinery.transactions.abort())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: GroupMetadata | str
    ) -> None:
        """Commit the offsets of a consumer group with this transaction."""
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        self._call(lambda machinery: machinery.transactions.send_offsets(offsets, metadata))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commit at the end of the block, abort on an exception."""
        self.begin_transaction()
        transaction = self._core.transaction
        assert transaction is not None, "only a transaction was begun"
        try:
            yield self
            self.commit_transaction()
        except BaseException as error:
            if transaction.is_to_be_aborted:
                try:
                    self.abort_transaction()
                except TransactionFailed as failure:
                    if isinstance(failure, MustStop) and isinstance(error, MustAbort):
                        # Only the coordinator tells a newer producer from a late transaction.
                        raise
                    error.add_note(f"and the transaction could not be aborted: {failure}")
            raise
