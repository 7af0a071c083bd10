"""The journal on an object store: frames in slots, each created once, by one leader at a time.

Written means that the leader's memory has it, durable that its slot is known to be ours. So a kill
takes what was not durable, and only a seal leaves no doubt.
"""

import asyncio
import sys
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

from semel.errors import JournalFailed, StoreBehind
from semel.journal import names
from semel.journal.frames import HEADER_SIZE, head
from semel.journal.seam import JournalAbandoned, SealedStretches
from semel.journal.slots import keys
from semel.journal.slots.calls import Calls, trouble_in_words
from semel.journal.slots.checkpointing import INDEX_PART_SIZE, Checkpointing, Taking
from semel.journal.slots.collecting import Collecting
from semel.journal.slots.ending import do_and_stop, do_until
from semel.journal.slots.history import Standing
from semel.journal.slots.opening import Taken, take
from semel.journal.slots.reading import Reading
from semel.journal.slots.settings import SlotSettings
from semel.journal.slots.stretches import Stretches
from semel.journal.slots.writer import Leadership, Writer
from semel.journal.tail import Tail
from semel.store.blocks import BlockCache, Blocks
from semel.store.seam import Store
from semel.types import Buffer, Position
from semel.world import Randomness


class SlotCounts(NamedTuple):
    """What there is to be seen from outside."""

    slot_count: int
    """With data that counts and was not given up."""
    oldest_slot: int
    """Of these; the next to be written if there is none."""
    stored_bytes: int
    barriers_waiting: int
    barriers_passed: int
    barriers_waited_s: float
    cache_hits: int
    cache_misses: int


