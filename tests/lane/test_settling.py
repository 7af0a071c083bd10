"""What lives on is found where it was put, whatever was settled, deleted, crashed in between."""

import asyncio
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from semel.broker.leading import volumes_on
from semel.errors import CorruptJournal
from semel.groups.settings import GroupSettings
from semel.journal import names
from semel.journal.file.device import Device, Done
from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.journal.names import TEMPORARY
from semel.lane.commands import LaneSettings, SettlingSettings
from semel.lane.contents import CONTENTS
from semel.lane.lane import Lane
from semel.lane.partition_log import Stored, Wanted
from semel.lane.producing import Incoming, Produce
from semel.lane.settling import Volumes
from semel.lane.topics import CreateTopic, DeleteRecords, DeleteTopic
from semel.records import batch as record_batch
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import Offset, Position, TopicPartition
from semel.volumes import making
from semel.volumes.making import NICENESS, MakesHere, Order, work
from semel.volumes.plans import Made, SettlingPlan
from semel.volumes.store import DeviceVolumes
from support.handled import LoopClock, SeededRandomness
from support.seeded_loop import run

SEGMENT_BYTES = 64 * 1024
SETTINGS = LaneSettings(
    GroupSettings(),
    settling=SettlingSettings(journal_bytes_min=2 * SEGMENT_BYTES, volume_bytes=6 * SEGMENT_BYTES),
)
TOPICS = ("a", "b", "c", "d")


def fail(error: BaseException) -> None:
    raise error


async def always(end: Position) -> bool:
    return True


async def start(device: Device, rng: Random, volumes: Volumes | None = None) -> Lane:
    journal = FileJournal.open(device, JournalSettings(segment_bytes=SEGMENT_BYTES), CONTENTS)
    lane = Lane(
        journal,
        SETTINGS,
        LoopClock(),
        SeededRandomness(rng),
        volumes=volumes or volumes_on(device),
    )
    await lane.start(fail)
    return lane


class World:
    """A lane, and what it has to have."""

    def __init__(self, device: Device, seed: int) -> None:
        self.device = device
        self.rng = Random(seed)
        self.lane: Lane
        self.values: dict[str, dict[int, bytes]] = {}
        """By topic and offset, from the start of its log on."""
        self.starts: dict[str, int] = {}

    def produce(self, topic: str) -> None:
        partition = self.lane.view.partition(topic, 0)
        values = [
            self.rng.randbytes(self.rng.randrange(600)) for _ in range(self.rng.randint(1, 4))
        ]
        batch = memoryview(encode_batch([Record(b"k", value) for value in values]))
        header = record_batch.read(batch)
        produced = self.lane.submit(
            Produce([Incoming(partition, header, record_batch.fingerprint(header, batch), batch)])
        )
        (offset,) = produced.results
        assert isinstance(offset, int)
        self.values[topic].update(enumerate(values, offset))

    def create(self, topic: str) -> None:
        self.lane.submit(CreateTopic(topic, 1, {}))
        self.values[topic] = {}
        self.starts[topic] = 0

    def delete_topic(self, topic: str) -> None:
        self.lane.submit(DeleteTopic(topic))
        del self.values[topic]

    def delete_records(self, topic: str) -> None:
        end = self.lane.view.partition(topic, 0).high_watermark
        start = self.rng.randint(self.starts[topic], end) if end > self.starts[topic] else end
        self.lane.submit(DeleteRecords(TopicPartition(topic, 0), start))
        self.starts[topic] = start

    async def check(self) -> None:
        await self.lane.until_durable()
        for topic, values in self.values.items():
            partition = self.lane.view.partition(topic, 0)
            start = self.starts[topic]
            assert partition.log_start_offset == start
            found = {}
            offset = start
            while offset < partition.high_watermark:
                wanted = Wanted(partition, Offset(offset), partition.high_watermark, 8_000)
                log = self.lane.log
                (stored,) = await log.read(await log.find([wanted], 8_000), with_aborted=False)
                assert isinstance(stored, Stored), stored
                assert stored.batches
                for batch in stored.batches:
                    header = record_batch.read(batch)
                    for record in decode_batch(batch):
                        found[record.offset] = record.value
                    offset = header.last_offset + 1
            expected = {at: value for at, value in values.items() if at >= start}
            assert {at: value for at, value in found.items() if at >= start} == expected
            size = await self.lane.log.bytes_of(partition)
            assert (size == 0) == (not expected)

    async def some_changes(self, count: int) -> None:
        for number in range(count):
            if number % 100 == 99:
                # Checkpoints are taken meanwhile.
                await asyncio.sleep(0.2)
            topic = self.rng.choice(TOPICS)
            if topic not in self.values:
                self.create(topic)
            elif self.rng.random() < 0.01 and topic != "a":
                self.delete_topic(topic)
            elif self.rng.random() < 0.02 and topic != "a":
                self.delete_records(topic)
            else:
                self.produce(topic)

    async def settle(self) -> None:
        warnings: list[str] = []
        await self.lane.settling.round(warnings.append)
        assert warnings == []


