"""Blocks in a folder: what was put, or nothing; whatever becomes of the files."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from semel.store.blocks import BLOCK_SIZE
from semel.store.disk_cache import OVERHEAD_SIZE, DiskCache, Folder, LeaderCache

SLOT, VOLUME = "j/0000/000000000007", "vol/0000/0000000003-abc"
FOLDERS = ("j/0000/", "ix/0000/")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def files_in(folder: Path, part: str = "") -> list[Path]:
    return [path for path in folder.iterdir() if part in path.name]


async def put(cache: DiskCache, leader: LeaderCache, key: str, content: bytes) -> None:
    leader.put(key, 0, [content[:100], content[100:]], len(content))
    await cache.until_written()


async def got(leader: LeaderCache, key: str, number: int = 0) -> bytes | None:
    found = await leader.get(key, number)
    return None if found is None else bytes(found)


def test_an_object_is_cut_into_blocks_and_given_back(tmp_path: Path) -> None:
    async def main() -> None:
        cache = DiskCache(Folder(tmp_path), 2**30)
        leader = cache.of_leader(3, FOLDERS)
        content = Random(1).randbytes(2 * BLOCK_SIZE + 500)
        await put(cache, leader, SLOT, content)
        found = [await got(leader, SLOT, number) for number in range(4)]
        assert b"".join(found[:3]) == content  # type: ignore[arg-type]
        assert found[3] is None
        leader.forget([SLOT])
        assert await got(leader, SLOT) is None
        assert files_in(tmp_path) == []
        assert cache.bytes_held == 0

    run(main())


def test_those_used_last_are_kept_and_no_more_than_may_be(tmp_path: Path) -> None:
    async def main() -> None:
        size = 10_000
        cache = DiskCache(Folder(tmp_path), 5 * (size + OVERHEAD_SIZE + 4))
        leader = cache.of_leader(1, FOLDERS)
        for number in range(8):
            await put(cache, leader, f"vol/0000/{number}", bytes([number]) * size)
            assert await got(leader, "vol/0000/0") is not None, "it is used again and again"
        there = [n for n in range(8) if await got(leader, f"vol/0000/{n}") is not None]
        assert there == [0, 4, 5, 6, 7]
        assert len(files_in(tmp_path)) == 5

    run(main())


def test_another_leader_finds_volumes_and_nothing_of_slots(tmp_path: Path) -> None:
    """Rule 34: also under the same epoch, as in a cluster that was restored."""

    async def main() -> None:
        cache = DiskCache(Folder(tmp_path), 2**30)
        leader = cache.of_leader(3, FOLDERS)
        await put(cache, leader, SLOT, b"slot" * 100)
        await put(cache, leader, VOLUME, b"volume" * 100)
        for epoch in (3, 4):
            # In the same process, and in another.
            for later in (cache, DiskCache(Folder(tmp_path), 2**30)):
                new = later.of_leader(epoch, FOLDERS)
                assert await got(new, SLOT) is None
                assert await got(new, VOLUME) == b"volume" * 100
        # Who was slow to step down keeps its own to itself.
        await put(cache, leader, SLOT, b"late" * 100)
        assert await got(new, SLOT) is None

    run(main())


def flipped(stored: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(stored))
    return stored[:at] + bytes([stored[at] ^ (1 << rng.randrange(8))]) + stored[at + 1 :]


DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "flipped": flipped,
    "cut": lambda stored, rng: stored[: rng.randrange(len(stored))],
    "zeros": lambda stored, rng: bytes(len(stored)),
    "longer": lambda stored, rng: stored + b"x",
    "other": lambda stored, rng: rng.randbytes(len(stored)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_a_miss(tmp_path: Path, damage: str) -> None:
    async def main() -> None:
        rng = Random(damage)
        for number in range(20):
            cache = DiskCache(Folder(tmp_path), 2**30)
            leader = cache.of_leader(3, FOLDERS)
            content = rng.randbytes(3_000)
            await put(cache, leader, f"vol/{number}", content)
            (path,) = files_in(tmp_path, f"vol+{number}+")
            path.write_bytes(DAMAGES[damage](path.read_bytes(), rng))
            for _ in range(2):
                assert await got(leader, f"vol/{number}") is None
            assert not path.exists()

    run(main())


def test_a_file_under_the_name_of_another_is_a_miss(tmp_path: Path) -> None:
    async def main() -> None:
        cache = DiskCache(Folder(tmp_path), 2**30)
        leader = cache.of_leader(3, FOLDERS)
        await put(cache, leader, "vol/a", b"a" * 1000)
        await put(cache, leader, "vol/b", b"b" * 1000)
        (first,), (second,) = files_in(tmp_path, "vol+a"), files_in(tmp_path, "vol+b")
        second.write_bytes(first.read_bytes())
        assert await got(leader, "vol/b") is None
        assert await got(leader, "vol/a") == b"a" * 1000

    run(main())


def test_a_folder_that_takes_nothing_is_an_empty_cache(tmp_path: Path) -> None:
    async def main() -> None:
        folder = tmp_path / "cache"
        cache = DiskCache(Folder(folder), 2**30)
        leader = cache.of_leader(3, FOLDERS)
        await put(cache, leader, SLOT, b"slot" * 100)
        shutil.rmtree(folder)
        assert await got(leader, SLOT) is None
        await put(cache, leader, SLOT, b"slot" * 100)
        assert await got(leader, SLOT) is None

    run(main())
