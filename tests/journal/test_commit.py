"""Group commit: who is told what, in which order, and how many syncs it takes."""

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from semel.errors import FolderInUse, JournalFailed
from semel.journal.file.commit import SyncReason
from semel.journal.file.device import Done
from semel.journal.file.disk import FileDevice
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.journal.seam import JournalAbandoned
from support import seeded_loop
from support.compiled import plain_python
from support.journal_world import SEGMENT_BYTES, Remembering


def run(main: Coroutine[Any, Any, None], seed: int = 0) -> None:
    seeded_loop.run(Random(seed), main)


def started(settings: JournalSettings | None = None, seed: int = 0) -> Remembering:
    device = MemoryDevice(Random(seed))
    lane = Remembering(device, settings or JournalSettings(segment_bytes=SEGMENT_BYTES))
    lane.start()
    return lane


def syncs(lane: Remembering) -> dict[str, int]:
    counts = lane.journal.sync_counts
    return {str(reason): count for reason, count in counts.items() if reason != SyncReason.OPEN}


@pytest.mark.parametrize("seed", range(20))
def test_frames_of_one_tick_share_one_write_and_one_sync(seed: int) -> None:
    async def main() -> None:
        lane = started(seed=seed)
        told: list[int] = []
        for number in range(50):
            position = lane.append(b"%d" % number)
            lane.journal.when_durable(position, partial(told.append, number))
        await lane.durable(lane.journal.end)
        assert told == list(range(50))
        assert lane.journal.writes == 1
        assert syncs(lane) == {"waiting": 1}

    run(main(), seed)


def test_written_comes_before_durable_and_the_durable_state_before_those_who_wait() -> None:
    async def main() -> None:
        lane = started()
        events: list[str] = []
        position = lane.append(b"x")
        lane.journal.when_durable(position, lambda: events.append(f"told {lane.durable_calls}"))
        lane.journal.when_written(position, lambda: events.append(f"at {lane.journal.written}"))
        assert lane.journal.written == lane.journal.durable == 0
        await lane.durable(position)
        assert events == [f"at {position}", f"told [{position}]"]
        assert lane.journal.durable == position

    run(main())


