"""A standby: tails the slots of a lane, so that taking it over replays only what is new.

Two things can deceive whoever only reads. A slot that was written and collected meanwhile looks
like one that is still free (rule 32), and a store that does not answer looks like a leader that
does not write (rule 33).
"""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

from semel.errors import CorruptJournal
from semel.journal.frames import HEADER_SIZE
from semel.journal.index import BatchIndex
from semel.journal.slots import checkpoints, keys
from semel.journal.slots.calls import Calls, trouble_in_words
from semel.journal.slots.checkpoints import Outline
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken, add, begun, read_on, take
from semel.journal.slots.replay import Replay
from semel.journal.slots.settings import SlotSettings
from semel.journal.slots.stretches import Stretches
from semel.store.seam import Store, StoreAway, StoreRefused
from semel.types import Position
from semel.world import Randomness

SLOTS_UNCONFIRMED: Final = 256
"""Behind so many it is asked whether a checkpoint confirms them, so that memory is bounded."""


class Silence:
    """Rule 33: only silence that was seen by successful reads counts as silence."""

    def __init__(self, gap_s_max: float) -> None:
        self.lasted_s = 0.0
        self._gap_s_max = gap_s_max
        self._free_s: float | None = None
        """When the last read was begun, if it found nothing."""

    def free(self, begun_s: float) -> None:
        """A read that was begun then has found nothing new."""
        if self._free_s is not None:
            self.lasted_s += min(begun_s - self._free_s, self._gap_s_max)
        self._free_s = begun_s

    def broken(self) -> None:
        """Something was read, or could not be: all wait the detection time anew."""
        self.lasted_s = 0.0
        self._free_s = None


