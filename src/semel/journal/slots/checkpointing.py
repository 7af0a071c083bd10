"""Takes checkpoints beside other work: the lane's state piece by piece, then the indexes, then it.

Law: a checkpoint is created when all slots before it are confirmed, and after the index of every
stretch before it. A failure loses nothing, since every frame is still there to be replayed: it is a
warning, and the next checkpoint does it all.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, NamedTuple

from semel.journal.index import BatchIndex
from semel.journal.slots import keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.checkpoints import KEPT_COUNT, Checkpoint, encode, parts_of
from semel.journal.slots.collecting import Collecting
from semel.journal.slots.history import Standing
from semel.journal.slots.table import SlotTable
from semel.journal.slots.writer import Writer
from semel.records.checksum import crc32c
from semel.store.seam import PART_BYTES
from semel.types import Buffer, Position

PIECE_REST_S: Final = 0.001
"""Between two pieces of a snapshot, each of which takes about as long."""

TABLE_ROW_SIZE: Final = 24
"""Bytes of a slot in a checkpoint."""

INDEX_PART_SIZE: Final = PART_BYTES

ATTEMPTS: Final = 5
"""After which a checkpoint is left to the next."""


class Taking(NamedTuple):
    """A checkpoint that was begun: the state as it was then."""

    standing: Standing
    bases: Sequence[int]
    pieces: Iterator[bytes]
    opened: Generator[None, None, Buffer]


class Checkpointing:
    def __init__(
        self,
        calls: Calls,
        lane: int,
        writer: Writer,
        index: BatchIndex,
        table: SlotTable,
        collecting: Collecting,
        newest: tuple[int, Position],
    ) -> None:
        self.slot, self.position = newest
        """Of the newest checkpoint that is there."""
        self.on_warning = collecting.on_warning
        self._calls = calls
        self._lane = lane
        self._writer = writer
        self._index = index
        self._table = table
        self._collecting = collecting
        self._slots = [self.slot] if self.slot else []
        """Of the checkpoints that are there, as far as we know."""
        self._taking: Taking | None = None
        self._is_due_again = False
        self._begin: Callable[[], Taking]
        self._has_work = asyncio.Event()
        self._ended_position = self.position
        """Of the last that was taken, whether it came to be or not."""
        self._is_urgent = False
        self._attempts = 0
        """To store one in parts."""
        self._has_listed = False
        self._ended = asyncio.Condition()

    def start(self, begin: Callable[[], Taking]) -> None:
        """`begin` gives the present state. `run` has to be run from here on."""
        self._begin = begin

    def begin(self) -> None:
        """Law: one at a time, and never in a step. Another that is due meanwhile follows."""
        if self._taking is not None:
            self._is_due_again = True
            return
        self._taking = self._begin()
        self._writer.cut()
        self._has_work.set()

    async def until_taken(self, position: Position) -> None:
        """Returns when one that covers this was taken, or could not be."""
        self._is_urgent = True
        async with self._ended:
            while self._ended_position < position:
                if self._taking is None:
                    self.begin()
                await self._ended.wait()
        self._is_urgent = False

    async def run(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            taking = self._taking
            assert taking is not None
            try:
                await self._take(taking)
            except Exception as error:  # noqa: BLE001 - every frame is there to be replayed.
                self.on_warning(f"no checkpoint, so the next start replays more: {error}")
            self._taking = None
            self._ended_position = taking.standing.end
            if self._is_due_again:
                self._is_due_again = False
                self.begin()
            async with self._ended:
                self._ended.notify_all()

    async def _take(self, taking: Taking) -> None:
        confirmed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def confirm() -> None:
            # A slot ends there: the next is the first that the checkpoint does not cover.
            if not confirmed.done():
                confirmed.set_result(self._writer.slot)

        self._writer.when_durable(taking.standing.end, confirm)
        state: list[bytes] = []
        checksum = 0
        for piece in taking.pieces:
            state.append(piece)
            checksum = crc32c(piece, checksum)
            await asyncio.sleep(0 if self._is_urgent or self._is_due_again else PIECE_REST_S)
        opened = await _in_steps(taking.opened)
        slot = await confirmed
        await self._publish_indexes(taking.standing.end)
        whole = Checkpoint(slot, taking.standing, taking.bases, self._table, opened, state)
        name = ""
        if TABLE_ROW_SIZE * len(self._table) + len(opened) + sum(map(len, state)) > PART_BYTES:
            name = await self._create_parts(whole)
        key = keys.checkpoint(self._lane, slot)
        await self._calls.create_once(key, encode(whole, checksum, name), ATTEMPTS)
        self.slot, self.position = slot, taking.standing.end
        self._forget_older(slot)

    async def _create_parts(self, checkpoint: Checkpoint) -> str:
        """Under a name that nobody else uses: of one slot, one epoch, and one attempt in it."""
        self._attempts += 1
        name = f"{checkpoint.slot:012d}-{checkpoint.standing.epoch}-{self._attempts}"
        for number, part in enumerate(parts_of(checkpoint)):
            key = keys.checkpoint_part(self._lane, name, number)
            await self._calls.create_once(key, [part], ATTEMPTS)
        return name

    async def _publish_indexes(self, position: Position) -> None:
        for each in self._index.unpublished():
            if each.end <= position:
                content = await _in_steps(each.encode())
                key = keys.index(self._lane, each.base, each.end)
                for number, at in enumerate(range(0, len(content), INDEX_PART_SIZE)):
                    part = memoryview(content)[at : at + INDEX_PART_SIZE]
                    await self._calls.create_once(keys.index_part(key, number), [part], ATTEMPTS)
                self._index.published(each.base)

    def _forget_older(self, slot: int) -> None:
        if slot not in self._slots:
            self._slots.append(slot)
        count = max(0, len(self._slots) - KEPT_COUNT)
        if not self._has_listed or (self._attempts and count):
            # Those of others who have led, some of which came no further than to store parts. Who
            # stores one yet harms nobody: nobody begins with a checkpoint before the newest.
            self._collecting.checkpoints_before(self._slots[count])
            self._has_listed = True
        else:
            self._collecting.checkpoints(self._slots[:count])
        del self._slots[:count]


async def _in_steps(steps: Generator[None, None, Buffer]) -> Buffer:
    """Others have their turn in between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Buffer = end.value
            return found
        await asyncio.sleep(0)