class HeldSyncs(MemoryDevice):
    """Each goes on when it is let go."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.held: list[Callable[[], None]] = []

    def submit_sync(self, names: Sequence[str], folder: bool, on_done: Done) -> None:
        self.held.append(partial(super().submit_sync, names, folder, on_done))


def test_the_disk_has_its_next_work_before_those_who_waited_for_the_last_are_told() -> None:
    async def main() -> None:
        device = HeldSyncs(Random(0))
        lane = Remembering(device, JournalSettings(segment_bytes=SEGMENT_BYTES))
        lane.start()
        seen: list[tuple[str, int]] = []
        first = lane.append(b"x")
        lane.journal.when_written(first, lambda: seen.append(("written", len(device.held))))
        lane.journal.when_durable(first, lambda: seen.append(("durable", len(device.held))))
        await lane.written(first)
        second = lane.append(b"y")
        lane.journal.when_durable(second, lambda: None)
        await lane.written(second)
        assert seen == [("written", 1)]
        device.held.pop()()
        await lane.durable(first)
        assert seen == [("written", 1), ("durable", 1)]
        device.held.pop()()
        await lane.durable(second)

    run(main())


def test_what_is_so_already_is_told_at_once() -> None:
    async def main() -> None:
        lane = started()
        position = lane.append(b"x")
        await lane.durable(position)
        told: list[str] = []
        lane.journal.when_written(position, lambda: told.append("written"))
        lane.journal.when_durable(position, lambda: told.append("durable"))
        assert told == ["written", "durable"]

    run(main())


@pytest.mark.parametrize("seed", range(20))
def test_waits_may_be_asked_in_any_order_and_are_told_by_position(seed: int) -> None:
    async def main() -> None:
        rng = Random(seed)
        lane = started(seed=seed)
        positions = [lane.append(b"x" * size) for size in range(20)]
        asked = list(positions)
        rng.shuffle(asked)
        told: list[int] = []
        for position in asked:
            lane.journal.when_durable(position, partial(told.append, position))
            lane.journal.when_written(position, partial(told.append, -position))
        await lane.durable(positions[-1])
        assert told == [*(-position for position in positions), *positions]

    run(main(), seed)


def test_without_anyone_waiting_bytes_are_synced_within_the_interval() -> None:
    async def main() -> None:
        lane = started(JournalSettings(segment_bytes=SEGMENT_BYTES, flush_interval_ms=50))
        loop = asyncio.get_running_loop()
        position = lane.append(b"x")
        await lane.written(position)
        begun_s = loop.time()
        await seeded_loop.elapse(0.049)
        assert lane.journal.durable == 0
        while lane.journal.durable < position:
            lane.append(b"more")
            await seeded_loop.elapse(0.001)
        # A simulated sync takes a millisecond, rarely ten.
        assert loop.time() - begun_s < 0.07
        assert syncs(lane) == {"interval": 1}

    run(main())


def test_the_durable_position_never_passes_what_was_written_when_the_sync_began() -> None:
    async def main() -> None:
        lane = started()
        first = lane.append(b"first")
        await lane.written(first)
        lane.journal.when_durable(first, lambda: None)
        lane.append(b"second")
        await lane.written(lane.journal.end)
        if not lane.durable_calls:
            await lane.durable(first)
            assert lane.durable_calls == [first]

    for seed in range(30):
        run(main(), seed)


def test_without_group_commit_each_sync_releases_one_waiter() -> None:
    async def main() -> None:
        lane = started(JournalSettings(segment_bytes=SEGMENT_BYTES, group_commit=False))
        for number in range(10):
            lane.journal.when_durable(lane.append(b"%d" % number), lambda: None)
        await lane.durable(lane.journal.end)
        assert syncs(lane) == {"waiting": 10}
        assert len(lane.durable_calls) == 10

    run(main())


@pytest.mark.parametrize("fault", ["fails_next_sync", "fails_next_write"])
def test_after_a_failed_write_or_sync_nothing_is_appended_or_acknowledged(fault: str) -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        lane = Remembering(device)
        lane.start()
        await lane.durable(lane.append(b"good"))
        durable = lane.journal.durable
        setattr(device, fault, True)
        position = lane.append(b"bad")
        assert not await lane.durable(position)
        assert [type(failure) for failure in lane.failures] == [JournalFailed]
        with pytest.raises(JournalFailed):
            lane.journal.append([b"never"], 5)
        with pytest.raises(JournalFailed):
            lane.journal.reserve(5, 0)
        await seeded_loop.elapse(10)
        assert lane.journal.durable == durable
        assert len(lane.failures) == 1
        await lane.journal.close()
        assert Remembering(device).journal.may_miss_acknowledged

    run(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_sync_that_fails_behind_a_step_down_leaves_the_doubt(seed: int) -> None:
    async def main() -> None:
        device = MemoryDevice(Random(seed))
        lane = Remembering(device)
        lane.start()
        position = lane.append(b"acknowledged when written")
        await lane.written(position)
        lane.journal.when_durable(position, lambda: None)
        device.fails_next_sync = True
        lane.journal.abandon()
        await lane.journal.close()
        assert not device.fails_next_sync
        assert [type(failure) for failure in lane.failures] == [JournalAbandoned]
        again = Remembering(device)
        assert again.journal.may_miss_acknowledged
        again.start()
        assert await again.durable(again.append(b"the lane's answer"))
        await again.journal.close()
        assert not Remembering(device).journal.may_miss_acknowledged

    run(main(), seed)


class SlowDisk(FileDevice):
    """Its next sync fails when it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fails = False
        self.may_fail = threading.Event()

    def _sync(self, descriptor: int, *, whole: bool = False) -> None:
        if self.fails and threading.current_thread().name == "semel-sync":
            self.may_fail.wait()
            self.fails = False
            raise OSError(errno.EIO, "Input/output error")
        super()._sync(descriptor, whole=whole)