class SlotJournal:
    def __init__(
        self,
        calls: Calls,
        lane: int,
        node: int,
        randomness: Randomness,
        settings: SlotSettings,
        taken: Taken,
        stretches: Stretches | None = None,
    ) -> None:
        """`stretches` are those of a follower, if the lane goes on from what it has followed."""
        standing = taken.standing
        checkpoint = taken.checkpoint
        self.end = standing.end
        self.epoch: int | None = standing.epoch
        self.term = standing.term
        """What the lane makes of it (rule 17): its epoch, if acknowledged bytes may be missing."""
        self.frames_appended = 0
        self.bytes_appended = 0
        self.limits = settings.limits
        self.may_miss_acknowledged = taken.may_miss_acknowledged
        self.is_continued = taken.is_continued
        """There is only to be replayed what the follower had not given out."""
        self.checkpoint = None if checkpoint is None else b"".join(checkpoint.state)
        self.settings = settings
        # Asked with each frame.
        self._payload_bytes_max = settings.payload_bytes_max
        self._unconfirmed_bytes_max = settings.unconfirmed_bytes
        self._checkpoint_slots = settings.checkpoint_slots
        self._lane = lane
        self._calls = calls
        self._checksum = standing.checksum
        self._table = taken.replay.table
        self._frames = taken.replay.take()
        self._stretches = stretches or Stretches.of(checkpoint, settings.stretch_bytes)
        self.index = self._stretches.index
        self._tail = Tail(settings.tail_bytes, self.index.not_held_to)
        self.index.not_held_to(self.end)
        self._writer = Writer(
            calls,
            Leadership(lane, node, standing.epoch, standing.term),
            taken.fence,
            self.end,
            self._table,
            randomness,
            settings,
        )
        self.blocks = Blocks(calls.get_range, settings.cache_bytes)
        """Of slots and indexes, and of volumes: who reads old data shares one bound."""
        self._reading = Reading(self.blocks, lane, self._table)
        self._collecting = Collecting(calls, lane, _log)
        began = taken.replay.began
        position = taken.replay.standings[began].end
        self._checkpointing = Checkpointing(
            calls, lane, self._writer, self.index, self._table, self._collecting, (began, position)
        )
        self._checkpoint_slot = began
        """Of the checkpoint that was begun last."""
        self._refusal: JournalFailed | None = None
        """Nothing is appended any more."""
        self._is_short = False
        self.refused_count = 0
        """Frames for which there was no room."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()
        self._snapshot: Callable[[], Iterator[bytes]]
        self._tell_failure: Callable[[BaseException], None]
        self._on_warning: Callable[[str], None] = _log
        self._is_store_in_trouble = False
        self._barrier_timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        store: Store,
        lane: int,
        node: int,
        randomness: Randomness,
        settings: SlotSettings | None = None,
    ) -> "SlotJournal":
        """Takes the lane. Raises NotTaken, CorruptJournal, NewerFormat."""
        settings = settings or SlotSettings()
        calls = Calls(store, settings)
        taken = await take(calls, lane, node, randomness, settings)
        return cls(calls, lane, node, randomness, settings, taken)

    def use_cache(self, cache: BlockCache) -> None:
        """Keep there what is confirmed, and what was read. Law: nothing before (rule 34)."""
        self.blocks.cache = cache
        self._writer.on_confirmed = self._reading.confirmed

    # Opening.

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        frames, self._frames = self._frames, []
        for position, payload in frames:
            self._stretches.seal_if_full(position - HEADER_SIZE)
            yield position, payload

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Position], None],
        snapshot: Callable[[], Iterator[bytes]],
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        assert not self._frames, "what was found is not replayed"
        self._loop = loop
        self._snapshot = snapshot
        self._tell_failure = on_failure
        self.checkpoint = None
        if on_warning is not None:
            self._on_warning = on_warning
            self._collecting.on_warning = self._checkpointing.on_warning = on_warning
        self._calls.on_trouble = self._note_trouble

        def moved(position: Position) -> None:
            self._is_store_in_trouble = False
            if 2 * self._writer.unconfirmed_bytes <= self.settings.unconfirmed_bytes:
                self._is_short = False
            on_durable(position)

        self._writer.start(moved, self._on_failure)
        self._checkpointing.start(self._taking)
        for work in (
            *[self._writer.run] * self.settings.puts_at_once,
            self._writer.look,
            self._checkpointing.run,
            self._collecting.run,
        ):
            self._tasks.append(loop.create_task(self._run(work)))
        if self.index.unpublished() or self._is_checkpoint_due:
            self._begin_checkpoint()

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whoever waits for it must not wait in vain.
            self.fail(error, "writing the journal")

    def _note_trouble(self, error: Exception) -> None:
        if not self._is_store_in_trouble:
            self._is_store_in_trouble = True
            self._on_warning(trouble_in_words(error))

    # Running.

    @property
    def written(self) -> Position:
        return self.end

    @property
    def durable(self) -> Position:
        return self._writer.durable

    @property
    def failure(self) -> JournalFailed | None:
        return self._writer.failure

    @property
    def puts(self) -> int:
        return self._writer.puts

    @property
    def slot(self) -> int:
        """The first that is not confirmed."""
        return self._writer.slot

    @property
    def counts(self) -> "SlotCounts":
        barriers, table = self._writer.barriers, self._table
        oldest = table.oldest
        return SlotCounts(
            len(table),
            self.slot if oldest is None else oldest,
            table.stored_bytes,
            len(barriers),
            barriers.passed_count,
            barriers.waited_s,
            self.blocks.hits,
            self.blocks.gets,
        )

    def reserve(self, size: int, kept_size: int) -> None:
        """Raises StoreBehind while so much is unconfirmed that memory would not be bounded.

        What ends what is open may use what is kept from others. A frame is always taken when
        nothing is unconfirmed.
        """
        if self._refusal is not None:
            raise self._refusal
        unconfirmed = self._writer.unconfirmed_bytes
        if unconfirmed:
            wanted = unconfirmed + HEADER_SIZE + size + kept_size
            if wanted > self._unconfirmed_bytes_max:
                self._is_short = True
                self.refused_count += 1
                raise StoreBehind(
                    f"the store has not confirmed {unconfirmed} bytes, and "
                    f"{self.settings.unconfirmed_bytes} are held at most"
                )
        if self._stretches.seal_if_full(self.end) or self._is_checkpoint_due:
            self._begin_checkpoint()

    def room(self, kept_size: int) -> int:
        unconfirmed = self._writer.unconfirmed_bytes
        most = self.limits.payload_bytes_max
        if not unconfirmed:
            return most
        left = self.settings.unconfirmed_bytes - unconfirmed - kept_size - HEADER_SIZE
        return max(0, min(most, left))

    def append(self, parts: list[Buffer], size: int) -> Position:
        if self._refusal is not None:
            raise self._refusal
        assert size <= self._payload_bytes_max, "a frame that fits into no slot"
        position = self.end
        end = Position(position + HEADER_SIZE + size)
        assert self.epoch is not None
        header, self._checksum = head(
            parts, size, self._checksum, position, self.epoch, self._writer.durable
        )
        self.end = end
        self.frames_appended += 1
        self.bytes_appended += HEADER_SIZE + size
        self._writer.add(header, parts, end)
        self._tail.add(position + HEADER_SIZE, parts)
        return Position(position + HEADER_SIZE)

    def when_written(self, position: Position, callback: Callable[[], None]) -> None:
        """At once: the leader's memory has it."""
        callback()

    def write(self) -> None:
        """It is, in the sense of this journal."""

    def when_durable(self, position: Position, callback: Callable[[], None]) -> None:
        self._writer.when_durable(position, callback)

    def barrier(self, callback: Callable[[], None]) -> None:
        """Never at once: that nobody else leads is told by the store alone (rule 18)."""
        self._writer.when_alone(callback)
        self._watch_barriers()

    def _watch_barriers(self) -> None:
        patience_s = self.settings.barrier_s
        if patience_s is None or self._barrier_timer is not None or self._refusal is not None:
            return
        oldest_s = self._writer.barriers.oldest_s
        if oldest_s is not None:
            assert self._loop is not None
            self._barrier_timer = self._loop.call_at(oldest_s + patience_s, self._on_no_barrier)

    def _on_no_barrier(self) -> None:
        self._barrier_timer = None
        oldest_s, patience_s = self._writer.barriers.oldest_s, self.settings.barrier_s
        assert self._loop is not None
        assert patience_s is not None
        if oldest_s is not None and self._loop.time() >= oldest_s + patience_s:
            self._writer.end(
                JournalAbandoned(f"no barrier for {patience_s} s: others may lead by now")
            )
        else:
            self._watch_barriers()

    @property
    def held_from(self) -> Position:
        start = self._tail.start
        return self.durable if start is None else Position(min(start, self.durable))

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        held = self._held(extents)
        if len(held) == len(extents):
            return held
        found = self._reading.read_now(extents[: len(extents) - len(held)])
        return None if found is None else found + held

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """Raises OSError: FileNotFoundError if they were given up."""
        held = self._held(extents)
        return await self._reading.read(extents[: len(extents) - len(held)]) + held

    async def read(self, position: Position, size: int) -> Buffer:
        (found,) = await self.read_all([(position, size)])
        return found

    def _held(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """The last of them, as far as they are in memory: behind the first that is, all are."""
        held: list[memoryview] = []
        for position, size in reversed(extents):
            piece = self._tail.read(position, size)
            if piece is None:
                piece = self._writer.read(position, size)
            if piece is None:
                break
            held.append(memoryview(piece))
        held.reverse()
        return held

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        base = int(name.removesuffix(names.INDEX))
        key = keys.index(self._lane, base, self._stretches.end_of(base))
        found: list[Buffer] = []
        while size:
            number, skip = divmod(offset, INDEX_PART_SIZE)
            its_size = min(size, INDEX_PART_SIZE - skip)
            found.append(await self.blocks.read(keys.index_part(key, number), skip, its_size))
            offset, size = offset + its_size, size - its_size
        return found[0] if len(found) == 1 else b"".join(found)

    async def read_past(self, position: int, size: int) -> list[Buffer]:
        """Whatever lies there in sealed stretches, for who settles them. Raises OSError."""
        return await self._reading.read_past(position, size)

    @property
    def is_short_of_room(self) -> bool:
        return self._is_short

    def make_room(self) -> None:
        pass

    def look_for_room(self) -> None:
        pass

    # Checkpoints, and what they let go.

    @property
    def _is_checkpoint_due(self) -> bool:
        return self._writer.slot - self._checkpoint_slot >= self._checkpoint_slots

    def _begin_checkpoint(self) -> None:
        self._checkpoint_slot = self._writer.slot
        self._checkpointing.begin()

    def _taking(self) -> Taking:
        standing = Standing(self.epoch or 0, self.term, False, self.end, self._checksum)
        bases = self._stretches.bases[:]
        opened = self.index.encode_open(bases[-1], self.end)
        return Taking(standing, bases, self._snapshot(), opened)

    async def checkpoint_now(self) -> None:
        await self._or_over(self._checkpointing.until_taken(self.end))

    def roll(self, kept_size: int) -> bool:
        """There is always room for another stretch."""
        if self._refusal is not None or not self._stretches.seal(self.end):
            return False
        self._begin_checkpoint()
        return True

    def sealed(self) -> SealedStretches:
        """Those that the newest checkpoint has behind it."""
        bases = self._stretches.bases
        count = bisect_right(bases, self._indexed) - 1
        return SealedStretches(bases[: max(0, count) + 1])

    @property
    def _indexed(self) -> int:
        """What the newest checkpoint covers, as far as we know the indexes to be stored: who goes
        on from what was followed has some in memory that the leader before has stored."""
        unpublished = self.index.unpublished()
        covered = self._checkpointing.position
        return min(covered, unpublished[0].base) if unpublished else covered

    def release_before(self, position: Position) -> bool:
        """Deletes the data slots before it that the newest checkpoint has behind it (rule 31).

        The indexes go with their stretches; so does the answer, as every position that is given up
        has another behind it soon.
        """
        if self._refusal is not None:
            return False
        boundary, covered = self._checkpointing.slot, self._checkpointing.position
        bases = self._stretches.bases
        wanted = bisect_right(bases, position) - 1
        count = min(wanted, bisect_right(bases, self._indexed) - 1)
        if count > 0:
            self._stretches.release(count)
            self._collecting.indexes_before(bases[0])
        slots = self._table.collectable(min(position, covered), boundary)
        self._table.forget(len(slots))
        self._collecting.slots(slots)
        self.blocks.forget([keys.slot(self._lane, slot) for slot in slots])
        return wanted <= count

    # Ending.

    def fail(self, error: Exception, deed: str) -> None:
        failure = JournalFailed(f"{deed} failed: {error}")
        failure.__cause__ = error
        self._writer.end(failure)

    def abandon(self) -> None:
        self._writer.end(JournalAbandoned("the lane has stepped down"))

    def _on_failure(self, failure: JournalFailed) -> None:
        self._refusal = failure
        self._over.set()
        for task in self._tasks:
            task.cancel()
        if self._loop is not None:
            self._tell_failure(failure)

    async def hand_over(self, successor: int) -> None:
        """As the seam says. There is no checkpoint: who takes the lane has followed it."""
        # Law: from here on nothing is decided.
        self._refusal = self._refusal or JournalAbandoned("the journal is handed over")
        await self._or_over(self._seal(successor))

    async def close(self, successor: int | None = None) -> None:
        """Makes all of it durable, leaves a checkpoint and seals (rule 17).

        After a failure, and where the wait is cancelled, there is no seal: whoever takes the lane
        next has to doubt.
        """
        is_open = self._loop is not None and self._refusal is None
        work = self._or_over(self._finish(successor)) if is_open else None
        await do_and_stop(work, self._stop)

    def _stop(self) -> list[asyncio.Task[None]]:
        self._refusal = self._refusal or JournalAbandoned("the journal is closed")
        if self._barrier_timer is not None:
            self._barrier_timer.cancel()
        for task in self._tasks:
            task.cancel()
        return self._tasks

    async def _finish(self, successor: int | None) -> None:
        while self.durable < self.end or self._checkpointing.position < self.end:
            end = self.end
            await self._until_durable(end)
            await self._checkpointing.until_taken(end)
            if self.end == end:
                # It may have failed, which is only a warning.
                break
        await self._collecting.until_idle()
        await self._until_durable(self.end)
        # Law: from here on nothing is decided.
        self._refusal = JournalAbandoned("the journal is sealed")
        await self._seal(successor)

    async def _seal(self, successor: int | None) -> None:
        await self._until_durable(self.end)
        await self._writer.seal(successor)

    async def _until_durable(self, position: Position) -> None:
        reached = asyncio.Event()
        self._writer.when_durable(position, reached.set)
        await reached.wait()

    async def _or_over(self, work: Coroutine[Any, Any, None]) -> None:
        """Does it, or as much of it as can be done before the journal ends."""
        if self._writer.failure is not None:
            work.close()
            return
        await do_until(self._over, work)


def _log(warning: str) -> None:
    import structlog

    structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).warning(warning)
