"""Reads: few calls for many small batches, no more memory than is asked for, always an answer."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from semel.journal import names
from semel.journal.file import disk
from semel.journal.file.device import Device
from semel.journal.file.disk import READS_AT_ONCE, FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.segments import Segments
from semel.journal.runs import GAP_MAX, RUN_SIZE_MAX
from semel.types import Buffer
from support import seeded_loop
from support.compiled import plain_python
from support.journal_world import SETTINGS, Remembering


@pytest.fixture
def segments() -> Segments:
    """With one that is long enough for whatever is asked."""
    segments = FileJournal.open(MemoryDevice(Random(1)), SETTINGS).segments
    segments.limit = 2**40
    return segments


def pieces(count: int, size: int, gap: int) -> list[tuple[int, int]]:
    return [(number * (size + gap), size) for number in range(count)]


def test_pieces_that_stand_close_are_read_at_once_and_none_is_left_out(segments: Segments) -> None:
    wanted = pieces(50, 10, 5)
    (run,) = segments.runs(wanted)
    assert [(run.position + start, stop - start) for start, stop in run.pieces] == wanted
    assert not run.is_mostly_gaps


def test_pieces_far_apart_are_read_alone(segments: Segments) -> None:
    runs = segments.runs([(0, 10), (10 + GAP_MAX + 1, 10)])
    assert [run.size for run in runs] == [10, 10]


def test_a_run_among_the_batches_of_others_is_bounded_and_known_as_such(segments: Segments) -> None:
    wanted = pieces(5_000, 100, GAP_MAX)
    runs = segments.runs(wanted)
    assert len(runs) > 1
    assert all(run.size <= RUN_SIZE_MAX and run.is_mostly_gaps for run in runs)
    found = [(run.position + start, stop - start) for run in runs for start, stop in run.pieces]
    assert found == wanted


def test_one_piece_larger_than_a_run_is_read_whole(segments: Segments) -> None:
    (run,) = segments.runs([(0, RUN_SIZE_MAX * 2)])
    assert run.size == RUN_SIZE_MAX * 2


async def close_with_reads_under_way(device: Device, count: int) -> list[Buffer | BaseException]:
    """What each is answered, and behind them one that comes when all is over."""
    lane = Remembering(device)
    lane.start()
    await lane.durable(lane.append(b"payload"))
    name = names.segment(0)
    reads = [asyncio.ensure_future(lane.journal.read_index(name, 0, 10)) for _ in range(count)]
    await asyncio.sleep(0)
    lane.journal.abandon()
    await lane.journal.close()
    return await asyncio.gather(
        *reads, lane.journal.read_index(name, 0, 10), return_exceptions=True
    )


def is_refused(answer: Buffer | BaseException) -> bool:
    return isinstance(answer, OSError) and "the journal was closed" in str(answer)


@plain_python
def test_reads_that_a_stopped_disk_has_not_begun_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()

    class Disk(FileDevice):
        def _read_apart(self, name: str, offset: int, size: int) -> Buffer:
            may_read.wait()
            return super()._read_apart(name, offset, size)

    class Readers(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            may_read.set()
            super().shutdown(wait)

    monkeypatch.setattr(disk, "ThreadPoolExecutor", Readers)
    answers = asyncio.run(close_with_reads_under_way(Disk(tmp_path), READS_AT_ONCE + 3))
    brought = [len(answer) for answer in answers if not isinstance(answer, BaseException)]
    assert brought == [10] * READS_AT_ONCE
    assert [is_refused(answer) for answer in answers[READS_AT_ONCE:]] == [True] * 4


def test_a_stopped_disk_opens_no_file_for_who_still_reads(tmp_path: Path) -> None:
    async def main() -> None:
        device = FileDevice(tmp_path)
        lane = Remembering(device)
        lane.start()
        await lane.durable(lane.append(b"payload"))
        await lane.journal.close()
        assert device.read_now(names.segment(0), 0, 1) is None
        assert not device._readers

    asyncio.run(main())


class Asked(MemoryDevice):
    """Has nothing in memory, and counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.is_cold = True
        self.count = 0

    def read_now(self, name: str, offset: int, size: int) -> bytes | None:
        self.count += 1
        return super().read_now(name, offset, size)


def test_who_has_heard_that_the_disk_must_be_waited_for_does_not_ask_again() -> None:
    """To ask is to begin reading, which the kernel does whether a sync is under way or not."""

    async def main() -> None:
        device = Asked()
        lane = Remembering(device, replace(SETTINGS, tail_bytes=0))
        lane.start()
        first, second = (lane.append(payload) for payload in (b"first", b"second"))
        await lane.durable(second)
        extents = [(first - len(b"first"), len(b"first"))]
        assert lane.journal.read_now(extents) is None
        assert [bytes(found) for found in await lane.journal.read_all(extents)] == [b"first"]
        assert device.count == 1
        # Later it may have been read for someone else.
        await lane.journal.read_all(extents)
        assert device.count == 2

    seeded_loop.run(Random(1), main())


def test_what_the_kernel_has_in_memory_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    stored = bytes(range(256)) * 2048
    (tmp_path / "old").write_bytes(stored)
    device = FileDevice(tmp_path)
    # Where the kernel cannot tell what it has, nothing is read.
    assert device.read_now("old", 3, len(stored) - 3) in (stored[3:], None)
    assert device.read_now("old", 3, len(stored)) is None


@pytest.mark.parametrize("seed", range(10))
def test_reads_under_way_are_refused_when_a_simulated_disk_stops(seed: int) -> None:
    rng = Random(seed)
    answers = seeded_loop.run(rng, close_with_reads_under_way(MemoryDevice(rng), 3))
    assert [is_refused(answer) for answer in answers] == [True] * 4


def test_a_file_that_a_job_removes_is_closed_by_the_thread_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_bytes(b"batches")
    closed_by: dict[int, int] = {}
    close = os.close

    def noted_close(descriptor: int) -> None:
        closed_by[descriptor] = threading.get_ident()
        close(descriptor)

    async def live() -> None:
        device = FileDevice(tmp_path)
        device.start(asyncio.get_running_loop())
        done = asyncio.Event()

        def job() -> Iterator[None]:
            device.remove("old")
            yield

        assert device.read("old", 0, 7) == b"batches"
        (reader,) = device._readers.values()
        monkeypatch.setattr(os, "close", noted_close)
        device.submit(job(), lambda error: done.set())
        await done.wait()
        monkeypatch.undo()
        assert closed_by[reader] == threading.get_ident()
        with pytest.raises(FileNotFoundError):
            device.read("old", 0, 7)
        device.stop()

    asyncio.run(live())


def test_a_disk_that_stops_leaves_no_job_behind(tmp_path: Path) -> None:
    is_stopping = threading.Event()
    made: list[str] = []

    async def live() -> None:
        device = FileDevice(tmp_path)
        device.start(asyncio.get_running_loop())

        def job() -> Iterator[None]:
            is_stopping.wait()
            yield
            device.create("late")
            made.append("late")

        device.submit(job(), lambda error: None)
        is_stopping.set()
        device.stop()
        assert made == ["late"]

    asyncio.run(live())
