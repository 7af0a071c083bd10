"""A copy of a folder, whole and checked, also while a broker writes to it.

Law: what says how far the journal reaches is read before the journal: the note, then a checkpoint,
then the end of the last whole frame behind that. All before this end is there by then, and no byte
of it changes any more. So are the volumes that the state at this end names: they were there to stay
before it was written that they are, and are removed only behind a frame that names them no longer.
Segments and volumes can only vanish meanwhile, because they were given up; then it is begun anew,
with what was copied already.

The copy has a note of its own, which names no disk: who opens it raises the term, as after a power
loss.
"""

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from semel.errors import ConfigError, CorruptJournal
from semel.journal import names
from semel.journal.file import checkpoints, formats, note
from semel.journal.file.checkpoints import Checkpoint
from semel.journal.file.device import Device
from semel.journal.file.disk import FileDevice, require_data_folder
from semel.journal.file.lane_folders import LANES, held, lane_count, lane_folder
from semel.journal.file.note import Note
from semel.journal.file.salvaging import unused
from semel.journal.file.volume_files import Damage, examine
from semel.journal.file.walk import BLOCK_SIZE, SegmentReader, Walk, frame_at, search_behind
from semel.journal.frames import HEADER_SIZE
from semel.types import Buffer

ATTEMPTS_MAX: Final = 20
"""So often files may vanish; each time more is copied already."""


class Named(Protocol):
    """Follows the state of who keeps volumes, as far as it says which are needed."""

    def snapshot(self, stored: bytes) -> None:
        """Of the checkpoint at which the frames begin; there may be none. Raises CorruptJournal."""

    def frame(self, payload: memoryview, position: int) -> None:
        """The next; its payload begins there. Raises CorruptJournal."""

    def numbers(self) -> set[int]:
        """Of the volumes, behind the last frame."""


def back_up(
    folder: Path, target: Path, named: Callable[[], Named], on_progress: Callable[[int], None]
) -> "Backup":
    """A folder of this name, which is not there before all of it is. Raises as `Backup.make`.

    Of several lanes, each of which may hold what another one has promised, none may go on
    meanwhile: FolderInUse is raised if a broker has them. What is given is of lane 0, and the bytes
    of all.
    """
    partial = target.with_name(f"{target.name}.partial")
    for path in (target, partial):
        if path.exists():
            raise ConfigError(f"{path} is there already: name another, or remove it")
    source = FileDevice(folder)
    require_data_folder(source)
    source.stop()
    count = lane_count(folder)
    with ExitStack() as stack:
        if count > 1:
            stack.enter_context(held(folder))
            for number in range(count):
                stack.enter_context(unused(lane_folder(folder, number)))
        try:
            made, *others = [
                _made(lane_folder(folder, number), lane_folder(partial, number), named, on_progress)
                for number in range(count)
            ]
            if others:
                made.byte_count += sum(each.byte_count for each in others)
                _remember_lanes(partial, count)
            partial.rename(target)
            FileDevice(target.parent).sync_folder()
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return made


def _made(
    folder: Path, target: Path, named: Callable[[], Named], on_progress: Callable[[int], None]
) -> "Backup":
    target.mkdir(parents=True)
    source, device = FileDevice(folder), FileDevice(target)
    backup = Backup(source, device, named)
    try:
        for _ in backup.make():
            on_progress(backup.byte_count)
    finally:
        source.stop()
        device.stop()
    return backup


def _remember_lanes(folder: Path, count: int) -> None:
    for each in (folder / LANES, folder):
        device = FileDevice(each)
        if each == folder:
            formats.write_lanes(device, count)
        device.sync_folder()
        device.stop()


class CopyPlan(NamedTuple):
    noted: Note
    checkpoints: Sequence[Checkpoint]
    """The newest first. Those that can be read."""
    bases: Sequence[int]
    """Of the segments before the end."""
    end: int
    incarnation: int
    volumes: set[int]
    """Those that are needed at the end."""


class Copied(NamedTuple):
    """The frames of a segment that are in the copy."""

    end: int
    checksum: int
    """Of the last of them."""


