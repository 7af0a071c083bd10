"""The journal on real files: locks, real kills, real full disks, failing calls."""

import asyncio
import contextlib
import errno
import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from journal import victim
from semel.errors import CorruptJournal, FolderInUse, JournalFailed, JournalFull
from semel.journal import names
from semel.journal.file import checkpoints, disk
from semel.journal.file.checkpoints import Checkpoint
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings
from semel.journal.frames import HEADER_SIZE
from semel.journal.index import BatchIndex
from support.journal_world import Remembering, stored_batches

SEGMENT_BYTES = 64 * 1024
SETTINGS = JournalSettings(segment_bytes=SEGMENT_BYTES)
PAYLOAD = b"p" * 1000
FRAME_SIZE = HEADER_SIZE + len(PAYLOAD)


async def live(folder: Path, count: int, *, synced: bool = True) -> list[bytes]:
    """A whole life with a clean end; returns all payloads."""
    lane = Remembering(FileDevice(folder, synced=synced), SETTINGS)
    lane.start()
    for number in range(count):
        position = lane.append(PAYLOAD)
        if number % 10 == 0:
            await lane.durable(position)
    await lane.journal.close()
    assert not lane.failures
    assert not lane.warnings
    return lane.payloads


def descriptors() -> int:
    gc.collect()  # Those that other tests have dropped must not end in between.
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_many_lives_keep_everything_and_leak_no_descriptor(tmp_path: Path) -> None:
    asyncio.run(live(tmp_path / "journal", 5))
    before = descriptors()
    for lives in range(1, 6):
        payloads = asyncio.run(live(tmp_path / "journal", 300))
        assert len(payloads) == 5 + 300 * lives
    assert descriptors() == before


def test_a_sealed_segment_keeps_only_what_it_uses(tmp_path: Path) -> None:
    asyncio.run(live(tmp_path, 300))
    bases = names.positions([path.name for path in tmp_path.iterdir()], names.SEGMENT)
    assert len(bases) > 3
    for base, following in pairwise(bases):
        assert (tmp_path / names.segment(base)).stat().st_size == following - base


def test_batches_are_read_across_segments(tmp_path: Path) -> None:
    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path), SETTINGS)
        lane.start()
        for number in range(200):
            lane.append(b"%d" % number * 200)
        await lane.durable(lane.journal.end)
        batches = stored_batches(lane.journal, 0, 17, 190)
        assert [bytes(batch) for batch in batches] == lane.payloads[17:190]
        await lane.journal.close()

    asyncio.run(main())


def forget_pages(folder: Path) -> None:
    for path in folder.glob(f"*{names.SEGMENT}"):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


@pytest.mark.skipif(disk.NOWAIT is None, reason="this system does not tell what is in memory")
def test_what_the_kernel_has_forgotten_is_read_beside_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        settings = replace(SETTINGS, tail_bytes=0)
        lane = Remembering(FileDevice(tmp_path), settings)
        lane.start()
        for number in range(200):
            lane.append(b"%d" % number * 200)
        await lane.durable(lane.journal.end)
        extents = lane.journal.index.extents(0, 17, 190, 2**30)
        forget_pages(tmp_path)
        assert lane.journal.read_now(extents) is None
        batches = await lane.journal.read_all(extents)
        assert [bytes(batch) for batch in batches] == lane.payloads[17:190]
        warm = lane.journal.read_now(extents)
        assert warm is not None
        assert [bytes(batch) for batch in warm] == lane.payloads[17:190]
        await lane.journal.close()

    asyncio.run(main())


def test_a_second_broker_is_refused_and_the_first_is_not_disturbed(tmp_path: Path) -> None:
    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path), SETTINGS)
        lane.start()
        with pytest.raises(FolderInUse, match="another broker"):
            Remembering(FileDevice(tmp_path), SETTINGS)
        assert await lane.durable(lane.append(PAYLOAD))
        await lane.journal.close()
        assert stored_payloads(tmp_path) == [PAYLOAD]

    asyncio.run(main())


