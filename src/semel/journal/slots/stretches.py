"""The stretches of a journal that have one batch index each, as the segments of files do.

Where one ends follows from where it begins: at the first frame that begins behind so many bytes of
it. So whoever replays divides the journal as its leader did, and finds the indexes it has stored.
"""

from array import array
from bisect import bisect_left

from semel.journal.index import BatchIndex
from semel.journal.index_files import read_index
from semel.journal.slots.checkpoints import Checkpoint
from semel.types import Buffer


class Stretches:
    def __init__(self, bytes_max: int) -> None:
        self.bases = array("q", [0])
        """The last is open."""
        self.index = BatchIndex(_not_now)
        self._bytes_max = bytes_max

    @classmethod
    def of(cls, checkpoint: Checkpoint | None, bytes_max: int) -> "Stretches":
        """As they are at a checkpoint. Raises CorruptJournal."""
        stretches = cls(bytes_max)
        if checkpoint is not None:
            stretches.bases = array("q", checkpoint.bases)
            opened = read_index(checkpoint.opened, f"a checkpoint at slot {checkpoint.slot}")
            stretches.index.restore(checkpoint.bases[:-1], opened)
        return stretches

    def seal_if_full(self, end: int) -> bool:
        """Before the frame that begins there."""
        return end - self.bases[-1] >= self._bytes_max and self.seal(end)

    def seal(self, end: int) -> bool:
        """Before it is full; False if there is nothing in it. Who follows begins anew then."""
        base = self.bases[-1]
        if end == base:
            return False
        self.index.seal(base, end)
        self.bases.append(end)
        return True

    def end_of(self, base: int) -> int:
        """Raises FileNotFoundError if the stretch was given up."""
        number = bisect_left(self.bases, base)
        if number + 1 >= len(self.bases) or self.bases[number] != base:
            raise FileNotFoundError(f"the stretch at byte {base} was given up")
        return self.bases[number + 1]

    def release(self, count: int) -> None:
        """Gives up the oldest, whose indexes are stored."""
        del self.bases[:count]
        self.index.release_before(self.bases[0])


def _not_now(name: str, offset: int, size: int) -> Buffer | None:
    """A store is always waited for."""
    return None
