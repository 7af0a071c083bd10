"""Each rule of the journal is left out in turn; the random crashes must find its absence."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from journal import test_checkpoints, test_recovery, test_room
from journal.random_lives import crash_again_and_again
from semel.errors import CorruptJournal, JournalFull
from semel.journal import frames, names
from semel.journal.file import checkpoints, journal, note, recovery, segments, walk
from semel.journal.file.background import BackgroundJobs
from semel.journal.file.commit import GroupCommit
from semel.journal.file.device import Device, DiskIdentity, Job
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.memory_file import MemoryFile
from semel.journal.index_in_memory import IndexInMemory
from support.compiled import plain_python

SEEDS_MAX = 240
Plant = Callable[[pytest.MonkeyPatch], None]


def a_disk_that_lies_about_its_syncs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryFile, "sync", lambda self, count: None)


def the_suffix_is_not_cut(patch: pytest.MonkeyPatch) -> None:
    """The walk jumps over what is bad, to the next whole frame."""

    def leap(self: walk.Walk, reader: walk.SegmentReader, limit: int) -> walk.StoredFrame | None:
        offset = self.end - reader.base
        stored = bytes(reader.view(0, reader.size))
        while (offset := stored.find(frames.MAGIC, offset)) >= 0:
            frame, self.reason = walk.frame_at(reader, offset, limit)
            if frame is not None:
                return frame
            offset += 1
        return None

    patch.setattr(walk.Walk, "_next", leap)


def frames_are_not_chained(patch: pytest.MonkeyPatch) -> None:
    def unchained(
        self: walk.Walk, reader: walk.SegmentReader, limit: int
    ) -> walk.StoredFrame | None:
        frame, self.reason = walk.frame_at(reader, self.end - reader.base, limit)
        return frame

    patch.setattr(walk.Walk, "_next", unchained)


def what_is_cut_is_not_wiped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_wipe", lambda device, name, offset: None)


def damage_is_cut_like_a_torn_write(patch: pytest.MonkeyPatch) -> None:
    """No durable position is recorded, and the disk loses a synced byte."""
    patch.setattr(frames.FrameHeader, "durable", 0)
    patch.setattr(note.Note, "durable", 0)
    patch.setattr(BackgroundJobs, "publish", lambda self, checkpoint: None)
    keep = MemoryFile.lose_power

    def lose(self: MemoryFile, rng: Any) -> None:
        keep(self, rng)
        if len(self.disk) > 100:
            self.flip_bit(rng.randrange(100), 0)

    patch.setattr(MemoryFile, "lose_power", lose)


def the_tail_is_not_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_rewrite", lambda device, bases, durable, end: None)


def an_io_error_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(note, "write_failed", lambda device, failed: None)


def doubt_is_forgotten_by_the_next_open(patch: pytest.MonkeyPatch) -> None:
    write = note.write

    def forget(device: MemoryDevice, written: note.Note) -> None:
        write(device, written)
        note.write_failed(device, failed=False)

    patch.setattr(note, "write", forget)


def any_disk_is_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DiskIdentity, "proves_same", lambda self, noted: True)


def another_disk_is_noted_before_the_answer(patch: pytest.MonkeyPatch) -> None:
    write = note.write

    def hasty(device: MemoryDevice, written: note.Note) -> None:
        write(device, written._replace(identity=device.identity()))

    patch.setattr(note, "write", hasty)


def a_rename_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    submit = MemoryDevice.submit_sync

    def without_folder(self: MemoryDevice, names: Sequence[str], folder: bool, done: Any) -> None:
        submit(self, names, False, done)

    patch.setattr(MemoryDevice, "submit_sync", without_folder)


def the_segment_before_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    submit = MemoryDevice.submit_sync

    def newest_only(self: MemoryDevice, names: Sequence[str], folder: bool, done: Any) -> None:
        submit(self, names[-1:], folder, done)

    patch.setattr(MemoryDevice, "submit_sync", newest_only)


def a_checkpoint_precedes_its_frames(patch: pytest.MonkeyPatch) -> None:
    def early(self: journal.FileJournal, checkpoint: Any) -> None:
        self._background.publish(checkpoint)

    patch.setattr(journal.FileJournal, "_publish_when_durable", early)


def a_checkpoint_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Renamed at once, and the older one removed."""

    def careless(device: MemoryDevice, name: str, parts: list[bytes], **_: Any) -> Any:
        device.create(name)
        yield
        device.write(name, 0, parts)

    patch.setattr(checkpoints, "write_whole", careless)
    patch.setattr(checkpoints, "decode", _trusting_decode(checkpoints.decode))