def stored_payloads(folder: Path) -> list[bytes]:
    device = FileDevice(folder)
    payloads = Remembering(device, SETTINGS).payloads
    device.stop()
    return payloads


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(JournalFailed, match="cannot be opened"):
        Remembering(FileDevice(tmp_path / "plain" / "journal"), SETTINGS)


def test_an_unsynced_device_never_calls_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise AssertionError("synced")

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "fdatasync", refuse)
    assert len(asyncio.run(live(tmp_path, 200, synced=False))) == 200


def test_identity_names_this_boot_and_this_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, b = FileDevice(tmp_path / "a").identity(), FileDevice(tmp_path / "b").identity()
    assert a.proves_same(FileDevice(tmp_path / "a").identity())
    assert not a.proves_same(b)
    assert a.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_what_is_unknown_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_BOOT_ID", tmp_path / "absent")
    identity = FileDevice(tmp_path).identity()
    assert not identity.proves_same(identity)


@pytest.mark.parametrize("call", ["fdatasync", "pwritev"])
def test_a_failing_call_ends_the_journal_and_the_next_open_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path), SETTINGS)
        lane.start()
        await lane.durable(lane.append(PAYLOAD))
        lane.journal.segments.finish_preallocating()

        def fail_once(*_: object) -> int:
            monkeypatch.undo()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, call, fail_once)
        assert not await lane.durable(lane.append(PAYLOAD))
        assert [type(failure) for failure in lane.failures] == [JournalFailed]
        await lane.journal.close()

    asyncio.run(main())
    device = FileDevice(tmp_path)
    after = Remembering(device, SETTINGS)
    device.stop()
    assert after.journal.may_miss_acknowledged
    assert after.payloads == ([PAYLOAD, PAYLOAD] if call == "fdatasync" else [PAYLOAD])


def test_a_short_write_ends_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path), SETTINGS)
        lane.start()
        write = os.pwritev

        def cut(descriptor: int, parts: list[bytes], offset: int) -> int:
            whole = b"".join(parts)
            return write(descriptor, [whole[: len(whole) // 2]], offset)

        monkeypatch.setattr(os, "pwritev", cut)
        assert not await lane.durable(lane.append(PAYLOAD))
        assert "of 1032 bytes were written" in str(lane.failures[0])
        monkeypatch.undo()
        await lane.journal.close()
        assert stored_payloads(tmp_path) == []

    asyncio.run(main())


def test_more_parts_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path), SETTINGS)
        lane.start()
        for number in range(1500):
            lane.append(b"%d" % number)
        await lane.durable(lane.journal.end)
        await lane.journal.close()
        assert stored_payloads(tmp_path) == [b"%d" % number for number in range(1500)]

    asyncio.run(main())


@pytest.mark.parametrize("cut", range(0, FRAME_SIZE, 101))
def test_a_torn_tail_is_cut(tmp_path: Path, cut: int) -> None:
    """A copy of the folder, as a power loss may leave it, with the last frame torn at any byte."""

    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path / "journal"), SETTINGS)
        lane.start()
        for _ in range(3):
            await lane.written(lane.append(PAYLOAD))
        shutil.copytree(tmp_path / "journal", tmp_path / "copy")
        await lane.journal.close()

    asyncio.run(main())
    with (tmp_path / "copy" / names.segment(0)).open("r+b") as segment:
        segment.seek(2 * FRAME_SIZE + cut)
        segment.write(bytes(FRAME_SIZE - cut))
    assert stored_payloads(tmp_path / "copy") == [PAYLOAD, PAYLOAD]


def test_a_flipped_bit_names_file_and_byte(tmp_path: Path) -> None:
    asyncio.run(live(tmp_path, 20))
    for path in tmp_path.glob(f"*{names.CHECKPOINT}"):
        path.unlink()
    with (tmp_path / names.segment(0)).open("r+b") as segment:
        segment.seek(3 * FRAME_SIZE + 500)
        segment.write(b"!")
    with pytest.raises(CorruptJournal, match=f"{names.segment(0)}, byte {3 * FRAME_SIZE}: "):
        stored_payloads(tmp_path)


