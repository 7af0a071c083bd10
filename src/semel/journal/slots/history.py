"""Which entries count, and what they say: the rules 16 and 17.

    Every fence raises the epoch. An entry counts if its epoch is that of the latest fence before
    it and no seal stands between. The term becomes the epoch, unless a seal stands before the
    fence: then all that was answered is there, and the term goes on.

What does not count is as if it were not there, also as the entry before a fence.
"""

from typing import Final, NamedTuple

from semel.journal.slots.entries import Head, Kind
from semel.types import Position

NO_EPOCH: Final = -1


class Standing(NamedTuple):
    """What the slots up to one of them say."""

    epoch: int = NO_EPOCH
    """Of the latest fence."""
    term: int = NO_EPOCH
    is_sealed: bool = False
    """The last entry that counts is a seal."""
    end: Position = Position(0)
    """Behind the last frame."""
    checksum: int = 0
    """Of the last frame."""


def counts(standing: Standing, head: Head) -> bool:
    if head.kind is Kind.FENCE:
        return head.epoch > standing.epoch
    return head.epoch == standing.epoch and not standing.is_sealed


def is_void(epoch: int, head: Head) -> bool:
    """Whether what stands behind the fence of that epoch was left by who led before. What is of a
    later epoch tells that another leads, whether it counts or not."""
    return head.epoch < epoch


def fenced(standing: Standing, epoch: int) -> Standing:
    """Behind a fence that counts."""
    term = standing.term if standing.is_sealed else epoch
    return standing._replace(epoch=epoch, term=term, is_sealed=False)


def may_miss_acknowledged(standing: Standing) -> bool:
    """Whether whoever led before a fence may have answered what is not in the slots before it."""
    return standing.epoch != NO_EPOCH and not standing.is_sealed
