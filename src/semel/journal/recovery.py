"""Opening a journal: find its end, cut what was never durable, make the rest durable, then serve.

A bad frame at or after the highest durable position that was ever recorded is the unsynced
suffix. It is wiped, with everything behind it, so that a frame behind a hole never comes back. A
bad frame before it is damage, and no start repairs that.
"""

import errno
from typing import NamedTuple

from semel.errors import CorruptJournal
from semel.journal import checkpoints, names, note
from semel.journal.checkpoints import Checkpoint
from semel.journal.device import Device
from semel.journal.note import Note
from semel.journal.sealed import SealedIndex
from semel.journal.walk import BLOCK_SIZE, Walk, search_behind
from semel.types import Position


class Recovered(NamedTuple):
    bases: list[int]
    """Where each segment begins."""
    limit: int
    """Where the room of the last segment ends."""
    end: Position
    checksum: int
    """That of the last frame."""
    incarnation: int
    """Of the process that opens now: above all that came before."""
    certain: bool
    """The last process did not end on an I/O error."""
    start: "StartingPoint"


class StartingPoint(NamedTuple):
    """Where the replay begins."""

    checkpoint: Checkpoint | None
    opened: SealedIndex | None
    """The batch index of the open segment up to the checkpoint."""
    positions: list[int]
    """Of the checkpoint and those older."""
    rejected: list[int]
    """Newer checkpoints that cannot be used."""
    durable: int
    """A checkpoint is a fact, even one that cannot be used: all before it was durable."""


def recover(device: Device, segment_bytes: int) -> Recovered:
    found = _tidy(device)
    last = note.read(device)
    noted = Note(0, 0) if last is None else last.note
    bases = names.positions(found, names.SEGMENT)
    start = _starting_point(device, names.positions(found, names.CHECKPOINT))
    if not bases and not noted.durable and not start.durable:
        device.allocate(names.segment(0), segment_bytes)
        bases = [0]
    if start.checkpoint is None or start.opened is None:
        _require(0, bases)
        walk = Walk(device, bases, 0, 0)
    else:
        bases = _segments(device, start.checkpoint, start.opened.base, bases, segment_bytes)
        walk = Walk(device, bases, start.checkpoint.position, start.checkpoint.checksum)
        walk.incarnation = start.checkpoint.incarnation
    for _ in walk:
        pass
    behind = search_behind(device, bases[walk.segment :], walk.end)
    durable = max(walk.durable, behind.durable, start.durable, noted.durable)
    if walk.end < durable:
        base = bases[walk.segment]
        raise CorruptJournal(
            f"{names.segment(base)}, byte {walk.end - base}: {walk.reason}, though the journal "
            f"was durable for {durable - walk.end} bytes more"
        )
    if not behind.is_blank:
        _wipe(device, bases, walk.segment, walk.end)
        del bases[walk.segment + 1 :]
    _rewrite(device, bases, durable, walk.end)
    limit = _extend(device, bases[-1], segment_bytes)
    for position in start.rejected:
        device.remove(names.checkpoint(position))
    incarnation = 1 + max(walk.incarnation, behind.incarnation, noted.incarnation)
    certain = walk.end == 0 if last is None else not last.failed
    note.make(device)
    if not certain:
        # Until a frame that answers the doubt is durable, the next open must share it.
        note.mark(device, failed=True)
    note.write(device, Note(incarnation, walk.end))
    device.sync_folder()
    return Recovered(bases, limit, Position(walk.end), walk.previous, incarnation, certain, start)


def _tidy(device: Device) -> list[str]:
    """Removes what unfinished jobs left, which gives its room back; returns the other names."""
    found = []
    for name in device.names():
        if name.endswith(names.TEMPORARY) or name == names.PREPARED:
            device.remove(name)
        else:
            found.append(name)
    return found


def _starting_point(device: Device, positions: list[int]) -> StartingPoint:
    rejected: list[int] = []
    durable = 0
    for place in reversed(range(len(positions))):
        checkpoint = checkpoints.read(device, positions[place])
        if checkpoint is not None:
            durable = max(durable, checkpoint.position)
            try:
                opened = SealedIndex(memoryview(checkpoint.opened), names.CHECKPOINT)
            except CorruptJournal:
                opened = None
            if opened is not None and checkpoints.has_indexes(device, checkpoint, opened.base):
                kept = positions[: place + 1]
                return StartingPoint(checkpoint, opened, kept, rejected, durable)
        rejected.append(positions[place])
    return StartingPoint(None, None, [], rejected, durable)


def _segments(
    device: Device, checkpoint: Checkpoint, open_base: int, found: list[int], segment_bytes: int
) -> list[int]:
    for base in checkpoint.sealed_bases:
        _require(base, found)
    later = [base for base in found if base >= open_base]
    if not later and checkpoint.position == open_base:
        # The segment before was sealed and synced, but the file of the next one was lost.
        device.allocate(names.segment(open_base), segment_bytes)
        later = [open_base]
    _require(open_base, later)
    return [*checkpoint.sealed_bases, *later]


def _require(base: int, bases: list[int]) -> None:
    if base not in bases:
        raise CorruptJournal(f"{names.segment(base)} is missing")


def _wipe(device: Device, bases: list[int], segment: int, end: int) -> None:
    """Zeros from `end` on, and no later segment."""
    for base in bases[segment + 1 :]:
        device.remove(names.segment(base))
    name = names.segment(bases[segment])
    size = device.size(name)
    offset = end - bases[segment]
    zeros = bytes(BLOCK_SIZE)
    while (offset := device.next_data(name, offset)) < size:
        block = device.read(name, offset, min(BLOCK_SIZE, size - offset))
        if block != zeros[: len(block)]:
            device.write(name, offset, [zeros[: len(block)]])
        offset += len(block)
    device.sync(name)


def _rewrite(device: Device, bases: list[int], durable: int, end: int) -> None:
    """After a failed sync the kernel may call lost pages clean; written again, they are dirty."""
    for place, base in enumerate(bases):
        stop = bases[place + 1] if place + 1 < len(bases) else end
        position = max(durable, base)
        if position >= stop:
            continue
        name = names.segment(base)
        while position < stop:
            block = device.read(name, position - base, min(BLOCK_SIZE, stop - position))
            device.write(name, position - base, [block])
            position += len(block)
        device.sync(name)


def _extend(device: Device, base: int, segment_bytes: int) -> int:
    """Gives the open segment its full room, or what a full disk leaves it."""
    name = names.segment(base)
    size = device.size(name)
    if size < segment_bytes:
        try:
            device.allocate(name, segment_bytes)
            device.sync(name)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        else:
            size = segment_bytes
    return base + size