def bytes_in(device: Device) -> int:
    return sum(device.size(name) for name in device.names())


@pytest.mark.parametrize("seed", range(8))
def test_all_that_is_not_deleted_is_read_after_settling_kills_and_power_losses(seed: int) -> None:
    async def live() -> None:
        device = MemoryDevice(Random(seed))
        world = World(device, seed)
        world.lane = await start(device, world.rng)
        for round_number in range(12):
            await world.some_changes(300)
            await world.lane.until_durable()
            await world.settle()
            await world.check()
            if round_number % 3 == 2:
                await world.lane.until_durable()
                world.rng.choice((device.kill, device.power_loss))()
                world.lane = await start(device, world.rng)
                await world.check()
        assert world.lane._state.volumes
        for topic in list(world.values):
            world.delete_topic(topic)
        for _ in range(2):
            await world.settle()
        assert world.lane._state.volumes == []
        assert bytes_in(device) < 6 * SEGMENT_BYTES
        await world.lane.close()

    run(Random(seed), live())


@pytest.mark.parametrize("is_power_loss", [False, True])
def test_a_crash_at_any_moment_while_it_settles_loses_nothing(is_power_loss: bool) -> None:
    async def live(number: int) -> bool:
        device = MemoryDevice(Random(number))
        world = World(device, number)
        world.lane = await start(device, world.rng)
        await world.some_changes(900)
        await world.lane.until_durable()
        settling = asyncio.ensure_future(world.settle())
        await asyncio.sleep(number * 0.0004)
        is_over = settling.done()
        settling.cancel()
        if is_power_loss:
            device.power_loss()
        else:
            device.kill()
        world.lane = await start(device, world.rng)
        await world.check()
        await world.settle()
        await world.check()
        await world.lane.close()
        return is_over

    over = [run(Random(number), live(number)) for number in range(0, 80, 2)]
    assert any(over)
    assert over.count(False) > 8


def test_a_full_disk_gets_its_room_back_from_fewer_segments_at_a_time() -> None:
    """Of what could not be made nothing stays, and nothing else has changed."""

    async def live() -> None:
        device = MemoryDevice(Random(5))
        world = World(device, 5)
        world.lane = await start(device, world.rng)
        for topic in TOPICS:
            world.create(topic)
        for _ in range(400):
            for topic in TOPICS:
                world.produce(topic)
            await asyncio.sleep(0.01)
        await world.lane.until_durable()
        before = bytes_in(device)
        device.capacity_bytes = before + 3 * SEGMENT_BYTES // 2
        failures: list[str] = []
        await world.lane.settling.round(failures.append)
        assert len(failures) == 1
        assert "No space left" in failures[0]
        assert world.lane._state.volumes == []
        assert bytes_in(device) <= before
        assert not [name for name in device.names() if name.endswith(names.TEMPORARY)]
        await world.check()
        world.delete_topic("b")
        for _ in range(10):
            await world.lane.settling.round(failures.append)
            await world.check()
            # Files are removed beside the rounds.
            await asyncio.sleep(1)
        assert len(failures) > 1
        assert bytes_in(device) < before - SEGMENT_BYTES
        await world.settle()
        assert not [name for name in device.names() if name.endswith(names.TEMPORARY)]
        await world.lane.close()

    run(Random(5), live())


