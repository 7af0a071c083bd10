"""Opening a journal: find its end, cut what was never durable, make the rest durable, then serve.

A bad frame at or after the highest durable position that was ever recorded is the unsynced
suffix. It is wiped, with everything behind it, so that a frame behind a hole never comes back. A
bad frame before it is damage, and no start repairs that.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file import checkpoints, formats, note
from semel.journal.file.background import remove_segment
from semel.journal.file.checkpoints import Checkpoint
from semel.journal.file.device import Device
from semel.journal.file.formats import Contents
from semel.journal.file.note import Note
from semel.journal.file.segments import FULL, allocate, size_of
from semel.journal.file.settings import JournalSettings
from semel.journal.file.walk import BLOCK_SIZE, Walk, search_behind
from semel.journal.index_files import AnySealedIndex, read_index
from semel.types import Position


class Recovered(NamedTuple):
    bases: list[int]
    """Where each segment begins."""
    limit: int
    """Where the room of the last segment ends."""
    preallocated_size: int
    """Bytes of the segment that the last process had preallocated; 0 if there is none."""
    end: Position
    checksum: int
    """That of the last frame."""
    note: Note
    """What was noted now. Its incarnation is above all that came before."""
    may_miss_acknowledged: bool
    start: "StartingPoint"


class StartingPoint(NamedTuple):
    """Where the replay begins."""

    checkpoint: Checkpoint | None
    opened: AnySealedIndex | None
    """The batch index of the open segment up to the checkpoint."""
    positions: list[int]
    """Of the checkpoint and those older."""
    rejected: list[int]
    """Newer checkpoints that cannot be used."""
    unindexed: list[int]
    """Sealed segments before the checkpoint whose index files are lost, and are to be built again
    before anybody looks anything up."""
    durable: int
    """A checkpoint is a fact, even one that cannot be used: all before it was durable."""


def recover(device: Device, settings: JournalSettings, contents: Contents) -> Recovered:
    # Law: nothing is changed before all that names a format was found to be known here.
    format_number = formats.read(device)
    found = device.names()
    last = note.read(device)
    noted = Note(0, 0) if last is None else last.note
    bases = _kept(names.positions(found, names.SEGMENT), noted.released)
    start = _starting_point(device, found, noted.released, contents)
    _tidy(device, found)
    formats.carry_over(device, format_number)
    if not bases and not noted.durable and not start.durable:
        _make(device, 0, settings)
        bases = [0]
    if start.checkpoint is None or start.opened is None:
        if noted.released:
            raise CorruptJournal(
                f"no checkpoint can be read, and what lay before byte {noted.released} of the "
                "journal was given up"
            )
        _require(0, bases)
        walk = Walk(device, bases, 0, 0)
    else:
        bases = _segments(device, start, bases, noted.durable, settings)
        walk = Walk(device, bases, start.checkpoint.position, start.checkpoint.checksum)
        walk.incarnation = start.checkpoint.incarnation
    for position, payload in walk:
        contents.check_payload(payload, position)
    behind = search_behind(device, bases[walk.segment :], walk.end)
    durable = max(walk.durable, behind.durable, start.durable, noted.durable)
    if walk.end < durable:
        base = bases[walk.segment]
        raise CorruptJournal(
            f"{names.segment(base)}, byte {walk.end - base}: {walk.reason}, though the journal "
            f"was durable for {durable - walk.end} bytes more"
        )
    if not behind.is_blank:
        # Nothing of them counts, but the first has the room that was to be left behind what does.
        for base in reversed(bases[walk.segment + 1 :]):
            device.rename(names.segment(base), names.PREALLOCATED)
        del bases[walk.segment + 1 :]
        _wipe(device, names.segment(bases[-1]), walk.end - bases[-1])
    _rewrite(device, bases, durable, walk.end)
    limit = bases[-1] + _extend(device, names.segment(bases[-1]), settings)
    preallocated_size = _keep_preallocated(device)
    for position in start.rejected:
        device.remove(names.checkpoint(position))
    _remove_released(device, found, noted.released)
    incarnation = 1 + max(walk.incarnation, behind.incarnation, noted.incarnation)
    here = device.identity()
    if last is None:
        may_miss_acknowledged = walk.end > 0
    else:
        is_here = last.note.identity is not None and here.proves_same(last.note.identity)
        may_miss_acknowledged = last.failed or not is_here
    # Until a frame that answers the doubt is durable, the next open must share it.
    new_note = noted._replace(
        incarnation=incarnation,
        durable=walk.end,
        identity=noted.identity if may_miss_acknowledged else here,
    )
    note.make(device)
    # The note says that all of it is durable, and so is written when the names of the files are.
    device.sync_folder()
    note.write(device, new_note)
    return Recovered(
        bases,
        limit,
        preallocated_size,
        Position(walk.end),
        walk.previous,
        new_note,
        may_miss_acknowledged,
        start,
    )


def _tidy(device: Device, found: list[str]) -> None:
    """Removes what unfinished jobs left, which gives its room back."""
    for name in found:
        if name.endswith(names.TEMPORARY):
            device.remove(name)


def _kept(bases: Sequence[int], released: int) -> list[int]:
    """Without those that were given up, though their files may still be there."""
    return list(bases[bisect_left(bases, released) :])


def _remove_released(device: Device, found: list[str], released: int) -> None:
    for suffix in (names.SEGMENT, names.INDEX) if released else ():
        for base in names.positions(found, suffix):
            if base < released:
                remove_segment(device, base)


def _starting_point(
    device: Device, found: list[str], released: int, contents: Contents
) -> StartingPoint:
    positions = names.positions(found, names.CHECKPOINT)
    index_bases = set(names.positions(found, names.INDEX))
    rejected: list[int] = []
    durable = 0
    for number in reversed(range(len(positions))):
        checkpoint = checkpoints.read(device, positions[number])
        if checkpoint is not None:
            contents.check_snapshot(checkpoint.state[0])
            sealed_bases = _kept(checkpoint.sealed_bases, released)
            checkpoint = checkpoint._replace(sealed_bases=sealed_bases)
            durable = max(durable, checkpoint.position)
            try:
                opened = read_index(checkpoint.opened, names.CHECKPOINT)
            except CorruptJournal:
                opened = None
            unindexed = checkpoints.without_index(checkpoint, index_bases)
            if opened is not None and (not unindexed or contents.batches_of is not None):
                kept = positions[: number + 1]
                return StartingPoint(checkpoint, opened, kept, rejected, unindexed, durable)
        rejected.append(positions[number])
    return StartingPoint(None, None, [], rejected, [], durable)


def _segments(
    device: Device,
    start: StartingPoint,
    found: list[int],
    durable: int,
    settings: JournalSettings,
) -> list[int]:
    assert start.checkpoint is not None
    assert start.opened is not None
    checkpoint, open_base = start.checkpoint, start.opened.base
    there = set(found)
    for base in checkpoint.sealed_bases:
        _require(base, there)
    later = [base for base in found if base >= open_base]
    if not later and checkpoint.position == open_base and durable <= open_base:
        # The segment before was sealed and synced, but the file of the next one was lost.
        _make(device, open_base, settings)
        later = [open_base]
    _require(open_base, later)
    return [*checkpoint.sealed_bases, *later]


def _require(base: int, bases: Collection[int]) -> None:
    if base not in bases:
        raise CorruptJournal(
            f"{names.segment(base)} is missing: restore the file, or the folder, from a backup"
        )


def _make(device: Device, base: int, settings: JournalSettings) -> None:
    """The segment that begins there, of the bytes that were preallocated or that the disk has."""
    name = names.segment(base)
    if _keep_preallocated(device):
        device.rename(names.PREALLOCATED, name)
        return
    device.create(name)
    refusal = allocate(device, name, settings)
    if device.size(name) == 0:
        assert refusal is not None
        raise refusal
    device.sync(name)


def _keep_preallocated(device: Device) -> int:
    """The size of the segment that the last process had preallocated, without what it may hold.

    It may have been the open one, under a name that was lost. On a full disk nobody could give its
    room back to us.
    """
    size = size_of(device, names.PREALLOCATED)
    try:
        if size:
            device.allocate(names.PREALLOCATED, size)
            _wipe(device, names.PREALLOCATED, 0)
    except OSError:
        size = 0
    if not size:
        device.remove(names.PREALLOCATED)
    return size


def _wipe(device: Device, name: str, offset: int) -> None:
    """Zeros from there on."""
    size = device.size(name)
    zeros = bytes(BLOCK_SIZE)
    while (offset := device.next_data(name, offset)) < size:
        block = device.read(name, offset, min(BLOCK_SIZE, size - offset))
        if block != zeros[: len(block)]:
            device.write(name, offset, [zeros[: len(block)]])
        offset += len(block)
    device.sync(name)


def _rewrite(device: Device, bases: list[int], durable: int, end: int) -> None:
    """After a failed sync the kernel may call lost pages clean; written again, they are dirty."""
    for number, base in enumerate(bases):
        stop = bases[number + 1] if number + 1 < len(bases) else end
        position = max(durable, base)
        if position >= stop:
            continue
        name = names.segment(base)
        while position < stop:
            block = device.read(name, position - base, min(BLOCK_SIZE, stop - position))
            device.write(name, position - base, [block])
            position += len(block)
        device.sync(name)


def _extend(device: Device, name: str, settings: JournalSettings) -> int:
    """Gives the open segment its full room, or what a full disk leaves it; returns its size."""
    before = device.size(name)
    refusal = allocate(device, name, settings)
    if refusal is not None and refusal.errno not in FULL:
        raise refusal
    after = device.size(name)
    if after > before:
        device.sync(name)
    return after
