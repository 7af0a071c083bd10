"""Rules of volumes and of the cache on a store, left out one by one; named tests find it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lane import test_cache_of_slots, test_settling_on_store
from mutants import forgetting_bugs
from semel.errors import SemelError
from semel.journal.slots.writer import Put, Writer
from semel.lane.settling import Settling
from semel.store import disk_cache
from semel.store.disk_cache import DiskCache, LeaderCache
from semel.volumes.objects import ObjectVolumes
from store import test_disk_cache

NOTICED = (AssertionError, SemelError)


# Rule 31: the volume is stored, a frame names it, that is durable, and only then slots go.


def test_slots_that_go_before_it_is_durable_where_their_data_lies_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgetting_bugs.segments_go_before_it_is_durable_that_nobody_needs_them(monkeypatch)

    async def say(self: Settling, command: Any) -> None:
        """Nobody waits."""
        self._lane.submit(command)

    monkeypatch.setattr(Settling, "_say", say)
    with pytest.raises(NOTICED):
        test_settling_on_store.test_slots_stay_until_it_is_durable_where_their_data_lies()


def test_a_volume_that_is_named_before_it_is_stored_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def create(self: ObjectVolumes, number: int, temporary: str) -> str:
        """Only its index is waited for."""
        name = f"{self.epoch:010d}-{number:024x}"
        await self._upload(f"{number:020d}.volume-index{temporary}", name + ".idx")
        self._names[number] = name
        return name

    monkeypatch.setattr(ObjectVolumes, "create", create)
    with pytest.raises(NOTICED):
        test_settling_on_store.test_all_that_is_not_deleted_is_read_after_settling_and_kills(1)


# Rule 34


def test_a_slot_that_is_cached_before_it_is_confirmed_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    land = Writer._land

    async def hasty(self: Writer, put: Put) -> None:
        if self.on_confirmed is not None:
            self.on_confirmed(put.slot, put.content)
        await land(self, put)

    monkeypatch.setattr(Writer, "_land", hasty)
    with pytest.raises(NOTICED):
        test_cache_of_slots.test_nothing_is_cached_of_a_slot_that_is_not_confirmed(tmp_path)


def plant_cache_of_all(patch: pytest.MonkeyPatch) -> None:
    """Slots are kept for whoever leads next, under any epoch."""

    def of_leader(self: DiskCache, epoch: int, folders: Any) -> LeaderCache:
        return LeaderCache(self, "any", tuple(folders))

    patch.setattr(DiskCache, "of_leader", of_leader)


@pytest.mark.parametrize(
    "test",
    [
        test_cache_of_slots.test_another_store_under_the_same_keys_is_read_as_it_is,
        test_disk_cache.test_another_leader_finds_volumes_and_nothing_of_slots,
    ],
)
def test_a_cache_that_is_not_cut_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, test: Callable[[Path], None]
) -> None:
    plant_cache_of_all(monkeypatch)
    with pytest.raises(NOTICED):
        test(tmp_path)


def test_a_cache_that_is_believed_unchecked_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read(path: Path, name: str) -> memoryview | None:
        return memoryview(path.read_bytes())[disk_cache.CHECKSUM_SIZE :]

    monkeypatch.setattr(disk_cache, "_read", read)
    with pytest.raises(NOTICED):
        test_cache_of_slots.test_volumes_are_found_in_the_cache_after_a_restart_and_damage_is_a_miss(
            tmp_path
        )


# Rule 35


def test_a_fenced_leader_that_removes_what_it_does_not_know_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ObjectVolumes, "_is_old", lambda self, key: True)
    with pytest.raises(NOTICED):
        test_settling_on_store.test_a_leader_that_was_fenced_removes_no_volume_of_who_leads_now()


def test_volumes_of_nobody_that_stay_for_ever_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ObjectVolumes, "_is_old", lambda self, key: False)
    with pytest.raises(NOTICED):
        test_settling_on_store.test_a_crash_at_any_call_of_the_store_while_it_settles_loses_nothing(
            is_last_done=True
        )
