"""What every journal promises, held against each driver."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

import pytest

from semel.errors import JournalFailed
from semel.journal.file.device import Done, Job
from semel.journal.file.disk import FileDevice, ThreadJob
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.in_memory import MemoryJournal, Shelf
from semel.journal.pages import NotLoaded
from semel.journal.seam import Journal, JournalAbandoned
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.store.seam import Store
from semel.store.with_journal import WithJournal
from semel.types import Position
from support import seeded_loop
from support.compiled import plain_python
from support.journal_world import SETTINGS, RememberingOn
from support.slot_store import SeededRandomness, SlotStore, alone

T = TypeVar("T")
Lane = RememberingOn[Journal]
SLOT_SEEDS = 6


class Driver(Protocol):
    """Opens the same journal again and again, and ends its process in between."""

    keeps_written: bool
    """A kill takes nothing that was written, and only a power loss leaves doubt."""

    def open(self) -> Journal: ...

    def kill(self) -> None: ...

    def lose_power(self) -> None: ...

    async def let_land(self) -> None:
        """Return when what was under way has come back."""

    def run(self, main: Coroutine[Any, Any, T]) -> T: ...


class JoinedDevice(FileDevice):
    """The jobs of a process end with it; here, they are waited for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._jobs: list[ThreadJob] = []

    def submit(self, job: Job, on_done: Done) -> ThreadJob:
        self._jobs.append(super().submit(job, on_done))
        return self._jobs[-1]

    def stop(self) -> None:
        for job in self._jobs:
            job._runner.join()
        super().stop()


class OnFiles:
    keeps_written = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "journal"
        self._device: FileDevice | None = None

    def open(self) -> Journal:
        self._device = JoinedDevice(self._folder)
        return FileJournal.open(self._device, SETTINGS)

    def kill(self) -> None:
        """Its threads end, its descriptors are closed, and the kernel has what was written."""
        if self._device is not None:
            self._device.stop()

    def lose_power(self) -> None:
        """Another folder, with all that was written: what was not synced may be there, too."""
        self.kill()
        copy = self._folder.with_name("copy")
        shutil.copytree(self._folder, copy)
        shutil.rmtree(self._folder)
        copy.rename(self._folder)

    async def let_land(self) -> None:
        # Syncs are done one by one.
        assert self._device is not None
        landed = asyncio.Event()
        self._device.submit_sync([], folder=False, on_done=lambda error: landed.set())
        await landed.wait()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(main)


class OnSimulatedDisk:
    keeps_written = True

    def __init__(self, seed: int, folder: Path) -> None:
        self._rng = Random(seed)
        self._device = MemoryDevice(self._rng)

    def open(self) -> Journal:
        return FileJournal.open(self._device, SETTINGS)

    def kill(self) -> None:
        self._device.kill()

    def lose_power(self) -> None:
        self._device.power_loss()

    async def let_land(self) -> None:
        await seeded_loop.elapse(1)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return seeded_loop.run(self._rng, main)


class InMemory:
    keeps_written = True

    def __init__(self, folder: Path) -> None:
        self._shelf = Shelf()

    def open(self) -> Journal:
        return MemoryJournal(self._shelf)

    def kill(self) -> None:
        self._shelf.kill()

    def lose_power(self) -> None:
        self._shelf.lose_power()

    async def let_land(self) -> None:
        await seeded_loop.elapse(1)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return seeded_loop.run(Random(1), main)


class OnSlots:
    """The next process takes the lane by a fence, whatever has become of the one before."""

    keeps_written = False

    def __init__(self, seed: int, folder: Path) -> None:
        self._rng = Random(seed)
        slots = SlotStore()
        # The last have their slots in a store of their own.
        is_apart = seed == SLOT_SEEDS - 1
        self._store: Store = WithJournal(SlotStore(), slots) if is_apart else slots
        if seed:
            slots.delay_s = lambda: self._rng.random() / 10
        self._settings = SlotSettings(
            slot_bytes=4096, unconfirmed_bytes=2**20, stretch_bytes=8192, checkpoint_slots=20
        )
        self._journal: SlotJournal | None = None

    def open(self) -> Journal:
        opening = SlotJournal.open(self._store, 0, 1, SeededRandomness(self._rng), self._settings)
        # Others open a journal without a loop, or while one runs.
        with ThreadPoolExecutor(1) as thread:
            self._journal = thread.submit(self.run, opening).result()
        return self._journal

    def kill(self) -> None:
        if self._journal is not None and self._journal._loop is not None:
            for task in self._journal._tasks:
                if not self._journal._loop.is_closed():
                    task.cancel()

    def lose_power(self) -> None:
        self.kill()

    async def let_land(self) -> None:
        await seeded_loop.elapse(1)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return seeded_loop.run(self._rng, alone(main))


