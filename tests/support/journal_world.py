"""A lane that only remembers: drives a journal through crashes and holds it to what it promised."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Generic, TypeVar

from semel.journal.file.device import Device
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings
from semel.journal.pages import NotLoaded
from semel.journal.seam import Journal
from semel.types import Position

SEGMENT_BYTES = 8192
SETTINGS = JournalSettings(segment_bytes=SEGMENT_BYTES)
SEPARATOR = b"\n"


AnyJournal = TypeVar("AnyJournal", bound=Journal)


class RememberingOn(Generic[AnyJournal]):
    """The state is the list of payloads; a checkpoint holds all of them."""

    def __init__(self, journal: AnyJournal, followed: Sequence[bytes] = ()) -> None:
        """`followed` is what a standby knows already, and the journal does not replay."""
        self.journal = journal
        self.failures: list[BaseException] = []
        self.warnings: list[str] = []
        self._events: list[asyncio.Event] = []
        self.durable_calls: list[Position] = []
        self.payloads_per_piece = 100
        stored = self.journal.checkpoint
        self.checkpoint_count = 0 if not stored else stored.count(SEPARATOR)
        self.payloads = stored.split(SEPARATOR)[:-1] if stored else list(followed)
        self.known_count = len(self.payloads)
        """Of what was replayed, what did not come from frames."""
        for position, payload in self.journal.replay():
            self.apply(position, bytes(payload))
        self.replayed = list(self.payloads)

    def start(self) -> None:
        self.journal.start(
            asyncio.get_running_loop(),
            self.durable_calls.append,
            self._snapshot,
            self._fail,
            self.warnings.append,
        )

    def _snapshot(self) -> Iterator[bytes]:
        return self._pieces([payload + SEPARATOR for payload in self.payloads])

    def _pieces(self, stored: list[bytes]) -> Iterator[bytes]:
        count = self.payloads_per_piece
        for start in range(0, len(stored), count):
            yield b"".join(stored[start : start + count])

    def append(self, payload: bytes, *, kept_size: int | None = None) -> Position:
        """Returns the position to wait for. The headroom is kept, unless something else is."""
        assert SEPARATOR not in payload
        headroom = self.journal.limits.headroom
        self.journal.reserve(len(payload), headroom if kept_size is None else kept_size)
        middle = len(payload) // 2
        position = self.journal.append([payload[:middle], payload[middle:]], len(payload))
        self.apply(position, payload)
        return self.journal.end

    def apply(self, position: Position, payload: bytes) -> None:
        partition, offset = 0, len(self.payloads)
        self.journal.index.add(partition, offset, position, len(payload), offset * 10)
        self.payloads.append(payload)

    async def durable(self, position: Position) -> bool:
        """False if the journal failed before."""
        return await self._reached(lambda done: self.journal.when_durable(position, done))

    async def written(self, position: Position) -> bool:
        return await self._reached(lambda done: self.journal.when_written(position, done))

    async def _reached(self, ask: Callable[[Callable[[], None]], None]) -> bool:
        event = asyncio.Event()
        reached = False

        def reach() -> None:
            nonlocal reached
            reached = True
            event.set()

        self._events.append(event)
        ask(reach)
        await event.wait()
        return reached

    def _fail(self, failure: BaseException) -> None:
        self.failures.append(failure)
        for event in self._events:
            event.set()


class Remembering(RememberingOn[FileJournal]):
    def __init__(self, device: Device, settings: JournalSettings = SETTINGS) -> None:
        super().__init__(FileJournal.open(device, settings))


def payload_of(rng: Random, number: int, size_max: int = 900) -> bytes:
    """Hardly like any other, but often of the same size, so that frames fit where others were."""
    return b"%06d:" % number + b"x" * rng.choice((0, 20, 20, 20, 100, rng.randint(0, size_max)))


def stored_batches(
    journal: FileJournal, partition: int, from_offset: int, below_offset: int
) -> list[memoryview]:
    """Whole stored batches from the one that holds `from_offset`, each beginning below the end."""
    if from_offset >= below_offset:
        return []
    device, locate = journal._device, journal.segments.locate
    while True:
        try:
            extents = journal.index.extents(partition, from_offset, below_offset, 2**30)
            break
        except NotLoaded as missing:
            # The kernel does not have it any more; a broker would read it beside its loop.
            missing.keep(device.read(missing.name, missing.offset, missing.size))
    found = journal.read_now(extents)
    if found is None:
        found = [memoryview(device.read(*locate(position), size)) for position, size in extents]
    return found