@pytest.mark.parametrize("is_half_dead", [False, True])
def test_what_will_go_as_a_whole_is_left_unless_much_beside_it_is_dead(is_half_dead: bool) -> None:
    async def live() -> None:
        device = MemoryDevice(Random(6))
        world = World(device, 6)
        world.lane = await start(device, world.rng)
        for topic in ("a", "b"):
            world.create(topic)
        for _ in range(400):
            for topic in ("a", "b"):
                world.produce(topic)
            await asyncio.sleep(0.01)
        await world.lane.until_durable()
        before = bytes_in(device)
        world.lane.settling.will_die = always
        if is_half_dead:
            world.delete_topic("b")
        await world.settle()
        await world.check()
        assert (bytes_in(device) < before - 2 * SEGMENT_BYTES) == is_half_dead
        assert bool(world.lane._state.volumes) == is_half_dead
        await world.lane.close()

    run(Random(6), live())


def test_a_lane_that_steps_down_while_it_settles_adds_nothing_to_the_folder() -> None:
    async def live(number: int) -> bool:
        device = MemoryDevice(Random(number))
        world = World(device, number)
        world.lane = await start(device, world.rng)
        await world.some_changes(900)
        settling = asyncio.ensure_future(world.lane.while_leading(world.settle()))
        await asyncio.sleep(number * 0.0004)
        is_over = settling.done()
        await world.lane.step_down()
        left = sorted(device.names())
        async with asyncio.timeout(60):
            await settling
        added = {*device.names()} - {*left}
        # Who makes a volume does not hear of it at once; only what is there to stay matters.
        assert not [name for name in added if not name.endswith(".tmp")]
        world.lane = await start(device, world.rng)
        await world.lane.until_durable()
        await world.settle()
        await world.lane.close()
        return is_over

    over = [run(Random(number), live(number)) for number in range(0, 100, 3)]
    assert any(over)
    assert over.count(False) > 8