def _trusting_decode(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def trust(stored: bytes) -> Any:
        found = decode(stored)
        assert found is not None, "a torn checkpoint was published"
        return found

    return trust


def an_index_is_not_written(patch: pytest.MonkeyPatch) -> None:
    def encode_only(device: Device, indexes: Sequence[IndexInMemory]) -> Job:
        for index in indexes:
            yield from index.encode()

    patch.setattr(checkpoints, "write_indexes", encode_only)
    patch.setattr(checkpoints, "without_index", lambda checkpoint, index_bases: [])


def a_sync_counts_for_what_is_written_meanwhile(patch: pytest.MonkeyPatch) -> None:
    landed = GroupCommit._on_synced

    def generous(self: GroupCommit, target: Any, names: list[str], error: Any) -> None:
        landed(self, self.written, names, error)

    patch.setattr(GroupCommit, "_on_synced", generous)


def a_preallocated_segment_has_no_lasting_name(patch: pytest.MonkeyPatch) -> None:
    preallocate = segments._preallocate

    class Forgetful:
        def __init__(self, device: MemoryDevice) -> None:
            self._device = device

        def __getattr__(self, name: str) -> Any:
            return getattr(self._device, name)

        def sync_folder(self) -> None:
            pass

    patch.setattr(
        segments,
        "_preallocate",
        lambda device, *rest, **how: preallocate(Forgetful(device), *rest, **how),
    )


def a_preallocated_segment_ends_with_its_process(patch: pytest.MonkeyPatch) -> None:
    def removed(device: MemoryDevice) -> int:
        device.remove(names.PREALLOCATED)
        return 0

    patch.setattr(recovery, "_keep_preallocated", removed)


GONE = "a durable frame is gone"
GHOST = "a hole, a ghost or altered bytes"
FORGOTTEN = "an I/O error or a power loss was forgotten"
ALTERED = "a batch is not what was appended"
LOST = f"{GONE}|{ALTERED}|though the journal was durable"

PLANTS: list[tuple[Plant, str]] = [
    (a_disk_that_lies_about_its_syncs, f"{LOST}|it should begin with a line"),
    (the_suffix_is_not_cut, GHOST),
    (damage_is_cut_like_a_torn_write, GONE),
    (the_tail_is_not_written_again, LOST),
    (an_io_error_is_not_noted, FORGOTTEN),
    (doubt_is_forgotten_by_the_next_open, FORGOTTEN),
    (any_disk_is_the_same, FORGOTTEN),
    (another_disk_is_noted_before_the_answer, FORGOTTEN),
    (a_rename_is_not_synced, LOST),
    (the_segment_before_is_not_synced, LOST),
    # The same writes the indexes before it.
    (a_checkpoint_is_not_synced, "a torn checkpoint was published|index: cut at byte"),
    (an_index_is_not_written, "No such file"),
    (a_sync_counts_for_what_is_written_meanwhile, LOST),
]


@plain_python
@pytest.mark.parametrize(("plant", "death"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_dies(plant: Plant, death: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, CorruptJournal, OSError), match=death):
        _crash_all()


def _crash_all() -> None:
    for seed in range(SEEDS_MAX):
        crash_again_and_again(seed)


# Those that chance finds too seldom, each with the test that is made for it.

NAMED: list[tuple[Plant, Callable[[], None]]] = [
    (
        frames_are_not_chained,
        test_recovery.test_a_frame_of_another_history_is_not_taken_though_it_is_whole_and_in_place,
    ),
    (
        what_is_cut_is_not_wiped,
        partial(
            test_recovery.test_a_bad_frame_at_the_durable_position_is_cut_and_all_behind_it_wiped_on_disk,
            0,
        ),
    ),
    (
        a_checkpoint_precedes_its_frames,
        test_checkpoints.test_a_checkpoint_waits_until_the_frames_before_it_are_durable,
    ),
    (
        a_preallocated_segment_has_no_lasting_name,
        partial(test_room.test_what_must_be_left_is_there_after_any_crash_on_a_full_disk, 3_000),
    ),
    (
        a_preallocated_segment_ends_with_its_process,
        partial(test_room.test_what_must_be_left_is_there_after_any_crash_on_a_full_disk, 3_000),
    ),
]


@plain_python
@pytest.mark.parametrize(("plant", "kill"), NAMED, ids=[plant.__name__ for plant, _ in NAMED])
def test_a_planted_bug_dies_by_name(
    plant: Plant, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, JournalFull)):
        kill()