class Backup:
    def __init__(self, source: Device, target: Device, named: Callable[[], Named]) -> None:
        self.end = 0
        """Of the copy, when it is made."""
        self.byte_count = 0
        """Of frames and volumes, so far."""
        self._source = source
        self._target = target
        self._copied: dict[int, Copied] = {}
        self._indexes: set[int] = set()
        self._named = named
        self._volumes: dict[int, bool] = {}
        """Those that were begun, and whether all of each is copied."""

    def make(self) -> Iterator[None]:
        """Copies into an empty folder, in small steps; lasting when it ends.

        Raises NewerFormat, OSError, and CorruptJournal if what is copied is not whole.
        """
        formats.read(self._source)
        formats.carry_over(self._target, 0)
        for attempt in range(ATTEMPTS_MAX):
            try:
                plan = _plan(self._source, self._named())
                yield from self._copy(plan)
            except FileNotFoundError:
                if attempt + 1 == ATTEMPTS_MAX:
                    raise
            else:
                self._finish(plan)
                self.end = plan.end
                return

    def _copy(self, plan: CopyPlan) -> Iterator[None]:
        previous = 0 if plan.bases[:1] == [0] else None
        ends = [*plan.bases[1:], plan.end]
        for base, end in zip(plan.bases, ends, strict=True):
            done = self._copied.get(base)
            if done is None or done.end != end:
                checksum = yield from _check(self._source, base, end, previous)
                self._copied[base] = done = Copied(end, checksum)
                yield from self._copy_file(names.segment(base), end - base)
                self.byte_count += end - base
            previous = done.checksum
        for base in {base for each in plan.checkpoints for base in each.sealed_bases}:
            if base not in self._indexes:
                name = names.index(base)
                yield from self._copy_file(name, self._source.size(name))
                self._indexes.add(base)
        for number in sorted(plan.volumes):
            if not self._volumes.get(number):
                yield from self._copy_volume(number)

    def _copy_volume(self, number: int) -> Iterator[None]:
        source = self._source
        self._volumes[number] = False
        unseen = 0
        for found in examine(source, number):
            if isinstance(found, Damage):
                place = found.file if found.byte is None else f"{found.file}, byte {found.byte}"
                raise CorruptJournal(f"{place}: {found.what}; a copy of it would be no backup")
            unseen += found.header.size
            if unseen > BLOCK_SIZE:
                unseen = 0
                yield
        for name in (names.volume(number), names.volume_index(number)):
            size = source.size(name)
            yield from self._copy_file(name, size)
            self.byte_count += size
        self._volumes[number] = True

    def _copy_file(self, name: str, size: int) -> Iterator[None]:
        self._target.create(name)
        for offset in range(0, size, BLOCK_SIZE):
            block = self._source.read(name, offset, min(BLOCK_SIZE, size - offset))
            self._target.write(name, offset, [block])
            yield
        self._target.sync(name)

    def _finish(self, plan: CopyPlan) -> None:
        """What makes a folder of it. What was given up since it was copied goes."""
        target = self._target
        for base in self._copied.keys() - set(plan.bases):
            target.remove(names.segment(base))
        for base in self._indexes - set(plan.bases):
            target.remove(names.index(base))
        for number in self._volumes.keys() - plan.volumes:
            target.remove(names.volume(number))
            target.remove(names.volume_index(number))
        for each in plan.checkpoints:
            parts: list[Buffer] = checkpoints.encode(each)
            for _ in checkpoints.write_whole(target, names.checkpoint(each.position), parts):
                pass
        note.make(target)
        target.sync_folder()
        noted = Note(plan.incarnation, plan.end, None, released=plan.noted.released)
        note.write(target, noted)


def _plan(source: Device, named: Named) -> CopyPlan:
    """Raises FileNotFoundError if a file has gone meanwhile."""
    last = note.read(source)
    noted = Note(0, 0) if last is None else last.note
    found = _checkpoints(source, noted.released)
    there = names.positions(source.names(), names.SEGMENT)
    bases = [base for base in there if base >= noted.released]
    if not bases or bases[0] > noted.released:
        raise FileNotFoundError(f"{names.segment(noted.released)} is missing")
    if noted.released and not found:
        raise FileNotFoundError("no checkpoint can be read")
    start, checksum = (found[0].position, found[0].checksum) if found else (bases[0], 0)
    walk = Walk(source, bases, start, checksum)
    walk.incarnation = found[0].incarnation if found else 0
    if found:
        named.snapshot(found[0].state[0])
    for position, payload in walk:
        named.frame(payload, position + HEADER_SIZE)
    durable = max(walk.durable, noted.durable, start)
    if walk.end < durable or _is_cut_short(source, bases, walk):
        base = bases[walk.segment]
        raise CorruptJournal(
            f"{names.segment(base)}, byte {walk.end - base}: {walk.reason}; a copy of it would be "
            "no backup"
        )
    before = [base for base in bases if base < walk.end]
    incarnation = max(walk.incarnation, noted.incarnation)
    return CopyPlan(noted, found, before, walk.end, incarnation, named.numbers())


def _is_cut_short(source: Device, bases: Sequence[int], walk: Walk) -> bool:
    """True if frames that count lie behind bytes that are none.

    Frames are written in order. So if one is seen behind the end and there is none at the end
    afterwards, none was ever to come there.
    """
    behind = search_behind(source, bases[walk.segment :], walk.end)
    if behind.durable <= walk.end:
        return False
    reader = SegmentReader(source, bases[walk.segment])
    is_last = walk.segment + 1 == len(bases)
    limit = reader.base + reader.size if is_last else bases[walk.segment + 1]
    return walk.end < limit and frame_at(reader, walk.end - reader.base, limit)[0] is None


def _checkpoints(source: Device, released: int) -> list[Checkpoint]:
    found: list[Checkpoint] = []
    there = source.names()
    index_bases = set(names.positions(there, names.INDEX))
    for position in reversed(names.positions(there, names.CHECKPOINT)):
        read = checkpoints.read(source, position)
        if read is None:
            continue
        kept = [base for base in read.sealed_bases if base >= released]
        read = read._replace(sealed_bases=kept)
        if not checkpoints.without_index(read, index_bases):
            found.append(read)
    return found


def _check(source: Device, base: int, end: int, previous: int | None) -> Generator[None, None, int]:
    """That the segment has nothing but frames up to there; gives the checksum of the last."""
    reader = SegmentReader(source, base)
    position, block_start = base, 0
    while position < end:
        frame, reason = frame_at(reader, position - base, end)
        if frame is not None and previous is not None and frame.header.previous != previous:
            frame, reason = None, "it does not follow the frame before it"
        if frame is None:
            raise CorruptJournal(
                f"{names.segment(base)}, byte {position - base}: {reason}; a copy of it would be "
                "no backup"
            )
        position, previous = frame.header.end, frame.header.checksum
        if reader.block_start != block_start:
            block_start = reader.block_start
            yield
    assert previous is not None, "a segment before the end has a frame"
    return previous