DRIVERS: dict[str, Callable[[Path], Driver]] = {
    "files": OnFiles,
    **{f"simulated disk {seed}": partial(OnSimulatedDisk, seed) for seed in range(8)},
    "memory": InMemory,
    **{f"slots {seed}": partial(OnSlots, seed) for seed in range(SLOT_SEEDS)},
}


# On files a class of the tests joins the device's threads.
@pytest.fixture(
    params=[pytest.param(name, marks=plain_python if name == "files" else ()) for name in DRIVERS]
)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    make: Callable[[Path], Driver] = DRIVERS[request.param]
    return make(tmp_path)


def opened(driver: Driver) -> Lane:
    return RememberingOn(driver.open())


def started(driver: Driver) -> Lane:
    lane = opened(driver)
    lane.start()
    return lane


def payload(number: int) -> bytes:
    return b"%d:" % number + b"x" * (number * 37 % 300)


def append(lane: Lane, count: int) -> list[bytes]:
    first = len(lane.payloads)
    for number in range(first, first + count):
        lane.append(payload(number))
    return lane.payloads


# Order.


def test_a_new_journal_is_empty_and_misses_nothing(driver: Driver) -> None:
    journal = driver.open()
    assert (journal.end, journal.written, journal.durable) == (0, 0, 0)
    assert journal.checkpoint is None
    assert list(journal.replay()) == []
    assert not journal.may_miss_acknowledged
    driver.kill()


def test_what_is_appended_comes_back_in_its_order(driver: Driver) -> None:
    async def main() -> list[bytes]:
        lane = started(driver)
        payloads = append(lane, 200)
        await lane.journal.close()
        return payloads

    payloads = driver.run(main())
    assert opened(driver).payloads == payloads
    driver.kill()


def test_positions_rise_and_a_frame_that_the_driver_names_as_its_largest_fits(
    driver: Driver,
) -> None:
    async def main() -> None:
        lane = started(driver)
        size = lane.journal.limits.payload_bytes_max
        ends = [lane.append(b"x" * length) for length in (1, 0, size, 1)]
        assert ends == sorted(ends)
        assert lane.journal.end == ends[-1]
        assert lane.journal.room(0) > 0
        await lane.journal.close()

    driver.run(main())
    driver.kill()


# Written and durable.


def test_callbacks_come_in_the_order_of_positions_and_never_early(driver: Driver) -> None:
    async def main() -> None:
        lane = started(driver)
        journal = lane.journal
        told: list[tuple[str, int]] = []

        def tell(kind: str, position: int) -> None:
            reached = journal.written if kind == "written" else journal.durable
            assert reached >= position
            if kind == "durable":
                assert lane.durable_calls[-1] >= position, "the durable state comes first"
            told.append((kind, position))

        ends = [lane.append(payload(number)) for number in range(100)]
        asked = list(ends)
        Random(3).shuffle(asked)
        for end in asked:
            journal.when_durable(end, partial(tell, "durable", end))
            journal.when_written(end, partial(tell, "written", end))
        assert told == [] or not driver.keeps_written, (
            "nothing is so before the append has returned"
        )
        assert ("durable", ends[0]) not in told
        assert await lane.durable(ends[-1])
        for kind in ("written", "durable"):
            heard = [position for what, position in told if what == kind]
            # What is so already is told in the order in which it is asked for.
            at_once = kind == "written" and not driver.keeps_written
            assert heard == (asked if at_once else ends)
        for end in ends:
            assert told.index(("written", end)) < told.index(("durable", end))
        await journal.close()

    driver.run(main())


def test_what_is_so_already_is_told_at_once(driver: Driver) -> None:
    async def main() -> None:
        lane = started(driver)
        end = lane.append(b"x")
        await lane.durable(end)
        told: list[str] = []
        lane.journal.when_written(end, lambda: told.append("written"))
        lane.journal.when_durable(end, lambda: told.append("durable"))
        assert told == ["written", "durable"]
        passed = asyncio.Event()
        lane.journal.barrier(passed.set)
        assert passed.is_set() == driver.keeps_written, "others have to be asked"
        await passed.wait()
        await lane.journal.close()

    driver.run(main())


def test_a_barrier_waits_for_all_that_was_appended_before_it(driver: Driver) -> None:
    async def main() -> None:
        lane = started(driver)
        append(lane, 10)
        end = lane.journal.end
        passed = asyncio.Event()
        lane.journal.barrier(passed.set)
        assert not passed.is_set()
        await passed.wait()
        assert lane.journal.durable >= end
        await lane.journal.close()

    driver.run(main())


# Crashes.


