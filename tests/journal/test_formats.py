"""A folder names its format: a newer one is refused and left as it is, an older one goes on."""

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from journal.short_lives import PAYLOAD, device_of, live, reopen
from semel.errors import CorruptJournal, FolderInUse, NewerFormat
from semel.journal import names
from semel.journal.file.disk import FileDevice
from semel.journal.file.formats import FORMAT, SEVERAL_LANES, Contents
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import Killed, MemoryDevice
from semel.records.checksum import crc32c
from support.journal_world import SETTINGS

COUNT = 300
CHECKSUM = struct.Struct("<I")


def with_segments() -> MemoryDevice:
    device = device_of()
    live(device, COUNT, durable=True, close=True)
    return device


def contents_of(device: MemoryDevice) -> dict[str, bytes]:
    return {name: device.read(name, 0, device.size(name)) for name in device.names()}


def replace(device: MemoryDevice, name: str, content: bytes) -> None:
    device.create(name)
    device.write(name, 0, [content])


def a_newer_folder(device: MemoryDevice) -> None:
    replace(device, names.FORMAT, b"format %d\nfor Semel 9 and newer\n" % (SEVERAL_LANES + 1))


def a_newer_note(device: MemoryDevice) -> None:
    """In the slot that is written next, which is the older one."""
    body = b"what only they know"
    slot = struct.pack("<8sH", b"SEMELNO3", len(body)) + body
    device.write(names.NOTE, 0, [slot + CHECKSUM.pack(crc32c(slot))])


def a_note_that_says_more(device: MemoryDevice) -> None:
    body = b"\x97" + bytes(7)
    slot = struct.pack("<8sH", b"SEMELNO2", len(body)) + body
    device.write(names.NOTE, 0, [slot + CHECKSUM.pack(crc32c(slot))])


def a_newer_checkpoint(device: MemoryDevice) -> None:
    name = names.checkpoint(names.positions(device.names(), names.CHECKPOINT)[-1])
    body = b"SEMELCP2" + contents_of(device)[name][8:-4]
    replace(device, name, body + CHECKSUM.pack(crc32c(body)))


Change = Callable[[MemoryDevice], None]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            a_newer_folder,
            rf"format {SEVERAL_LANES + 1} \(for Semel 9 and newer\), .* up to {SEVERAL_LANES}",
        ),
        (a_newer_note, "the note has format 3, this Semel reads up to 2"),
        (a_note_that_says_more, "the note says what this Semel does not know"),
        (a_newer_checkpoint, "a checkpoint has format 2, this Semel reads up to 1"),
    ],
)
def test_what_a_newer_version_has_written_is_refused_and_left_as_it_is(
    change: Change, sentence: str
) -> None:
    device = with_segments()
    change(device)
    replace(device, f"x{names.TEMPORARY}", b"a job of theirs")
    before = contents_of(device)
    with pytest.raises(NewerFormat, match=sentence):
        reopen(device)
    assert contents_of(device) == before


@pytest.mark.parametrize("is_snapshot", [True, False])
def test_what_the_lane_does_not_know_is_refused_before_anything_is_changed(
    is_snapshot: bool,
) -> None:
    """There is a frame behind the checkpoint, whose tail an opening writes again."""
    device = with_segments()
    live(device, 1, durable=True)
    before = contents_of(device)

    def refuse(*_: object) -> None:
        raise NewerFormat("unheard of")

    def accept(*_: object) -> None:
        pass

    contents = Contents(refuse, accept) if is_snapshot else Contents(accept, refuse)
    with pytest.raises(NewerFormat, match="unheard of"):
        FileJournal.open(device, SETTINGS, contents)
    assert contents_of(device) == before


@pytest.mark.parametrize("change", [a_newer_note, a_newer_checkpoint])
def test_damage_is_not_taken_for_a_newer_format(change: Change) -> None:
    """As the checksum is wrong, it may be any format: what else is there counts, as always."""
    device = with_segments()
    before = contents_of(device)
    change(device)
    for name, content in contents_of(device).items():
        if content != before[name]:
            device.flip_bit(name, 20)
    assert reopen(device).payloads == [PAYLOAD] * COUNT


def test_a_folder_without_the_file_is_carried_over() -> None:
    """That is what versions up to 0.2.0 have left."""
    device = with_segments()
    device.remove(names.FORMAT)
    assert reopen(device).payloads == [PAYLOAD] * COUNT
    assert contents_of(device)[names.FORMAT] == b"format %d\n" % FORMAT


def test_a_full_disk_is_opened_without_the_file_and_gets_it_later() -> None:
    device = with_segments()
    device.remove(names.FORMAT)
    device.is_full = True
    assert reopen(device).payloads == [PAYLOAD] * COUNT
    assert names.FORMAT not in device.names()
    device.is_full = False
    reopen(device)
    assert names.FORMAT in device.names()


@pytest.mark.parametrize("content", [b"", b"format \n", b"format 1", b"Format 1\n", b"1\n"])
def test_a_file_that_says_nothing_is_refused(content: bytes) -> None:
    device = with_segments()
    replace(device, names.FORMAT, content)
    before = contents_of(device)
    with pytest.raises(CorruptJournal, match=r"^format: it should begin with a line as"):
        reopen(device)
    assert contents_of(device) == before


def test_the_format_is_lasting_before_anything_else_is() -> None:
    """Whatever call of a first opening is the last one, and whatever a power loss leaves of it."""
    calls = 0
    while True:
        device = MemoryDevice(Random(calls))
        device.calls_left = calls
        try:
            FileJournal.open(device, SETTINGS)
        except Killed:
            device.power_loss()
            ours = {name for name in device.names() if not name.endswith(names.TEMPORARY)}
            assert not ours or device.read(names.FORMAT, 0, 100) == b"format %d\n" % FORMAT
            reopen(device)
            calls += 1
        else:
            break
    assert calls > 5


def test_a_refused_folder_gets_no_lock_and_leaks_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / names.FORMAT).write_bytes(b"format 999\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(NewerFormat, match="format 999, this Semel"):
        FileJournal.open(FileDevice(tmp_path), SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == [names.FORMAT]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_who_finds_the_folder_in_use_leaks_no_descriptor(tmp_path: Path) -> None:
    holder = FileDevice(tmp_path)
    FileJournal.open(holder, SETTINGS)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FolderInUse):
        FileJournal.open(FileDevice(tmp_path), SETTINGS)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    holder.stop()
