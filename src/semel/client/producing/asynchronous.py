"""`AsyncProducer`: the producer on the caller's own asyncio loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from semel.client.outcome import MustAbort, MustStop, TransactionFailed
from semel.client.producing.assembly import Machinery, make_intake, make_machinery
from semel.client.producing.coordination import GroupMetadata
from semel.client.producing.engine import release
from semel.client.producing.intake import Headers, as_headers, as_timestamp_ms
from semel.client.producing.sent import Delivered, Sent
from semel.client.producing.settings import ProducerOptions
from semel.errors import NotInOrder, RequestTimedOut
from semel.types import TopicPartition
from semel.world import SystemClock


class AsyncSent(Sent):
    """A record that was handed over; awaiting it gives its place, or raises why it has none."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Delivered]:
        if not self.done():
            done = asyncio.get_running_loop().create_future()
            self._when_done(partial(self._release, done))
            yield from done
        return self.outcome()

    def _release(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            self._tell()
            waiting.set_result(None)


class AsyncProducer:
    """Sends records; each is stored once, and in order within its partition.

    >>> async with AsyncProducer("127.0.0.1:9092") as producer:
    ...     sent = await producer.send("greetings", "hello")
    ...     print((await sent).offset)

    Without servers `SEMEL_BOOTSTRAP_SERVERS` names them.
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
        self._machinery: Machinery | None = None
        self._running: asyncio.Task[None] | None = None
        self._waiting_for_room: list[asyncio.Future[None]] = []

    async def start(self) -> None:
        """Begin to send; `async with` does so too."""
        if self._machinery is None:
            self._machinery = make_machinery(
                self._bootstrap_servers,
                self._options,
                self._core,
                self._intake,
                nullcontext(),
                self._make_room,
            )
            running = self._machinery.engine.run()
            self._running = asyncio.get_running_loop().create_task(running)
            # The sender begins in the next tick of the loop.
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._wind_up()
        if error is None:
            self._core.failures.raise_untold()
        else:
            self._core.failures.add_untold_to(error)

    async def close(self) -> None:
        """Store what was sent, abort what was not committed, and let go of all connections.

        Raises the first failure of a record that nobody was told of.
        """
        await self._wind_up()
        self._core.failures.raise_untold()

    async def _wind_up(self) -> None:
        machinery, running = self._machinery, self._running
        if machinery is None or running is None:
            return
        try:
            if not running.done():
                await machinery.wind_up()
        finally:
            machinery.engine.stop()
            try:
                await running
            finally:
                await machinery.cluster.__aexit__(None, None, None)

    def _make_room(self) -> None:
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for each in waiting:
            release(each)

    def _machine(self) -> Machinery:
        if self._machinery is None:
            raise NotInOrder("the producer is not started: use it with `async with`, or start it")
        if self._running is not None and self._running.done():
            raise NotInOrder("the producer is closed")
        return self._machinery

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: Callable[[AsyncSent], object] | None = None,
    ) -> AsyncSent:
        """Hand over a record; await what is returned to know that it is stored.

        Waits while the topic is not known, or too much is on its way.
        """
        core, intake = self._core, self._intake
        if topic not in intake.queues or core.is_hindered:
            await self._prepare(topic)
        if core.transaction is not None:
            core.transaction.check_open()
        now_ms = self._now_ms() if timestamp_ms is None else as_timestamp_ms(timestamp_ms)
        key_bytes = None if key is None and intake.is_plain else intake.key_bytes(key)
        value_bytes = (
            value if type(value) is bytes and intake.is_plain else intake.value_bytes(value)
        )
        batch = intake.put(
            topic, key_bytes, value_bytes, as_headers(headers) if headers else (), now_ms, partition
        )
        sent = AsyncSent(batch, now_ms)
        if on_delivery is not None:
            sent.add_done_callback(on_delivery)
        if core.has_news:
            core.has_news = False
            self._machine().engine.pump_soon()
        return sent

    async def _prepare(self, topic: str) -> None:
        engine = self._machine().engine
        core = self._core
        if topic not in self._intake.queues:
            await engine.learn(topic)
        try:
            async with asyncio.timeout(core.settings.block_timeout_ms / 1000):
                while not core.has_room and core.fatal is None:
                    core.close_batches()
                    engine.pump()
                    room = asyncio.get_running_loop().create_future()
                    self._waiting_for_room.append(room)
                    await room
        except TimeoutError:
            raise RequestTimedOut(f"no room for a record of {topic}") from None
        if core.fatal is not None and core.transaction is None:
            raise core.fatal.with_traceback(None)

    async def learn_topics(self, topics: Iterable[str]) -> None:
        """Refuse now what `send` would refuse: best before a transaction that writes to them."""
        await self._machine().engine.learn_all(topics)

    async def flush(self) -> None:
        """Return when everything sent before is stored.

        Raises the first failure of a record that nobody was told of; transactions tell of theirs.
        """
        await self._machine().engine.flush()
        self._core.failures.raise_untold()

    # Transactions

    async def init_transactions(self) -> None:
        """Shut out older producers of this id; the first transaction does so, too."""
        await self._machine().transactions.initialise()

    async def begin_transaction(self) -> None:
        await self._machine().transactions.begin()

    async def commit_transaction(self) -> None:
        await self._machine().transactions.commit()

    async def abort_transaction(self) -> None:
        await self._machine().transactions.abort()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: GroupMetadata | str
    ) -> None:
        """Commit the offsets of a consumer group with this transaction."""
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._machine().transactions.send_offsets(offsets, metadata)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commit at the end of the block, abort on an exception."""
        transactions = self._machine().transactions
        await transactions.begin()
        try:
            yield self
            await transactions.commit()
        except BaseException as error:
            if transactions.is_to_be_aborted:
                try:
                    await transactions.abort()
                except TransactionFailed as failure:
                    if isinstance(failure, MustStop) and isinstance(error, MustAbort):
                        # Only the coordinator tells a newer producer from a late transaction.
                        raise
                    error.add_note(f"and the transaction could not be aborted: {failure}")
            raise