def test_a_killed_process_loses_nothing_that_was_written_and_leaves_no_doubt(
    driver: Driver,
) -> None:
    async def main() -> list[bytes]:
        lane = started(driver)
        payloads = append(lane, 150)
        await lane.written(lane.journal.end)
        return list(payloads)

    payloads = driver.run(main())
    driver.kill()
    lane = opened(driver)
    if driver.keeps_written:
        assert lane.payloads == payloads
        assert not lane.journal.may_miss_acknowledged
    else:
        assert lane.payloads == payloads[: len(lane.payloads)]
        assert lane.journal.may_miss_acknowledged
    driver.kill()


def test_a_power_loss_leaves_a_prefix_with_all_that_was_durable_and_doubt(driver: Driver) -> None:
    async def main() -> tuple[list[bytes], int]:
        lane = started(driver)
        for _ in range(8):
            append(lane, 20)
            await lane.durable(lane.journal.end)
        count = len(lane.payloads)
        append(lane, 30)
        return list(lane.payloads), count

    payloads, durable_count = driver.run(main())
    driver.lose_power()
    lane = opened(driver)
    assert lane.payloads == payloads[: len(lane.payloads)]
    assert len(lane.payloads) >= durable_count
    assert lane.journal.may_miss_acknowledged
    driver.kill()


def test_what_an_open_has_found_is_durable(driver: Driver) -> None:
    async def main() -> None:
        lane = started(driver)
        append(lane, 20)
        await lane.written(lane.journal.end)

    driver.run(main())
    driver.kill()
    found = opened(driver)
    assert found.journal.durable == found.journal.end
    driver.lose_power()
    assert opened(driver).payloads == found.payloads
    driver.kill()


def test_doubt_stays_until_a_frame_behind_it_is_durable(driver: Driver) -> None:
    async def live(count: int) -> None:
        lane = started(driver)
        assert lane.journal.may_miss_acknowledged
        append(lane, count)
        await lane.durable(lane.journal.end)

    async def first() -> None:
        lane = started(driver)
        if driver.keeps_written:
            await lane.journal.close()

    driver.run(first())
    driver.lose_power()
    for count in (0, 0, 1):
        driver.run(live(count))
        driver.kill()
    if driver.keeps_written:
        assert not opened(driver).journal.may_miss_acknowledged
        driver.kill()


def test_a_clean_close_leaves_no_doubt(driver: Driver) -> None:
    async def live() -> None:
        lane = started(driver)
        assert not lane.journal.may_miss_acknowledged
        append(lane, 3)
        await lane.journal.close()

    for _ in range(3):
        driver.run(live())


# Failures, and stepping down.


def test_after_a_failure_nothing_is_taken_or_answered_and_the_next_open_is_in_doubt(
    driver: Driver,
) -> None:
    async def main() -> int:
        lane = started(driver)
        append(lane, 5)
        await lane.durable(lane.journal.end)
        count = len(lane.payloads)
        end = lane.append(b"never")
        told: list[str] = []
        lane.journal.when_durable(end, lambda: told.append("durable"))
        lane.journal.fail(ValueError("torn"), "a step")
        assert [type(failure) for failure in lane.failures] == [JournalFailed]
        await _refuses(driver, lane, JournalFailed)
        assert told == []
        return count

    count = driver.run(main())
    lane = opened(driver)
    assert lane.journal.may_miss_acknowledged
    assert len(lane.payloads) in (count, count + 1)
    driver.kill()


def test_who_steps_down_calls_nobody_back_and_leaves_no_doubt(driver: Driver) -> None:
    async def main() -> list[bytes]:
        lane = started(driver)
        append(lane, 40)
        await lane.durable(lane.journal.end)
        durable = list(lane.payloads)
        lane.append(b"perhaps")
        told: list[str] = []
        lane.journal.when_written(lane.journal.end, lambda: told.append("written"))
        lane.journal.when_durable(lane.journal.end, lambda: told.append("durable"))
        lane.journal.barrier(lambda: told.append("barrier"))
        calls = list(lane.durable_calls)
        lane.journal.abandon()
        lane.journal.abandon()
        assert [type(failure) for failure in lane.failures] == [JournalAbandoned]
        await _refuses(driver, lane, JournalAbandoned)
        assert told == ([] if driver.keeps_written else ["written"])
        assert lane.durable_calls == calls
        return durable

    durable = driver.run(main())

    async def again() -> None:
        lane = started(driver)
        assert lane.journal.may_miss_acknowledged != driver.keeps_written
        assert lane.payloads in (durable, [*durable, b"perhaps"])
        assert await lane.durable(lane.append(b"next"))
        await lane.journal.close()

    driver.run(again())


