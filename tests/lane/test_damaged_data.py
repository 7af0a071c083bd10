"""Damage in old data: it is told of, it stays what it is, and all else is settled and compacted."""

import asyncio
import errno
from bisect import bisect_right
from pathlib import Path
from random import Random

import pytest

from lane import test_compacting, test_settling
from lane.test_settling import SEGMENT_BYTES, TOPICS
from semel.errors import CorruptJournal
from semel.journal import names, sealed
from semel.journal.file.check import Folder, check
from semel.journal.file.memory import MemoryDevice
from semel.journal.names import VOLUMES_FROM
from semel.lane.check import LaneExaminer
from semel.lane.lane import Lane
from semel.lane.topics import CreateTopic, DeleteRecords
from semel.records import batch as record_batch
from semel.types import TopicPartition
from semel.volumes.making import MakesApart, VolumeMaker
from semel.volumes.plans import CompactionPlan, Made, MeasuringPlan, SettlingPlan, SourceSize
from support.seeded_loop import run

PLACES = {"base offset": 7, "length": 11, "magic": 16, "checksum": 17, "records": 70}
"""Of a byte in a batch. Kafka's checksum covers the last alone."""


def place(lane: Lane, device: MemoryDevice, topic: str, offset: int) -> tuple[str, int, int, int]:
    """Of the batch at or behind an offset: its file, where in it, its size and base offset."""
    found = lane._journal.index.find(lane.view.partition(topic, 0).number, offset)
    assert found is not None
    base = found.position
    if base < VOLUMES_FROM:
        bases = names.positions(device.names(), names.SEGMENT)
        base = bases[bisect_right(bases, found.position) - 1]
    else:
        base = names.volume_base(names.volume_at(base))
    return names.data_at(base), found.position - base, found.size, found.base_offset


def flip(lane: Lane, device: MemoryDevice, topic: str, offset: int, byte: int) -> int:
    """A bit of the batch at or behind this offset. Gives where the batch begins."""
    name, start, _, base_offset = place(lane, device, topic, offset)
    device.flip_bit(name, start + byte)
    return base_offset


def stored_at(lane: Lane, device: MemoryDevice, topic: str, offset: int) -> bytes:
    """On the disk: what was written last is held in memory as well."""
    return device.read(*place(lane, device, topic, offset)[:3])


class Reports:
    def __init__(self, lane: Lane) -> None:
        self.damage: list[tuple[TopicPartition, str]] = []
        self.warnings: list[str] = []
        self._lane = lane
        lane.settling.on_damage = lambda partition, error: self.damage.append(
            (partition, str(error))
        )

    async def settle(self) -> None:
        await self._lane.settling.round(self.warnings.append)


async def filled(device: MemoryDevice, seed: int) -> test_settling.World:
    world = test_settling.World(device, seed)
    world.lane = await test_settling.start(device, world.rng)
    await world.some_changes(1_000)
    await world.lane.until_durable()
    return world


@pytest.mark.parametrize("byte", PLACES.values(), ids=PLACES)
def test_a_damaged_batch_is_settled_as_it_is_and_all_others_as_they_were(byte: int) -> None:
    async def live() -> None:
        device = MemoryDevice(Random(1))
        world = await filled(device, 1)
        lane = world.lane
        reports = Reports(lane)
        offset = flip(lane, device, "b", world.starts["b"], byte)
        damaged = stored_at(lane, device, "b", offset)
        oldest = names.positions(device.names(), names.SEGMENT)[0]
        for _ in range(3):
            await reports.settle()
        assert reports.warnings == []
        assert {partition for partition, _ in reports.damage} == {TopicPartition("b", 0)}
        assert all(f"the batch at offset {offset} is damaged" in why for _, why in reports.damage)
        assert names.segment(oldest) not in device.names()
        for each in (lane, await again(world)):
            assert stored_at(each, device, "b", offset) == damaged
        del world.values["b"]
        await world.check()
        await world.lane.close()
        found = list(check(Folder(device, LaneExaminer(), lambda done, total: None)))
        assert [each.file.endswith(names.VOLUME) for each in found] == [True]
        assert f"whoever reads the batch of b-0 at offset {offset} gets an error" in (
            found[0].meaning
        )

    async def again(world: test_settling.World) -> Lane:
        device = world.device
        assert isinstance(device, MemoryDevice)
        await world.lane.until_durable()
        device.kill()
        world.lane = await test_settling.start(device, world.rng)
        return world.lane

    run(Random(1), live())


class Unreadable(MemoryDevice):
    """As a disk with a bad sector."""

    bad: tuple[str, int] | None = None

    def read(self, name: str, offset: int, size: int) -> bytes:
        if self.bad is not None and self.bad[0] == name and 0 <= self.bad[1] - offset < size:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(name, offset, size)


