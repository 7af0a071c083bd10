"""Checkpoints and indexes that no store takes in one request."""

from random import Random

import pytest

from lane import test_settling_on_store
from semel.errors import CorruptJournal
from semel.journal.slots import checkpointing, checkpoints, journal
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.seam import CREATE_BYTES_MAX
from support.journal_world import SEPARATOR, RememberingOn
from support.slot_world import randomness, run

SETTINGS = SlotSettings(checkpoint_slots=10_000)


@pytest.fixture
def few_bytes_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PART_SIZE", 1000)
    monkeypatch.setattr(checkpointing, "PART_BYTES", 1500)
    monkeypatch.setattr(checkpointing, "INDEX_PART_SIZE", 700)
    monkeypatch.setattr(journal, "INDEX_PART_SIZE", 700)


async def lead(bucket: Bucket, node: int) -> RememberingOn[SlotJournal]:
    store = MemoryStore(bucket, Random(node))
    opened = await SlotJournal.open(store, 0, node, randomness(node), SETTINGS)
    lane = RememberingOn(opened)
    lane.start()
    return lane


def keys(bucket: Bucket, folder: str) -> list[str]:
    return sorted(key for key in bucket.objects if key.startswith(folder))


def test_a_state_of_many_megabytes_is_there_for_whoever_takes_the_lane() -> None:
    async def main() -> None:
        bucket = Bucket()
        first = await lead(bucket, 1)
        rng = Random(1)
        for _ in range(20):
            await first.durable(first.append(rng.randbytes(1_000_000).hex().encode()))
        await first.journal.checkpoint_now()
        assert first.warnings == []
        assert sum(map(len, first.payloads)) > 2 * CREATE_BYTES_MAX
        assert len(keys(bucket, "ck-parts/")) > 1
        second = await lead(bucket, 2)
        assert second.checkpoint_count == 20
        assert second.payloads == first.payloads
        standby = Follower(MemoryStore(bucket), 0, SETTINGS)
        await standby.begin()
        assert standby.checkpoint == b"".join(each + SEPARATOR for each in first.payloads)

    run(main())


@pytest.mark.usefixtures("few_bytes_are_large")
def test_parts_go_with_their_checkpoint_also_those_of_who_came_no_further() -> None:
    async def main() -> None:
        bucket = Bucket()
        lane = await lead(bucket, 1)
        await lane.durable(lane.append(b"a" * 3000))
        await lane.journal.checkpoint_now()
        bucket.objects["ck-parts/0000/000000000001-7-1.0"] = b"of who came no further"
        for number in range(5):
            await lane.durable(lane.append(b"%d" % number * 3000))
            await lane.journal.checkpoint_now()
        second = await lead(bucket, 2)
        for number in range(3):
            await second.durable(second.append(b"%d" % number * 3000))
            await second.journal.checkpoint_now()
        await second.journal._collecting.until_idle()
        kept = {key.rpartition("/")[2] for key in keys(bucket, "ck/")}
        assert len(kept) == 2
        parts = {key.rpartition("/")[2].partition("-")[0] for key in keys(bucket, "ck-parts/")}
        assert parts == kept

    run(main())


@pytest.mark.usefixtures("few_bytes_are_large")
def test_a_part_that_is_missing_or_damaged_is_told() -> None:
    async def main() -> None:
        bucket = Bucket()
        lane = await lead(bucket, 1)
        await lane.durable(lane.append(b"a" * 3000))
        await lane.journal.checkpoint_now()
        part = keys(bucket, "ck-parts/")[1]
        stored = bucket.objects[part]
        bucket.objects[part] = b"b" * len(stored)
        with pytest.raises(CorruptJournal, match="wrong checksum"):
            await lead(bucket, 2)
        del bucket.objects[part]
        with pytest.raises(CorruptJournal, match="parts of it are missing"):
            await lead(bucket, 3)
        bucket.objects[part] = stored
        assert (await lead(bucket, 4)).payloads == lane.payloads

    run(main())


@pytest.mark.usefixtures("few_bytes_are_large")
def test_a_crash_at_any_call_loses_nothing_where_all_is_in_parts() -> None:
    test_settling_on_store.test_a_crash_at_any_call_of_the_store_while_it_settles_loses_nothing(
        is_last_done=True
    )


@pytest.mark.usefixtures("few_bytes_are_large")
def test_all_is_read_by_indexes_in_parts() -> None:
    test_settling_on_store.test_all_that_is_not_deleted_is_read_after_settling_and_kills(2)