@pytest.mark.parametrize("ticks", range(5))
def test_who_has_stepped_down_hears_of_nothing_that_was_under_way(
    driver: Driver, ticks: int
) -> None:
    async def main() -> tuple[list[bytes], list[str]]:
        lane = started(driver)
        told: list[str] = []
        for number in range(3):
            end = lane.append(payload(number))
            lane.journal.when_written(end, lambda: told.append("written"))
            lane.journal.when_durable(end, lambda: told.append("durable"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        before = list(told)
        lane.journal.abandon()
        await _refuses(driver, lane, JournalAbandoned)
        assert told == before
        return lane.payloads, told

    payloads, told = driver.run(main())
    lane = opened(driver)
    assert lane.payloads == payloads[: len(lane.payloads)]
    kept = "written" if driver.keeps_written else "durable"
    assert len(lane.payloads) >= told.count(kept), "it may have been acknowledged"
    assert lane.journal.may_miss_acknowledged != driver.keeps_written
    driver.kill()


async def _refuses(driver: Driver, lane: Lane, kind: type[JournalFailed]) -> None:
    await driver.let_land()
    with pytest.raises(kind):
        lane.journal.reserve(1, 0)
    with pytest.raises(kind):
        lane.journal.append([b"x"], 1)
    assert isinstance(lane.journal.failure, kind)
    await lane.journal.checkpoint_now()
    await lane.journal.close()


# Reading.


def test_batches_are_read_as_they_were_appended(driver: Driver) -> None:
    async def main() -> None:
        for life in range(3):
            lane = started(driver)
            append(lane, 120)
            await lane.written(lane.journal.end)
            await _check_reads(lane)
            if life == 1:
                await lane.journal.close()
            else:
                driver.kill()

    driver.run(main())


async def _check_reads(lane: Lane, first: int = 0) -> None:
    journal = lane.journal
    extents = await _extents(journal, first, len(lane.payloads))
    found = await journal.read_all(extents)
    assert [bytes(batch) for batch in found] == lane.payloads[first:]
    now = journal.read_now(extents)
    if now is not None:
        assert [bytes(batch) for batch in now] == lane.payloads[first:]


async def _extents(journal: Journal, first: int, stop: int) -> list[tuple[int, int]]:
    while True:
        try:
            return journal.index.extents(0, first, stop, 2**30)
        except NotLoaded as missing:
            missing.keep(await journal.read_index(missing.name, missing.offset, missing.size))


# Checkpoints.


def test_behind_a_checkpoint_only_what_follows_is_replayed(driver: Driver) -> None:
    async def main() -> int:
        lane = started(driver)
        lane.payloads_per_piece = 7
        append(lane, 100)
        await lane.journal.checkpoint_now()
        count = len(lane.payloads)
        append(lane, 9)
        await lane.durable(lane.journal.end)
        return count

    count = driver.run(main())
    driver.lose_power()

    async def again() -> None:
        lane = started(driver)
        assert lane.checkpoint_count >= count
        assert lane.payloads == [payload(number) for number in range(count + 9)]
        assert lane.journal.checkpoint is None, "it is not held for ever"
        await _check_reads(lane)
        await lane.journal.close()

    driver.run(again())


def test_a_checkpoint_holds_the_state_at_its_position(driver: Driver) -> None:
    async def main() -> list[bytes]:
        lane = started(driver)
        lane.payloads_per_piece = 1
        append(lane, 60)
        taking = asyncio.ensure_future(lane.journal.checkpoint_now())
        for _ in range(30):
            append(lane, 1)
            await lane.written(lane.journal.end)
        await taking
        return list(lane.payloads)

    payloads = driver.run(main())
    driver.kill()
    lane = opened(driver)
    assert lane.payloads == payloads[: len(lane.payloads)]
    assert lane.checkpoint_count >= 60
    assert not driver.keeps_written or lane.payloads == payloads
    driver.kill()


def test_a_clean_close_leaves_nothing_to_replay(driver: Driver) -> None:
    async def main() -> None:
        lane = started(driver)
        append(lane, 80)
        await lane.journal.close()

    driver.run(main())
    lane = opened(driver)
    assert lane.checkpoint_count == len(lane.payloads) == 80
    driver.kill()


# What may be forgotten.


def test_what_is_released_is_forgotten_and_nothing_else(driver: Driver) -> None:
    async def main() -> None:
        lane = started(driver)
        for _ in range(3):
            append(lane, 100)
            await lane.journal.checkpoint_now()
        lane.journal.release_before(lane.journal.end)
        lane.journal.release_before(lane.journal.end)
        append(lane, 3)
        ((position, size),) = await _extents(lane.journal, 300, 301)
        assert await lane.durable(lane.journal.end)
        assert bytes(await lane.journal.read(Position(position), size)) == lane.payloads[300]
        await lane.journal.close()

    driver.run(main())

    async def again() -> None:
        lane = started(driver)
        assert lane.payloads == [payload(number) for number in range(303)]
        append(lane, 5)
        await lane.durable(lane.journal.end)
        await _check_reads(lane, 300)
        await lane.journal.close()

    driver.run(again())
    driver.lose_power()
    assert len(opened(driver).payloads) == 308
    driver.kill()
