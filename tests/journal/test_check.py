"""Whatever byte of a folder is damaged, the check finds it, and a start does what it says."""

from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from journal.short_lives import PAYLOAD, device_of, live, reopen
from journal.test_release import release
from semel.errors import CorruptJournal, NewerFormat
from semel.journal import names
from semel.journal.file.check import REFUSED, Finding, Folder, check
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.volume_files import VolumeBatch
from semel.journal.file.walk import StoredFrame
from semel.journal.frames import HEADER_SIZE

COUNT = 300
FRAME_SIZE = HEADER_SIZE + len(PAYLOAD)
STEP = 127
"""Bytes between those that are damaged: prime, so that all kinds of places are met."""

Files = dict[str, bytes]


class Anything:
    """Payloads that nobody knows."""

    builds_indexes = False

    def snapshot(self, stored: bytes, position: int) -> None:
        pass

    def frame(self, frame: StoredFrame) -> Iterator[str]:
        return iter(())

    def volumes(self) -> set[int] | None:
        return set()

    def volume_batch(self, batch: VolumeBatch) -> None:
        raise AssertionError("there are no volumes")

    def batch_in_words(self, partition: int, base_offset: int) -> str:
        raise AssertionError("there are no volumes")

    def missing(self) -> Iterator[str]:
        return iter(())


def checked(device: MemoryDevice) -> list[Finding]:
    return list(check(Folder(device, Anything(), lambda done, total: None)))


def files_of(device: MemoryDevice) -> Files:
    return {name: device.read(name, 0, device.size(name)) for name in device.names()}


def device_with(files: Files) -> MemoryDevice:
    device = MemoryDevice(Random(3))
    for name, content in files.items():
        device.create(name)
        device.write(name, 0, [content])
    return device


@cache
def stopped() -> Files:
    device = device_of()
    live(device, COUNT, durable=True, close=True)
    return files_of(device)


@cache
def without_its_first_segments() -> Files:
    device = device_with(stopped())
    release(device, names.positions(device.names(), names.SEGMENT)[2])
    device.kill()
    live(device, 1, durable=True, close=True)
    return files_of(device)


FOLDERS = {"stopped": stopped, "released": without_its_first_segments}


def test_a_folder_that_was_stopped_is_whole() -> None:
    for folder in FOLDERS.values():
        device = device_with(folder())
        assert checked(device) == []
        assert files_of(device) == folder()


def test_what_was_checked_is_counted_to_its_end() -> None:
    device = device_with(stopped())
    seen: list[tuple[int, int]] = []
    folder = Folder(device, Anything(), lambda done, total: seen.append((done, total)))
    assert not list(check(folder))
    assert folder.counts == {"frames": COUNT, "segments": 5, "indexes": 4, "checkpoints": 2}
    assert seen == sorted(seen)
    assert seen[-1][0] > 0.6 * seen[-1][1]


def used_bytes(files: Files) -> Iterator[tuple[str, int]]:
    """Those that say something: not the room behind the last frame, nor that around a note."""
    open_base = names.positions(list(files), names.SEGMENT)[-1]
    for name, content in files.items():
        if name in (names.PREALLOCATED, names.BALLAST):
            continue
        size = len(content)
        if name == names.segment(open_base):
            size = len(content.rstrip(b"\0"))
        elif name == names.NOTE:
            size = 60
        for offset in range(0, size, STEP if size > 1_000 else 7):
            yield name, offset


@pytest.mark.parametrize("kind", FOLDERS)
def test_each_flipped_bit_is_found_and_a_start_does_what_is_said_of_it(kind: str) -> None:
    files = FOLDERS[kind]()
    meanings: set[tuple[str, str]] = set()
    for name, offset in used_bytes(files):
        device = device_with(files)
        device.flip_bit(name, offset, 2)
        try:
            findings = checked(device)
        except NewerFormat:
            assert name == names.FORMAT
            continue
        damage = [finding for finding in findings if finding.is_damage]
        assert {finding.file for finding in damage} == {name}, (name, offset)
        meanings |= {(name.rpartition(".")[2], finding.meaning) for finding in damage}
        is_refused = any("a start is refused" in finding.meaning for finding in damage)
        try:
            after = reopen(device)
        except CorruptJournal:
            assert is_refused, (name, offset, damage)
        else:
            assert not is_refused, (name, offset, damage)
            assert after.payloads[:COUNT] == [PAYLOAD] * COUNT
    assert {suffix for suffix, _ in meanings} == {
        "segment",
        "index",
        "checkpoint",
        "note",
        "format",
    }


@pytest.mark.parametrize("kind", FOLDERS)
def test_each_missing_file_is_found_and_a_start_does_what_is_said_of_it(kind: str) -> None:
    files = FOLDERS[kind]()
    first = names.segment(names.positions(list(files), names.SEGMENT)[0])
    last = names.checkpoint(names.positions(list(files), names.CHECKPOINT)[-1])
    for name in files.keys() - {names.PREALLOCATED, names.BALLAST, names.FORMAT, last}:
        device = device_with({other: files[other] for other in files if other != name})
        damage = [finding for finding in checked(device) if finding.is_damage]
        older_checkpoint = name.endswith(names.CHECKPOINT)
        assert (name in {finding.file for finding in damage}) != older_checkpoint, name
        is_refused = any(finding.meaning == REFUSED for finding in damage)
        try:
            reopen(device)
        except CorruptJournal:
            assert is_refused, name
        else:
            assert not is_refused, name
            assert name != first


def test_without_any_checkpoint_only_a_whole_journal_is_opened() -> None:
    for files, is_openable in ((stopped(), True), (without_its_first_segments(), False)):
        kept = {name: files[name] for name in files if not name.endswith(names.CHECKPOINT)}
        damage = checked(device_with(kept))
        assert [finding.meaning for finding in damage] == ([] if is_openable else [REFUSED])


def test_an_unfinished_write_is_no_damage() -> None:
    device = device_of()
    live(device, 3, durable=True)
    live(device, 1, durable=False)
    end = 4 * FRAME_SIZE
    assert checked(device) == []
    device.flip_bit(names.segment(0), end - 1)
    (finding,) = checked(device)
    assert (finding.file, finding.byte, finding.is_damage) == (
        names.segment(0),
        end - FRAME_SIZE,
        False,
    )
    assert "the next start cuts it" in finding.meaning
    assert len(reopen(device).payloads) == 3


def test_frames_behind_damage_are_checked_as_well() -> None:
    device = device_with(stopped())
    for frame in (2, 5):
        device.flip_bit(names.segment(0), frame * FRAME_SIZE + 40)
    assert [(finding.byte, finding.what) for finding in checked(device)] == [
        (frame * FRAME_SIZE, f"wrong checksum; {FRAME_SIZE} bytes are no whole frame")
        for frame in (2, 5)
    ]


def test_what_is_not_ours_is_named_and_no_damage() -> None:
    device = device_with({**stopped(), "x.tmp": b"half", "lost+found.txt": b"what"})
    findings = checked(device)
    assert [finding.file for finding in findings] == ["lost+found.txt", "x.tmp"]
    assert not any(finding.is_damage for finding in findings)
