"""A journal in a folder whose volumes lie in a store."""

import asyncio
from pathlib import Path

import pytest

from lane.test_settling import SEGMENT_BYTES, World, start
from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.disk import FileDevice
from semel.lane.settling import Volumes
from semel.store.in_memory import Bucket, MemoryStore
from semel.volumes.binding import bind
from semel.volumes.tiering import Tiering
from support.handled import SeededRandomness

URL = "s3://bucket/path"


class TieredWorld(World):
    def __init__(self, folder: Path, bucket: Bucket, seed: int) -> None:
        super().__init__(FileDevice(folder), seed)
        self.folder = folder
        self.store = MemoryStore(bucket)

    async def open(self, *, is_tiered: bool = True) -> None:
        self.device = FileDevice(self.folder)
        randomness = SeededRandomness(self.rng)
        volumes = None
        if is_tiered:
            tiering = Tiering(self.store, URL, randomness)
            volumes = Volumes(*tiering.volumes(0, self.device))
            tiering.claimed(await bind(self.folder, URL, self.store, randomness))
        self.lane = await start(self.device, self.rng, volumes)

    def local_volumes(self) -> list[str]:
        return [name for name in self.device.names() if name.endswith(names.VOLUME)]

    def stored(self) -> set[str]:
        keys = (key for key in self.store.bucket.objects if key.startswith("vol/"))
        return {key.rpartition("/")[2].removesuffix(".idx") for key in keys}


def test_what_is_old_lies_in_the_store_and_is_read_from_there(tmp_path: Path) -> None:
    async def live() -> None:
        world = TieredWorld(tmp_path, Bucket(), 1)
        await world.open()
        for _ in range(3):
            await world.some_changes(500)
            await world.lane.until_durable()
            await world.settle()
            await world.check()
        assert world.local_volumes() == []
        assert world.stored() == set(world.lane._state.volume_names.values()) != set()
        await world.lane.close()
        await world.open()
        await world.check()
        for topic in list(world.values):
            world.delete_topic(topic)
        for _ in range(3):
            await world.settle()
        assert world.stored() == set()
        assert world.lane._state.volume_names == {}
        await world.lane.close()

    asyncio.run(live())


def test_volumes_that_the_folder_had_before_are_read_beside_those_in_the_store(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        world = TieredWorld(tmp_path, Bucket(), 2)
        await world.open(is_tiered=False)
        await world.some_changes(900)
        await world.settle()
        assert world.local_volumes()
        await world.lane.close()
        await world.open()
        await world.check()
        await world.some_changes(900)
        await world.settle()
        assert world.stored()
        await world.check()
        await world.lane.close()
        # What was brought here so that another volume is made of it is nobody's after a kill.
        number = next(iter(world.lane._state.volume_names))
        for name in (names.volume(number), names.volume_index(number)):
            (tmp_path / name).write_bytes(b"half of it")
        await world.open()
        assert names.volume(number) not in world.device.names()
        await world.check()
        await world.lane.close()

    asyncio.run(live())


def test_without_its_store_a_folder_says_what_is_missing(tmp_path: Path) -> None:
    async def live() -> None:
        world = TieredWorld(tmp_path, Bucket(), 3)
        await world.open()
        await world.some_changes(900)
        await world.settle()
        await world.lane.close()
        with pytest.raises(CorruptJournal, match="lies in a store"):
            await world.open(is_tiered=False)
        world.device.stop()

    asyncio.run(live())


def test_while_the_store_is_away_segments_stay_and_later_they_go(tmp_path: Path) -> None:
    async def live() -> None:
        bucket = Bucket()
        world = TieredWorld(tmp_path, bucket, 4)
        await world.open()
        await world.some_changes(900)
        await world.lane.until_durable()
        bucket.is_read_only = True
        warnings: list[str] = []
        await world.lane.settling.round(warnings.append)
        assert len(warnings) == 1
        assert world.lane._state.volume_names == {}
        await world.check()
        bucket.is_read_only = False
        await world.settle()
        assert world.lane._state.volume_names
        segments = [name for name in world.device.names() if name.endswith(names.SEGMENT)]
        assert len(segments) * SEGMENT_BYTES < 6 * SEGMENT_BYTES
        await world.check()
        await world.lane.close()

    asyncio.run(live())


def test_a_folder_whose_copy_was_started_removes_nothing_any_more(tmp_path: Path) -> None:
    async def live() -> None:
        bucket = Bucket()
        world = TieredWorld(tmp_path, bucket, 5)
        await world.open()
        await world.some_changes(900)
        await world.settle()
        bucket.objects["volumes/claims/000000000002"] = b"another copy"
        before = world.stored()
        for topic in list(world.values):
            world.delete_topic(topic)
        warnings: list[str] = []
        await world.lane.settling.round(warnings.append)
        assert "another copy of this folder" in warnings[0]
        assert world.stored() == before
        await world.lane.close()

    asyncio.run(live())