def test_a_name_given_again_is_read_from_its_new_file(tmp_path: Path) -> None:
    """A segment that recovery removed may begin at the same position when it is written again."""
    device = FileDevice(tmp_path)
    for content in (b"old", b"new"):
        device.create("name")
        device.write("name", 0, [content])
        assert device.read("name", 0, 3) == content
        device.remove("name")
    for content in (b"old", b"new"):
        device.create("other")
        device.write("other", 0, [content])
        device.rename("other", "name")
        assert device.read("name", 0, 3) == content
    device.stop()


# A full disk.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 320 KiB; skipped where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs privileges")
    try:
        yield folder
    finally:
        # Lazily: a test that failed may have left files open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_refuses_writes_serves_reads_and_takes_writes_again(small_disk: Path) -> None:
    async def main() -> None:
        settings = JournalSettings(segment_bytes=SEGMENT_BYTES, allocation_retry_ms=1)
        lane = Remembering(FileDevice(small_disk / "journal"), settings)
        lane.start()
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(100 * 1024))
        refusal = ""
        for _ in range(1000):
            try:
                lane.append(PAYLOAD)
            except JournalFull as error:
                refusal = str(error)
                break
            await asyncio.sleep(0)
        assert "No space left on device" in refusal
        assert await lane.durable(lane.append(b"urgent", kept_size=0))
        count = len(lane.payloads)
        batches = stored_batches(lane.journal, 0, 0, count)
        assert [bytes(batch) for batch in batches] == lane.payloads
        ballast.unlink()
        async with asyncio.timeout(60):
            while len(lane.payloads) == count:
                with contextlib.suppress(JournalFull):
                    lane.append(PAYLOAD)
                await asyncio.sleep(0)
        assert await lane.durable(lane.journal.end)
        assert not lane.failures
        await lane.journal.close()
        assert stored_payloads(small_disk / "journal") == lane.payloads

    asyncio.run(main())


def test_a_checkpoint_that_finds_no_room_leaves_none_of_it_behind(small_disk: Path) -> None:
    device = FileDevice(small_disk)
    index = BatchIndex(device.read)
    index.seal(0, 50)

    def opened() -> Generator[None, None, bytes]:
        yield
        return b""

    large = Checkpoint(100, 0, 1, [0], b"", [bytes(400 * 1024)])
    with pytest.raises(OSError, match="written") as refused:
        for _ in checkpoints.publish(device, index.unpublished(), large, opened(), []):
            pass
    assert refused.value.errno == errno.ENOSPC
    assert device.names() == [names.index(0)]


# Real kills.


def test_a_killed_process_loses_nothing_that_was_written(tmp_path: Path) -> None:
    rng = Random(7)
    promised = -1
    for _ in range(8):
        lines = _kill_after(tmp_path, rng.randint(1, 4000))
        found = next(int(line.split()[1]) for line in lines if line.startswith("s "))
        assert found > promised, "a frame that was written is gone"
        told = [int(line.split()[1]) for line in lines if line[0] in "wd"]
        promised = max([promised, *told])
    device = FileDevice(tmp_path)
    lane = FileJournal.open(device, victim.SETTINGS)
    assert not lane.may_miss_acknowledged
    number = int(lane.checkpoint or b"0")
    for position, payload in lane.replay():
        assert victim.number_of(bytes(payload)) == number
        lane.index.add(0, number, position, len(payload), number)
        number += 1
    assert number > promised
    batches = stored_batches(lane, 0, 0, number)
    assert [victim.number_of(bytes(batch)) for batch in batches] == list(range(number))
    device.stop()


def _kill_after(folder: Path, line_count: int) -> list[str]:
    """The lines that the victim printed before it was killed; a half line counts as nothing."""
    process = subprocess.Popen(
        [sys.executable, victim.__file__, str(folder)], stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    printed = b""
    while printed.count(b"\n") < line_count:
        piece = process.stdout.read(65536)
        assert piece, "the victim ended by itself"
        printed += piece
    process.send_signal(signal.SIGKILL)
    printed += process.stdout.read()
    process.stdout.close()
    process.wait()
    return printed[: printed.rfind(b"\n")].decode().splitlines()
