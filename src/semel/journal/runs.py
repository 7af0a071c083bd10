"""Pieces of files that lie near each other, gathered so that few reads bring many."""

from collections.abc import Callable
from typing import Final, NamedTuple

from semel.types import Buffer

GAP_MAX: Final = 16 * 1024
"""Bytes between two pieces that cost less to read than another call would."""

RUN_SIZE_MAX: Final = 4 * 2**20
"""Bytes. What lies between the pieces is held in memory until they are taken out of it."""


class Run(NamedTuple):
    """Neighbouring pieces of one file, read at once."""

    position: int
    pieces: list[tuple[int, int]]
    """Where each piece begins and ends in the run."""

    @property
    def size(self) -> int:
        return self.pieces[-1][1]

    def cut(self, stored: Buffer) -> list[memoryview]:
        """The pieces of the run whose bytes these are."""
        view = memoryview(stored)
        taken = [view[start:stop] for start, stop in self.pieces]
        # A reply is kept until its client has read it, and must not keep the batches of others
        # that lay between its own.
        return [memoryview(bytes(piece)) for piece in taken] if self.is_mostly_gaps else taken

    @property
    def is_mostly_gaps(self) -> bool:
        return self.size > 2 * sum(stop - start for start, stop in self.pieces)


def gather(extents: list[tuple[int, int]], file_end: Callable[[int], int]) -> list[Run]:
    """Extents, given by rising position and by size, in as few reads as is wise.

    `file_end` tells where the file ends that holds a position.
    """
    runs: list[Run] = []
    start = end = boundary = -1
    for position, size in extents:
        if (
            position < boundary
            and position - end <= GAP_MAX
            and position + size - start <= RUN_SIZE_MAX
        ):
            runs[-1].pieces.append((position - start, position - start + size))
        else:
            start = position
            boundary = file_end(position)
            runs.append(Run(start, [(0, size)]))
        end = position + size
    return runs
