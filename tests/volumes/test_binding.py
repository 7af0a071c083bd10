"""Whose the volumes under a path of a store are: one folder's, and of its copies one."""

import asyncio
import shutil
from pathlib import Path
from random import Random

import pytest

from semel.errors import ConfigError
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.seam import StoreAway
from semel.volumes import binding
from support.handled import SeededRandomness

URL = "s3://bucket/path"


class Place:
    def __init__(self, bucket: Bucket, folder: Path, seed: int = 1) -> None:
        folder.mkdir(exist_ok=True)
        self.store = MemoryStore(bucket)
        self.folder = folder
        self._randomness = SeededRandomness(Random(f"{seed} {folder}"))

    def bind(self, url: str = URL) -> int:
        return asyncio.run(binding.bind(self.folder, url, self.store, self._randomness))

    def check(self, claim: int) -> None:
        asyncio.run(binding.check_claim(self.store, URL, claim))


def test_each_start_of_a_folder_is_a_claim_of_its_own(tmp_path: Path) -> None:
    place = Place(Bucket(), tmp_path / "data")
    assert [place.bind() for _ in range(3)] == [1, 2, 3]
    place.check(3)


def test_a_folder_with_volumes_elsewhere_is_not_opened_without_them(tmp_path: Path) -> None:
    place = Place(Bucket(), tmp_path / "data")
    binding.check_named(place.folder, None)
    binding.check_whole(place.folder)
    place.bind()
    binding.check_named(place.folder, URL)
    with pytest.raises(ConfigError, match=f"lies in {URL}: start it with --volumes {URL}"):
        binding.check_named(place.folder, None)
    with pytest.raises(ConfigError, match="copy the folder and that path together"):
        binding.check_whole(place.folder)


def test_the_volumes_of_another_folder_and_of_a_cluster_are_refused(tmp_path: Path) -> None:
    bucket = Bucket()
    Place(bucket, tmp_path / "one").bind()
    other = Place(bucket, tmp_path / "two")
    with pytest.raises(ConfigError, match="of another folder"):
        other.bind()
    binding.check_named(other.folder, None)
    clustered = Bucket()
    clustered.objects["cluster/format"] = b"{}"
    with pytest.raises(ConfigError, match="holds a cluster"):
        Place(clustered, tmp_path / "three").bind()


def test_volumes_are_found_where_they_were_copied_to_and_nowhere_else(tmp_path: Path) -> None:
    bucket = Bucket()
    place = Place(bucket, tmp_path / "data")
    place.bind()
    moved = "s3://other/path"
    place.store = MemoryStore(Bucket())
    with pytest.raises(ConfigError, match="copy all of it there first"):
        place.bind(moved)
    place.store.bucket.objects.update(bucket.objects)
    assert place.bind(moved) == 2
    found = binding.read(place.folder)
    assert found is not None
    assert found.url == moved


@pytest.mark.parametrize("is_original_first", [False, True])
def test_of_two_copies_of_a_folder_one_goes_on(tmp_path: Path, is_original_first: bool) -> None:
    bucket = Bucket()
    original = Place(bucket, tmp_path / "data")
    claim = original.bind()
    shutil.copytree(original.folder, tmp_path / "copy")
    copy = Place(bucket, tmp_path / "copy", seed=2)
    first, second = (original, copy) if is_original_first else (copy, original)
    assert first.bind() == claim + 1
    with pytest.raises(OSError, match="another copy of this folder"):
        second.check(claim)
    for _ in range(3):
        with pytest.raises(ConfigError, match="another copy of this folder"):
            second.bind()
    assert first.bind() == claim + 2


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("key", [binding.OWNER, binding.CLAIMS])
def test_a_start_that_came_no_further_is_taken_up(tmp_path: Path, lands: bool, key: str) -> None:
    place = Place(Bucket(), tmp_path / "data")
    created = place.store.create

    async def create(its_key: str, parts: list[bytes]) -> None:
        if its_key.startswith(key):
            if lands:
                await created(its_key, parts)
            raise StoreAway("no answer")
        await created(its_key, parts)

    place.store.create = create  # type: ignore[assignment,method-assign]
    with pytest.raises(StoreAway):
        place.bind()
    place.store.create = created  # type: ignore[method-assign]
    claim = place.bind()
    place.check(claim)
    assert place.bind() == claim + 1


def test_a_file_that_says_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / binding.FILE).write_bytes(b"{")
    with pytest.raises(ConfigError, match="does not say where volumes lie"):
        binding.check_named(tmp_path, None)
    (tmp_path / binding.FILE).write_bytes(b'{"format":2,"url":"","owner":"","claim":1,"nonce":""}')
    with pytest.raises(ConfigError, match="has format 2"):
        binding.check_named(tmp_path, None)