@pytest.mark.parametrize("is_mended", [True, False], ids=["can be read again", "is deleted"])
def test_what_cannot_be_read_stays_where_it_is_and_is_told_of_once(is_mended: bool) -> None:
    async def live() -> None:
        device = Unreadable(Random(2))
        world = await filled(device, 2)
        lane = world.lane
        reports = Reports(lane)
        sealed = lane._journal.sealed()
        assert len(sealed) > 4
        bad = sealed[2]
        for number in range(100, SEGMENT_BYTES - 100):
            # In a batch that lives, and not in the head of a frame.
            device.bad = (names.segment(bad.base), number)
            hits = [batch for topic in TOPICS for batch in hit(lane, topic, bad.base + number)]
            if hits:
                break
        ((topic, offset, end),) = hits
        for _ in range(12):
            await reports.settle()
        assert lane._state.settled_end == bad.base
        assert names.segment(bad.base) in device.names()
        assert names.segment(sealed[0].base) not in device.names()
        assert len(reports.warnings) == 1
        assert "Input/output error" in reports.warnings[0]
        assert {partition for partition, _ in reports.damage} == {TopicPartition(topic, 0)}
        assert reports.damage[0][1].startswith(f"the batch at offset {offset}: ")
        if is_mended:
            device.bad = None
        else:
            lane.submit(DeleteRecords(TopicPartition(topic, 0), end))
            world.starts[topic] = end
        for _ in range(3):
            await reports.settle()
        assert lane._state.settled_end > bad.base
        assert names.segment(bad.base) not in device.names()
        assert len(reports.warnings) == 1
        await world.check()
        await lane.close()

    def hit(lane: Lane, topic: str, position: int) -> list[tuple[str, int, int]]:
        """The batch that has this position, if there is one: its topic, offset and end."""
        if not lane.view.hosts(topic):
            return []
        partition = lane.view.partition(topic, 0)
        start = partition.log_start_offset
        batches = lane._journal.index.batches(partition.number, start, 2**62, 10**6)
        offsets = [each.base_offset for each in batches] + [partition.log_end_offset]
        return [
            (topic, each.base_offset, end)
            for each, end in zip(batches, offsets[1:], strict=True)
            if each.position <= position < each.position + each.size
        ]

    run(Random(2), live())


class FullDisk:
    """Makes no volume while the disk is full."""

    has_far_sources = False
    bytes_per_s = 1
    niceness = 0
    is_full = True

    def __init__(self, maker: VolumeMaker) -> None:
        self._maker = maker

    async def make(self, plan: SettlingPlan) -> Made:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return await self._maker.make(plan)

    async def compact(self, plan: CompactionPlan) -> Made:
        return await self._maker.compact(plan)

    async def measure(self, plan: MeasuringPlan) -> list[SourceSize]:
        return await self._maker.measure(plan)


def test_a_disk_without_room_for_a_volume_is_told_of_once_until_there_was_some() -> None:
    async def live() -> None:
        device = MemoryDevice(Random(4))
        world = await filled(device, 4)
        reports = Reports(world.lane)
        disk = FullDisk(world.lane.settling._maker)
        world.lane.settling._maker = disk
        for _ in range(3):
            await reports.settle()
        assert len(reports.warnings) == 1
        assert "No space left on device" in reports.warnings[0]
        disk.is_full = False
        settled_end = world.lane._state.settled_end
        await reports.settle()
        assert world.lane._state.settled_end > settled_end
        disk.is_full = True
        await world.some_changes(1_000)
        for _ in range(3):
            await reports.settle()
        assert len(reports.warnings) == 2
        disk.is_full = False
        await world.lane.close()

    run(Random(4), live())


def test_a_process_that_refuses_an_order_is_not_reaped_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused() -> None:
        plan = SettlingPlan((0,), b"", b"", 1, ".tmp")
        with pytest.raises((CorruptJournal, OSError)):
            await MakesApart(str(tmp_path)).make(plan)

    async def live() -> None:
        for _ in range(3):
            await refused()

    asyncio.run(live())
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


async def compacting_world(device: MemoryDevice) -> test_compacting.World:
    world = test_compacting.World(device, 3)
    await world.start()
    for topic in ("c", "d", "plain"):
        world.lane.submit(CreateTopic(topic, 1, {}))
        world.written[topic] = []
    for _ in range(6):
        await world.change(150)
    return world


