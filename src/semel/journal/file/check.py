"""Verifies every checksum of a folder that no broker has, and says what damage there means.

Nothing is changed. One function checks one kind of file; another kind is one more in `CHECKS`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from semel.errors import CorruptJournal
from semel.journal import names, sealed
from semel.journal.file import checkpoints, formats, note
from semel.journal.file.checkpoints import Checkpoint
from semel.journal.file.device import Device
from semel.journal.file.note import LastNote
from semel.journal.file.salvaging import SalvagingDevice
from semel.journal.file.survey import Gap, survey
from semel.journal.file.volume_files import Damage, VolumeBatch, examine
from semel.journal.file.walk import StoredFrame
from semel.journal.index_files import read_index

REFUSED: Final = "a start is refused: restore the folder from a backup"
KNOWN_NAMES: Final = frozenset(
    {names.LOCK, names.NOTE, names.FORMAT, names.PREALLOCATED, names.BALLAST}
)
SUFFIXES: Final = (
    names.SEGMENT,
    names.INDEX,
    names.CHECKPOINT,
    names.VOLUME,
    names.VOLUME_INDEX,
)


class Finding(NamedTuple):
    file: str
    byte: int | None
    """Where in the file, if it is not all of it."""
    what: str
    meaning: str
    is_damage: bool = True
    """False: it may be so in a healthy folder."""


class Examiner(Protocol):
    """Knows what the journal keeps for others."""

    builds_indexes: bool
    """A start builds an index that is lost again, of its segment alone."""

    def snapshot(self, stored: bytes, position: int) -> None:
        """Of the newest checkpoint that a start can use. Raises CorruptJournal."""

    def frame(self, frame: StoredFrame) -> Iterator[str]:
        """What is wrong with its payload. Frames come in order."""

    def volumes(self) -> set[int] | None:
        """Those that are named, behind the last frame; None if too much is damaged to tell."""

    def volume_batch(self, batch: VolumeBatch) -> None:
        """Of a volume that is named."""

    def batch_in_words(self, partition: int, base_offset: int) -> str: ...

    def missing(self) -> Iterator[str]:
        """What was neither in the frames nor in volumes, though it should have been."""


class Folder:
    """What the checks of a folder learn that later ones need."""

    def __init__(
        self, device: Device, examiner: Examiner, on_progress: Callable[[int, int], None]
    ) -> None:
        self.device = device
        self.examiner = examiner
        self.names = sorted(device.names())
        self.note: LastNote | None = None
        self.start: Checkpoint | None = None
        """The newest checkpoint that a start can use, without what was given up since."""
        self.open_base = 0
        """Where the segment begins that was open then."""
        self.durable = 0
        """All before this was durable, by the note and the checkpoints."""
        self.has_lost_frames = False
        self.counts: Counter[str] = Counter()
        self._on_progress = on_progress
        self._done = 0
        self._total = sum(device.size(name) for name in self.names)

    @property
    def released(self) -> int:
        return 0 if self.note is None else self.note.note.released

    @property
    def bases(self) -> list[int]:
        """Of the segments that were not given up."""
        return [base for base in self.positions(names.SEGMENT) if base >= self.released]

    def positions(self, suffix: str) -> list[int]:
        return names.positions(self.names, suffix)

    def read(self, name: str) -> bytes:
        return self.device.read(name, 0, self.device.size(name))

    def passed(self, size: int) -> None:
        """So many bytes are checked."""
        self._done += size
        self._on_progress(self._done, self._total)


def check(folder: Folder) -> Iterator[Finding]:
    """Raises NewerFormat."""
    for check_kind in CHECKS:
        yield from check_kind(folder)


def lost_bytes(device: SalvagingDevice) -> Iterator[Finding]:
    """What the disk did not give while it was checked; what it means was said of what is there."""
    for lost in device.lost():
        yield Finding(
            lost.name,
            lost.offset,
            f"the disk cannot read {lost.size} bytes",
            "copy the folder to another disk, or restore it from a backup",
        )


def _check_format(folder: Folder) -> Iterator[Finding]:
    try:
        formats.read(folder.device)
    except CorruptJournal as error:
        what = str(error).removeprefix(f"{names.FORMAT}: ")
        yield Finding(
            names.FORMAT,
            None,
            what,
            f"a start is refused; if no newer Semel has had this folder, 'format {formats.FORMAT}' "
            "in this file mends it",
        )


def _check_note(folder: Folder) -> Iterator[Finding]:
    device = folder.device
    folder.note = note.read(device)
    rises = "the next start raises the leader epoch and aborts what is open, as after a power loss"
    if names.NOTE not in folder.names:
        if folder.bases:
            yield Finding(names.NOTE, None, "it is missing", rises)
        return
    meaning = rises if folder.note is None else "the other copy counts, and this is written anew"
    for offset in note.damaged_slots(device):
        yield Finding(names.NOTE, offset, "wrong checksum", meaning)
    if folder.note is not None:
        folder.durable = folder.note.note.durable


def _check_checkpoints(folder: Folder) -> Iterator[Finding]:
    bad: list[tuple[int, str]] = []
    unreadable: Finding | None = None
    index_bases = set(folder.positions(names.INDEX))
    for position in reversed(folder.positions(names.CHECKPOINT)):
        folder.counts["checkpoints"] += 1
        found = checkpoints.read(folder.device, position)
        folder.passed(folder.device.size(names.checkpoint(position)))
        if found is None:
            bad.append((position, "wrong checksum"))
            continue
        folder.durable = max(folder.durable, position)
        try:
            opened = read_index(found.opened, names.checkpoint(position))
        except CorruptJournal as error:
            bad.append((position, str(error)))
            continue
        kept = [base for base in found.sealed_bases if base >= folder.released]
        found = found._replace(sealed_bases=kept)
        is_usable = folder.examiner.builds_indexes or not checkpoints.without_index(
            found, index_bases
        )
        if folder.start is None and is_usable:
            folder.start, folder.open_base = found, opened.base
            try:
                folder.examiner.snapshot(found.state[0], position)
            except CorruptJournal as error:
                unreadable = Finding(names.checkpoint(position), None, str(error), REFUSED)
    if unreadable is not None:
        yield unreadable
    for position, what in bad:
        if folder.start is None:
            meaning = REFUSED if folder.released else "a start replays the journal from its start"
        elif position > folder.start.position:
            meaning = "a start takes the checkpoint before it and replays more"
        else:
            meaning = "no start needs it while the newer one is whole"
        yield Finding(names.checkpoint(position), None, what, meaning)


def _check_segments(folder: Folder) -> Iterator[Finding]:
    bases = folder.bases
    for base in _missing_segments(folder):
        yield Finding(names.segment(base), None, "it is missing", REFUSED)
    if folder.released and not folder.positions(names.CHECKPOINT):
        what = f"there is no checkpoint, and what lay before {folder.released} was given up"
        yield Finding("", None, what, REFUSED)
    gaps: list[Gap] = []
    segment = end = 0
    for found in survey(folder.device, bases):
        position = found.position if isinstance(found, Gap) else found.header.position
        while segment + 1 < len(bases) and position >= bases[segment + 1]:
            folder.passed(folder.device.size(names.segment(bases[segment])))
            segment += 1
        if isinstance(found, Gap):
            gaps.append(found)
            end = found.end
        else:
            end = found.header.end
            folder.counts["frames"] += 1
            folder.durable = max(folder.durable, found.header.durable)
            yield from _check_frame(folder, bases[segment], found)
    folder.counts["segments"] = len(bases)
    folder.passed(sum(folder.device.size(names.segment(base)) for base in bases[segment:]))
    lasting = [gap for gap in gaps if gap.position < folder.durable]
    for gap in lasting:
        yield _damage(folder, gap)
    if bases and end < folder.durable:
        what = f"{folder.durable - end} bytes that were durable are missing behind it"
        yield Finding(names.segment(bases[-1]), end - bases[-1], what, REFUSED)
    behind = [gap for gap in gaps if gap.position >= folder.durable]
    if behind and not all(gap.is_blank for gap in behind):
        gap = behind[0]
        yield Finding(
            gap.file,
            gap.offset,
            f"an unfinished write: {gap.reason}",
            "nobody was told that it is durable, and the next start cuts it",
            is_damage=False,
        )
    folder.has_lost_frames = bool(lasting)


def _missing_segments(folder: Folder) -> list[int]:
    """Those that a start asks for."""
    start, bases = folder.start, folder.bases
    if start is None:
        return [] if 0 in bases or folder.released or not (bases or folder.durable) else [0]
    needed = [*start.sealed_bases]
    # An open segment in which nothing was durable is made anew.
    if folder.durable > folder.open_base or max(bases, default=0) > folder.open_base:
        needed.append(folder.open_base)
    return sorted(set(needed) - set(bases))


def _check_frame(folder: Folder, base: int, frame: StoredFrame) -> Iterator[Finding]:
    for what in folder.examiner.frame(frame):
        yield Finding(
            names.segment(base),
            frame.header.position - base,
            what,
            "the frame is as it was written, and so was written wrongly: readers get an error",
        )


def _damage(folder: Folder, gap: Gap) -> Finding:
    start = 0 if folder.start is None else folder.start.position
    if gap.position >= start:
        meaning = REFUSED
    else:
        meaning = "a start does not look there; whoever reads these bytes gets an error"
    return Finding(
        gap.file, gap.offset, f"{gap.reason}; {gap.size} bytes are no whole frame", meaning
    )


def _check_indexes(folder: Folder) -> Iterator[Finding]:
    there = set(folder.positions(names.INDEX))
    for base, end in pairwise(folder.bases):
        name = names.index(base)
        is_needed = folder.start is None or base in folder.start.sealed_bases
        if base not in there:
            if is_needed:
                yield Finding(name, None, "it is missing", _without_index(folder))
            continue
        folder.counts["indexes"] += 1
        stored = folder.read(name)
        folder.passed(len(stored))
        header = sealed.read_header(stored)
        if header is None or (header.base, header.end, header.size) != (base, end, len(stored)):
            what = "this is no index of its segment"
            yield Finding(name, None, what, _with_bad_index(folder))
            continue
        try:
            read_index(stored, name).restored()
        except CorruptJournal:
            yield Finding(name, None, "wrong checksum", _with_bad_index(folder))


def _without_index(folder: Folder) -> str:
    """What a start does that misses one."""
    if folder.examiner.builds_indexes:
        return "the next start builds it again from its segment"
    if folder.released:
        return REFUSED
    return "the next start replays the journal from its start and builds it again"


def _with_bad_index(folder: Folder) -> str:
    """No start opens it."""
    if folder.examiner.builds_indexes or not folder.released:
        return "searches there get an error; without the file, the next start builds it again"
    return (
        "searches there get an error; restore the file from a backup, since it cannot be built "
        "again"
    )


def _check_volumes(folder: Folder) -> Iterator[Finding]:
    named = folder.examiner.volumes()
    there = set(folder.positions(names.VOLUME))
    indexes = set(folder.positions(names.VOLUME_INDEX))
    for number in sorted(there | indexes | (named or set())):
        if named is not None and number not in named:
            name = names.volume(number) if number in there else names.volume_index(number)
            meaning = "the next start removes it"
            yield Finding(name, None, "nothing names this volume", meaning, is_damage=False)
            continue
        if number not in there:
            yield Finding(names.volume(number), None, "it is missing", REFUSED)
        if number not in indexes:
            yield Finding(names.volume_index(number), None, "it is missing", REFUSED)
        if number in there & indexes:
            yield from _check_volume(folder, number)


def _check_volume(folder: Folder, number: int) -> Iterator[Finding]:
    folder.counts["volumes"] += 1
    for found in examine(folder.device, number):
        if isinstance(found, VolumeBatch):
            folder.counts["batches in volumes"] += 1
            folder.passed(found.header.size)
            folder.examiner.volume_batch(found)
        else:
            yield _volume_damage(folder, found)
    folder.passed(folder.device.size(names.volume_index(number)))


def _volume_damage(folder: Folder, found: Damage) -> Finding:
    if found.partition is not None and found.base_offset is not None:
        batch = folder.examiner.batch_in_words(found.partition, found.base_offset)
        meaning = f"whoever reads {batch} gets an error; it is lost unless a backup has it"
    elif found.file.endswith(names.VOLUME):
        meaning = "nobody reads these bytes, or whoever does gets an error"
    else:
        meaning = (
            "searches there get an error: restore the file from a backup, since it cannot be "
            "built again"
        )
    return Finding(found.file, found.byte, found.what, meaning)


def _check_missing(folder: Folder) -> Iterator[Finding]:
    if folder.has_lost_frames:
        for what in folder.examiner.missing():
            yield Finding("", None, what, "the records are lost unless a backup has them")


def _check_others(folder: Folder) -> Iterator[Finding]:
    for name in folder.names:
        if name.endswith(names.TEMPORARY):
            what, meaning = "an unfinished file", "the next start removes it"
        elif name in KNOWN_NAMES or name.endswith(SUFFIXES):
            continue
        else:
            what, meaning = "this is no file of a data folder", "nobody reads it"
        yield Finding(name, None, what, meaning, is_damage=False)


CHECKS: Sequence[Callable[[Folder], Iterator[Finding]]] = (
    _check_format,
    _check_note,
    _check_checkpoints,
    _check_segments,
    _check_indexes,
    _check_volumes,
    _check_missing,
    _check_others,
)
"""In this order: what a start needs is known before what it would meet."""
