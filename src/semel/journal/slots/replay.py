"""Walks the slots in their order and gives the frames of those that count."""

from semel.errors import CorruptJournal
from semel.journal.slots import keys
from semel.journal.slots.entries import Entry, Kind, frames_of, successor_of
from semel.journal.slots.history import Standing, counts, fenced
from semel.journal.slots.table import SlotTable
from semel.types import Position


class Replay:
    """Law: of what it was given, all slots follow each other from `began` on."""

    def __init__(self, lane: int, began: int, standing: Standing, table: SlotTable) -> None:
        self.lane = lane
        self.began = began
        """The checkpoint's slot, before which nothing was read."""
        self.slot = began
        """The next."""
        self.standing = standing
        self.table = table
        self.frames: list[tuple[Position, memoryview]] = []
        """Not yet taken by whoever applies them."""
        self.successor: int | None = None
        """Whom the last seal names."""
        self.standings: dict[int, Standing] = {began: standing}
        """By slot, what all before it say; from `began` on."""

    def add(self, entry: Entry) -> None:
        """What the next slot holds. Raises CorruptJournal; then nothing has changed."""
        standing, head = self.standing, entry.head
        if counts(standing, head):
            if head.kind is Kind.FENCE:
                standing = fenced(standing, head.epoch)
            elif head.kind is Kind.SEAL:
                standing = standing._replace(is_sealed=True)
                self.successor = successor_of(entry)
            else:
                standing = self._add_frames(entry)
        self.slot += 1
        self.standing = self.standings[self.slot] = standing

    def _add_frames(self, entry: Entry) -> Standing:
        standing, head = self.standing, entry.head
        key = keys.slot(self.lane, self.slot)
        if head.first_position != standing.end:
            raise CorruptJournal(
                f"{key} begins at {head.first_position}, behind what ends at {standing.end}"
            )
        frames = frames_of(entry, standing.checksum, key)
        self.frames += frames.payloads
        self.table.add(self.slot, head.first_position, head.end)
        return standing._replace(end=head.end, checksum=frames.checksum)

    def take(self) -> list[tuple[Position, memoryview]]:
        frames, self.frames = self.frames, []
        return frames

    def is_confirmed_by(self, slot: int, standing: Standing) -> bool:
        """Whether a checkpoint at this slot, read later than all slots before it, says the same of
        them. Then none of them was anything else when it was read."""
        return self.standings.get(slot) == standing

    def confirm(self, slot: int) -> None:
        """All before it is known to be true."""
        self.began = slot
        for older in [each for each in self.standings if each < slot]:
            del self.standings[older]
