"""Where a lane's objects lie in the store.

j/<lane>/<slot>           an entry of the journal
ck/<lane>/<slot>          a checkpoint: the state of all slots before this one
ck-parts/<lane>/<slot>-…  what of a checkpoint is too large for one object
ix/<lane>/<base>-<end>    the batch index of a stretch of the journal; of a large one the rest is
                          .1, .2 …
"""

from collections.abc import Iterable
from typing import Final

from semel.store.seam import StoredObject

SLOT_DIGITS: Final = 12
POSITION_DIGITS: Final = 20


def slots(lane: int) -> str:
    return f"j/{lane:04x}/"


def slot(lane: int, number: int) -> str:
    return f"j/{lane:04x}/{number:0{SLOT_DIGITS}d}"


def checkpoints(lane: int) -> str:
    return f"ck/{lane:04x}/"


def checkpoint(lane: int, number: int) -> str:
    return f"ck/{lane:04x}/{number:0{SLOT_DIGITS}d}"


def checkpoint_parts(lane: int) -> str:
    return f"ck-parts/{lane:04x}/"


def checkpoint_part(lane: int, name: str, number: int) -> str:
    return f"{checkpoint_parts(lane)}{name}.{number}"


def indexes(lane: int) -> str:
    return f"ix/{lane:04x}/"


def index_part(index: str, number: int) -> str:
    return f"{index}.{number}" if number else index


def index(lane: int, base: int, end: int) -> str:
    """Named by its end as well: whoever replays may divide the journal otherwise."""
    return f"ix/{lane:04x}/{base:0{POSITION_DIGITS}d}-{end:0{POSITION_DIGITS}d}"


def ends_by(index: str, position: int) -> bool:
    """Whether this is the index of a stretch that ends there or before."""
    _, _, end = index.rpartition("/")[2].partition(".")[0].partition("-")
    return len(end) == POSITION_DIGITS and end.isdecimal() and int(end) <= position


def is_before(checkpoint: str, slot: int) -> bool:
    """Whether this is a checkpoint before that of the slot, or a part of one."""
    its_slot = checkpoint.rpartition("/")[2].partition("-")[0]
    return len(its_slot) == SLOT_DIGITS and its_slot.isdecimal() and int(its_slot) < slot


def reused(lane: int) -> tuple[str, ...]:
    """Folders whose keys may have held something else before, or in another's eyes."""
    return slots(lane), indexes(lane)


def numbers(found: Iterable[StoredObject]) -> list[int]:
    """The slots in the keys of entries or checkpoints, rising; other keys are nobody's here."""
    return sorted(sizes(found))


def sizes(found: Iterable[StoredObject]) -> dict[int, int]:
    """As `numbers`, with how large each is."""
    tails = ((each.key.rpartition("/")[2], each.size) for each in found)
    return {
        int(tail): size for tail, size in tails if len(tail) == SLOT_DIGITS and tail.isdecimal()
    }