class Follower:
    """Its owner applies what `replay` gives before it looks again."""

    def __init__(self, store: Store, lane: int, settings: SlotSettings | None = None) -> None:
        self.checkpoint: bytes | None = None
        """The state to begin with; to be taken again whenever `look` has begun anew."""
        settings = settings or SlotSettings()
        self.silence = Silence(settings.gap_s)
        self.caught_up_s: float | None = None
        """When it was last known that there is nothing behind what was read."""
        self._store = store
        self._settings = settings
        self._calls = Calls(store, self._settings)
        self._calls.on_trouble = self._note_trouble
        self.on_warning: Callable[[str], None] = lambda warning: None
        """Told once of a store that does not answer, until it has."""
        self._is_store_in_trouble = False
        self._lane = lane
        self._replay: Replay
        self._stretches: Stretches
        self._free_since_s: float | None = None
        self._hole: tuple[int, int] | None = None
        """Where something was missing when it was looked at last, and from where that was read."""
        self._asked_slot = 0
        """Where it was when it last asked for a checkpoint."""

    def _note_trouble(self, error: Exception) -> None:
        if not self._is_store_in_trouble:
            self._is_store_in_trouble = True
            self.on_warning(trouble_in_words(error))

    @property
    def index(self) -> BatchIndex:
        return self._stretches.index

    @property
    def epoch(self) -> int:
        return self._replay.standing.epoch

    @property
    def slot(self) -> int:
        """The next to be read."""
        return self._replay.slot

    @property
    def end(self) -> Position:
        return self._replay.standing.end

    @property
    def is_sealed(self) -> bool:
        """The leader has gone, and whoever it names may take the lane at once."""
        return self._replay.standing.is_sealed

    @property
    def successor(self) -> int | None:
        return self._replay.successor if self.is_sealed else None

    async def begin(self) -> None:
        """At the newest checkpoint. Raises CorruptJournal, NewerFormat."""
        checkpoint, self._replay = begun(
            self._lane, await checkpoints.newest(self._calls, self._lane)
        )
        self._stretches = Stretches.of(checkpoint, self._settings.stretch_bytes)
        self.checkpoint = None if checkpoint is None else b"".join(checkpoint.state)
        self._free_since_s = None
        self._asked_slot = self._replay.slot
        self.caught_up_s = None
        self.silence.broken()

    async def look(self) -> bool:
        """Read what there is; True if it has begun anew, and what was followed is void.

        Raises CorruptJournal, NewerFormat.
        """
        assert not self._replay.frames, "what was read is not applied"
        if self._replay.slot - self._asked_slot >= SLOTS_UNCONFIRMED and await self._confirm():
            return True
        begun_s = asyncio.get_running_loop().time()
        key = keys.slot(self._lane, self._replay.slot)
        try:
            stored = await self._calls.get(key)
        except (StoreAway, StoreRefused):
            self.silence.broken()
            self._free_since_s = None
            return False
        self._is_store_in_trouble = False
        if stored is None:
            self.caught_up_s = begun_s
            self.silence.free(begun_s)
            return await self._found_free(begun_s)
        self._free_since_s = None
        is_whole = await add(self._calls, self._replay, key, stored) and await self._read_on()
        self.silence.broken()
        if is_whole:
            self.caught_up_s = begun_s
        else:
            await self._begin_behind_hole()
        return not is_whole

    async def _begin_behind_hole(self) -> None:
        """Whoever collects a slot leaves a newer checkpoint before. Raises CorruptJournal if there
        is none, however often it is looked for."""
        began, slot = hole = self._replay.began, self._replay.slot
        await self.begin()
        if hole == self._hole and self._replay.began == began:
            raise CorruptJournal(
                f"{keys.slot(self._lane, slot)} is gone, and there are slots behind it"
            )
        self._hole = hole

    async def _read_on(self) -> bool:
        """What is there behind a slot that was read; False if some of it was collected meanwhile.

        Mostly that is nothing, which a GET tells for less than a list costs; and behind a seal
        nothing counts but the fence of who takes the lane, which is this node if it has its turn.
        """
        if self.is_sealed:
            return True
        key = keys.slot(self._lane, self._replay.slot)
        stored = await self._calls.until_got(key)
        if stored is None:
            return True
        return await add(self._calls, self._replay, key, stored) and await read_on(
            self._calls, self._replay, self._settings
        )

    async def _found_free(self, begun_s: float) -> bool:
        if self._free_since_s is None:
            self._free_since_s = begun_s
        if begun_s - self._free_since_s < self._settings.free_s:
            return False
        self._free_since_s = None
        newest = await checkpoints.boundary(self._calls, self._lane)
        if newest <= self._replay.slot:
            return False
        await self.begin()
        return True

    async def confirm(self) -> bool:
        """As much as could be confirmed by now; True if it has begun anew, as `look`. Behind that
        nothing of what was read can be another than what all others read."""
        assert not self._replay.frames, "what was read is not applied"
        return await self._confirm()

    async def _confirm(self) -> bool:
        """Let a checkpoint say whether what was read is true; True if it is begun anew.

        What stands in a slot that was collected may be another's stray fence. So what is followed
        counts for sure only up to a checkpoint that says the same.
        """
        self._asked_slot = self._replay.slot
        newest = await checkpoints.boundary(self._calls, self._lane)
        if newest <= self._replay.began:
            return False
        outline = await checkpoints.outline_at(self._calls, self._lane, newest)
        if outline is None:
            return False
        if newest <= self._replay.slot and self._agrees(outline):
            await self._adopt(outline)
            return False
        await self.begin()
        return True

    def _agrees(self, outline: Outline) -> bool:
        """Its leader has divided the journal as we do, or its indexes would not be found."""
        first = bisect_left(self._stretches.bases, outline.bases[0])
        bases = self._stretches.bases[first : first + len(outline.bases)]
        return bases == array("q", outline.bases) and self._replay.is_confirmed_by(
            outline.slot, outline.standing
        )

    async def _adopt(self, outline: Outline) -> None:
        self._replay.confirm(outline.slot)
        self._replay.table.replace_before(outline.slot, outline.table)
        # The last is open there, and has no index yet, also if it ends with the checkpoint.
        opened = outline.bases[-1]
        for each in self.index.unpublished():
            if each.end <= opened:
                for _ in each.encode():
                    await asyncio.sleep(0)
                self.index.published(each.base)
        self._stretches.release(bisect_left(self._stretches.bases, outline.bases[0]))

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        """As that of a journal, of what was read since the last time."""
        for position, payload in self._replay.take():
            self._stretches.seal_if_full(position - HEADER_SIZE)
            yield position, payload

    async def take(
        self, node: int, randomness: Randomness, *, only_silent: bool = False
    ) -> SlotJournal:
        """Fences the lane. Raises NotTaken, then it can be followed on; CorruptJournal.

        With `only_silent` not if anything was written since the last look: whoever was faster
        leads then, and is not to be fenced by those who were late.

        What the journal replays goes on from what was followed, if it `is_continued`; else all of
        it begins with the journal's checkpoint.
        """
        calls = Calls(self._store, self._settings)
        calls.on_trouble = self._note_trouble
        try:
            taken = await take(
                calls,
                self._lane,
                node,
                randomness,
                self._settings,
                self._replay,
                only_silent=only_silent,
            )
        except NotTaken:
            # Whoever was faster is to have its time; and a fence of ours may hide a hole.
            self.silence.broken()
            self._asked_slot = -SLOTS_UNCONFIRMED
            raise
        return SlotJournal(
            calls,
            self._lane,
            node,
            randomness,
            self._settings,
            taken,
            self._stretches if taken.is_continued else None,
        )