@pytest.mark.parametrize("is_compacted", [False, True], ids=["dirty", "compacted before"])
@pytest.mark.parametrize("byte", PLACES.values(), ids=PLACES)
def test_a_damaged_partition_is_not_compacted_and_the_others_are(
    byte: int, is_compacted: bool
) -> None:
    async def live() -> None:
        device = MemoryDevice(Random(3))
        world = await compacting_world(device)
        if is_compacted:
            await world.tidy()
            for _ in range(8):
                await world.change(150)
        lane, reports = world.lane, Reports(world.lane)
        numbers = {topic: lane.view.partition(topic, 0).number for topic in ("c", "d")}
        before = dict(lane._state.compacted)
        assert (numbers["d"] in before) == is_compacted
        start = lane.view.partition("d", 0).log_start_offset
        offset = flip(lane, device, "d", start, byte)
        damaged = stored_at(lane, device, "d", offset)
        whole = whole_behind(lane, device, offset)
        for _ in range(3):
            await world.tidy()
        after = lane._state.compacted
        assert after.get(numbers["d"]) == before.get(numbers["d"])
        assert after[numbers["c"]] != before.get(numbers["c"])
        assert {partition for partition, _ in reports.damage} == {TopicPartition("d", 0)}
        assert stored_at(lane, device, "d", offset) == damaged
        assert whole_behind(lane, device, offset) == whole
        del world.written["d"]
        await world.check()
        await lane.close()

    def whole_behind(lane: Lane, device: MemoryDevice, offset: int) -> list[bytes]:
        partition = lane.view.partition("d", 0)
        found = []
        for each in lane._journal.index.batches(partition.number, offset + 1, 2**62, 10**6):
            if each.base_offset > offset:
                stored = stored_at(lane, device, "d", each.base_offset)
                record_batch.verify_checksum(stored, record_batch.read(stored))
                found.append(stored)
        return found

    run(Random(3), live())


INDEX_PLACES = {"header": 0, "directory": sealed.HEADER_SIZE + 8, "rows": -1, "bad sector": None}
"""Of a byte in the index of a volume; None if the disk does not give it."""


@pytest.mark.parametrize("what", ["of others", "its own"])
@pytest.mark.parametrize("is_held", [False, True], ids=["met by the lane", "met by its worker"])
@pytest.mark.parametrize("byte", INDEX_PLACES.values(), ids=INDEX_PLACES)
def test_a_damaged_index_of_a_volume_holds_up_only_whose_data_lies_there(
    byte: int | None, is_held: bool, what: str
) -> None:
    async def live() -> None:
        device = Unreadable(Random(5))
        world = test_compacting.World(device, 5)
        await world.start()
        for topic in ("c", "d", "plain", "late"):
            world.lane.submit(CreateTopic(topic, 1, {}))
            world.written[topic] = []
        # A volume before it, one to be damaged, and one behind it.
        for topics in (["c", "plain"], ["d", "plain"] if what == "its own" else ["plain"], ["c"]):
            await fill(world, topics)
            await settle(world)
        await fill(world, ["c", "d", "late"])
        volumes = list(world.lane._state.volumes)
        assert len(volumes) == 3
        await world.lane.until_durable()
        if is_held:
            # The lane has all of it in memory.
            for topic in ("c", "d", "late"):
                await world.committed(topic)
        else:
            device.kill()
        damage(device, names.volume_index(volumes[1]), byte)
        if not is_held:
            await world.start()
        lane, reports = world.lane, Reports(world.lane)
        for topic in ("c", "late") + (("d",) if what == "of others" else ()):
            await world.committed(topic)
        policies, done = test_compacting.Compacted(("c", "d", "late")), set[int]()
        while await lane.compacting.round(policies, done):
            pass
        numbers = {topic: lane.view.partition(topic, 0).number for topic in ("c", "d", "late")}
        compacted = {topic for topic, number in numbers.items() if number in lane._state.compacted}
        assert compacted == {"c", "late"} | ({"d"} if what == "of others" else set())
        told = {partition.topic for partition, _ in reports.damage}
        assert told == ({"d"} if what == "its own" else set())
        if what == "its own":
            reasons = (names.volume_index(volumes[1]), "Input/output error")
            assert any(reason in reports.damage[0][1] for reason in reasons)
            del world.written["d"]
        await world.check()
        await lane.close()

    async def fill(world: test_compacting.World, topics: list[str]) -> None:
        sealed_end = world.lane.settling.sealed_end()
        while world.lane.settling.sealed_end() < sealed_end + 3 * test_compacting.SEGMENT_BYTES:
            for _ in range(50):
                world.produce(world.rng.choice(topics))
            await world.lane.until_durable()
            await asyncio.sleep(0.2)
        await world.lane.settling.seal()
        assert world.lane.settling.sealed_end() == world.lane._journal.end

    async def settle(world: test_compacting.World) -> None:
        warnings: list[str] = []
        await world.lane.settling.round(warnings.append)
        assert warnings == []

    def damage(device: Unreadable, name: str, byte: int | None) -> None:
        if byte is None:
            device.bad = (name, 0)
        else:
            device.flip_bit(name, byte % device.size(name))

    run(Random(5), live())