class HeldSyncs(MemoryDevice):
    """While they are held, what is synced is not known to be."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.held: list[Callable[[], None]] | None = None

    def submit_sync(self, names: Sequence[str], folder: bool, on_done: Done) -> None:
        if self.held is None:
            super().submit_sync(names, folder, on_done)
        else:
            self.held.append(partial(super().submit_sync, names, folder, on_done))


def test_segments_stay_until_it_is_durable_that_nobody_needs_them() -> None:
    async def live() -> None:
        device = HeldSyncs(Random(4))
        world = World(device, 4)
        world.lane = await start(device, world.rng)
        world.create("a")
        for _ in range(4):
            for _ in range(150):
                world.produce("a")
            await asyncio.sleep(0.2)
        await world.lane.until_durable()
        segments = [name for name in device.names() if name.endswith(names.SEGMENT)]
        assert len(segments) > 4
        device.held = []
        end = world.lane.view.partition("a", 0).high_watermark
        world.lane.submit(DeleteRecords(TopicPartition("a", 0), end))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(world.settle())
            await asyncio.sleep(60)
            left = {*device.names()}
            held, device.held = device.held, None
            for sync in held:
                sync()
        assert {*segments} <= left
        assert not {*segments[:4]} & {*device.names()}
        await world.lane.close()

    run(Random(4), live())


class Overtaken(MakesHere):
    """While it makes a volume, as much comes in as it has settled."""

    def __init__(self, device: Device, world: World) -> None:
        super().__init__(device)
        self._world = world
        self.attempts = 0

    async def make(self, plan: SettlingPlan) -> Made:
        self.attempts += 1
        if self.attempts < 20:
            for _ in range(4):
                for _ in range(150):
                    self._world.produce("a")
                await asyncio.sleep(0.2)
        return await super().make(plan)


def test_a_round_ends_however_much_comes_in_and_volumes_are_renewed_in_it() -> None:
    async def live() -> None:
        device = MemoryDevice(Random(4))
        world = World(device, 4)
        maker = Overtaken(device, world)
        world.lane = await start(device, world.rng, Volumes(DeviceVolumes(device), maker))
        world.create("a")
        for _ in range(8):
            for _ in range(150):
                world.produce("a")
            await asyncio.sleep(0.2)
        await world.settle()
        assert 0 < maker.attempts < 10
        count = world.lane.settling.volume_count
        assert count > 0
        end = world.lane.view.partition("a", 0).high_watermark
        world.lane.submit(DeleteRecords(TopicPartition("a", 0), end))
        world.starts["a"] = end
        await world.settle()
        assert maker.attempts < 10
        assert world.lane.settling.volume_count < count
        await world.check()
        await world.lane.close()

    run(Random(4), live())


class RunsOutOfRoom(MakesHere):
    """When nearly all is written."""

    attempts = 0

    async def make(self, plan: SettlingPlan) -> Made:
        self.attempts += 1
        await super().make(plan)
        raise OSError("no space left on device")


def test_a_volume_that_could_not_be_made_takes_no_room() -> None:
    async def live() -> None:
        device = MemoryDevice(Random(1))
        world = World(device, 1)
        maker = RunsOutOfRoom(device)
        volumes = Volumes(DeviceVolumes(device), maker)
        world.lane = await start(device, world.rng, volumes)
        await world.some_changes(900)
        warnings: list[str] = []
        for _ in range(3):
            await world.lane.settling.round(warnings.append)
        assert (maker.attempts, len(warnings)) == (3, 1)
        assert [name for name in device.names() if "volume" in name] == []
        await world.check()
        await world.lane.close()

    run(Random(1), live())


def test_a_process_of_its_own_makes_the_volumes_of_a_folder(tmp_path: Path) -> None:
    async def live() -> None:
        world = World(FileDevice(tmp_path), 1)
        world.lane = await start(world.device, world.rng)
        await world.some_changes(1500)
        await world.lane.until_durable()
        await world.settle()
        assert world.lane._state.volumes
        assert any(name.endswith(".volume") for name in world.device.names())
        await world.check()
        await world.lane.close()

        world.device = FileDevice(tmp_path)
        world.lane = await start(world.device, world.rng)
        await world.check()
        await world.lane.close()

    asyncio.run(live())


def test_a_volume_that_could_not_be_made_leaves_nothing_behind() -> None:
    """Half a volume on a full disk would keep it full, and each attempt would add another."""

    async def live() -> None:
        device = MemoryDevice(Random(0))
        world = World(device, 0)
        world.lane = await start(device, world.rng)
        await world.some_changes(900)
        await world.lane.until_durable()
        warnings: list[str] = []
        device.capacity_bytes = bytes_in(device) + SEGMENT_BYTES
        await world.lane.settling.round(warnings.append)
        assert warnings
        assert [name for name in device.names() if name.endswith(TEMPORARY)] == []
        await world.check()
        await world.lane.close()

    run(Random(0), live())


class SlowMaker(MakesHere):
    """While it makes a volume, more comes than goes into it."""

    def __init__(self, world: World, times: int) -> None:
        super().__init__(world.device)
        self._world = world
        self._times_left = times
        self.nicenesses: list[int] = []

    async def make(self, plan: SettlingPlan) -> Made:
        self.nicenesses.append(self.niceness)
        if self._times_left:
            self._times_left -= 1
            await self._world.some_changes(1_000)
        return await super().make(plan)


def test_who_makes_volumes_is_hurried_while_more_comes_than_it_takes_away() -> None:
    async def live() -> None:
        world = World(MemoryDevice(Random(1)), 1)
        world.lane = await start(world.device, world.rng)
        maker = SlowMaker(world, 3)
        world.lane.settling._maker = maker
        await world.some_changes(1_000)
        await world.settle()
        assert maker.nicenesses[0] == NICENESS
        assert 0 in maker.nicenesses
        assert maker.nicenesses == sorted(maker.nicenesses, reverse=True)
        for _ in range(2):
            await world.settle()
        assert maker.niceness == NICENESS
        await world.check()
        await world.lane.close()

    run(Random(1), live())


@pytest.mark.parametrize("niceness", [0, NICENESS])
def test_a_process_that_makes_volumes_is_as_nice_as_it_is_told(
    niceness: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SettlingPlan((), b"", b"", 1, ".tmp")
    told = msgspec.msgpack.encode(Order(str(tmp_path), 1, plan, niceness=niceness))
    given = io.TextIOWrapper(io.BytesIO(len(told).to_bytes(8, "big") + told))
    said = io.TextIOWrapper(io.BytesIO())
    nicenesses: list[int] = []
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(sys, "stdout", said)
    monkeypatch.setattr(os, "nice", nicenesses.append)
    monkeypatch.setattr(making, "write", lambda device, plan: refuse())
    work()
    assert nicenesses == [niceness]


def refuse() -> None:
    raise CorruptJournal("in a test")