@plain_python
def test_on_files_nobody_else_has_the_folder_before_that_doubt_is_noted(tmp_path: Path) -> None:
    async def main() -> None:
        device = SlowDisk(tmp_path)
        lane = Remembering(device)
        lane.start()
        position = lane.append(b"acknowledged when written")
        device.fails = True
        await lane.written(position)
        lane.journal.when_durable(position, lambda: None)
        lane.journal.abandon()
        asyncio.get_running_loop().call_soon(device.may_fail.set)
        await lane.journal.close()
        again = Remembering(FileDevice(tmp_path))
        assert again.journal.may_miss_acknowledged
        again.start()
        await again.journal.close()

    asyncio.run(main())


class HeldDisk(FileDevice):
    """One kind of its work takes until it is released: a sync, a cold read, a job."""

    def __init__(self, folder: Path, held: str) -> None:
        super().__init__(folder)
        self._held = held
        self.is_held = False
        self.begun = threading.Event()
        self.released = threading.Event()

    def _hold(self) -> None:
        if self.is_held and threading.current_thread().name.startswith(self._held):
            self.begun.set()
            # Whoever waits on the loop for this waits in vain, and for a while only.
            self.released.wait(2)

    def _sync(self, descriptor: int, *, whole: bool = False) -> None:
        self._hold()
        super()._sync(descriptor, whole=whole)

    def _open(self, name: str, flags: int) -> int:
        self._hold()
        return super()._open(name, flags)


@plain_python
@pytest.mark.parametrize("held", ["semel-sync", "semel-read", "semel-job"])
def test_a_journal_that_steps_down_does_not_wait_on_the_loop(tmp_path: Path, held: str) -> None:
    async def main() -> None:
        device = HeldDisk(tmp_path, held)
        lane = Remembering(device)
        lane.start()
        await lane.durable(lane.append(b"a"))
        await lane.journal.checkpoint_now()
        device.is_held = True
        if held == "semel-job":
            lane.append(b"b")
            checkpoint = asyncio.ensure_future(lane.journal.checkpoint_now())
        elif held == "semel-read":
            device.submit_read("lock", 0, 1, lambda found: None)
        else:
            lane.journal.when_durable(lane.append(b"b"), lambda: None)
        await asyncio.to_thread(device.begun.wait)
        lane.journal.abandon()
        closing = asyncio.ensure_future(lane.journal.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not device.released.is_set()
        assert not closing.done()
        with pytest.raises(FolderInUse):
            Remembering(FileDevice(tmp_path))
        device.released.set()
        await closing
        if held == "semel-job":
            await checkpoint
        again = Remembering(FileDevice(tmp_path))
        again.start()
        await again.journal.close()

    asyncio.run(main())


def test_a_close_makes_everything_durable() -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        lane = Remembering(device)
        lane.start()
        for number in range(100):
            lane.append(b"%d" % number)
        await lane.journal.close()
        device.power_loss()
        assert Remembering(device).payloads == [b"%d" % number for number in range(100)]

    run(main())


def test_one_seed_gives_one_history() -> None:
    def history(seed: int) -> list[tuple[float, int]]:
        seen: list[tuple[float, int]] = []

        async def main() -> None:
            lane = started(seed=seed)
            loop = asyncio.get_running_loop()

            def note(position: int) -> None:
                seen.append((loop.time(), position))

            for number in range(200):
                position = lane.append(b"x" * (number % 50))
                lane.journal.when_durable(position, partial(note, position))
                await seeded_loop.elapse(0.0003)
            await lane.journal.close()

        run(main(), seed)
        return seen

    assert history(5) == history(5)
    assert history(5) != history(6)
