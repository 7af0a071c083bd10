"""Rule 8: a start replays only what follows the newest checkpoint that can be trusted."""

import pytest

from journal.short_lives import FRAME_SIZE, PAYLOAD, device_of, live, reopen
from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.memory import MemoryDevice
from semel.journal.settings import JournalSettings
from support.journal_world import SEGMENT_BYTES, Remembering, stored_batches

FIRST = names.segment(0)


def checkpoints_of(device: MemoryDevice) -> list[int]:
    return names.positions(device.names(), names.CHECKPOINT)


def long_life(device: MemoryDevice) -> Remembering:
    """Rolls over several segments and ends cleanly."""
    return live(device, 300, durable=True, close=True)


def test_a_clean_close_leaves_nothing_to_replay() -> None:
    device = device_of()
    before = long_life(device)
    after = reopen(device)
    assert after.checkpoint_count == len(before.payloads)
    assert after.payloads == before.payloads
    assert len(checkpoints_of(device)) == 2


def test_a_killed_process_replays_only_from_the_last_roll() -> None:
    device = device_of()
    before = live(device, 300, durable=True)
    after = reopen(device)
    per_segment = SEGMENT_BYTES // FRAME_SIZE
    assert after.payloads == before.payloads
    assert after.checkpoint_count >= len(before.payloads) - 2 * per_segment


def test_a_published_checkpoint_and_its_indexes_survive_a_power_loss() -> None:
    for seed in range(20):
        device = device_of(seed)
        before = long_life(device)
        device.power_loss()
        after = Remembering(device)
        assert after.checkpoint_count == len(before.payloads)
        batches = stored_batches(after.journal, 0, 0, len(before.payloads))
        assert [bytes(batch) for batch in batches] == before.payloads


@pytest.mark.parametrize("damaged_count", [1, 2])
def test_a_damaged_checkpoint_gives_way_to_an_older_one_or_to_the_whole_journal(
    damaged_count: int,
) -> None:
    device = device_of()
    before = long_life(device)
    for position in checkpoints_of(device)[-damaged_count:]:
        device.flip_bit(names.checkpoint(position), 60)
    after = reopen(device)
    assert after.payloads == before.payloads
    assert (after.checkpoint_count == 0) == (damaged_count == 2)


@pytest.mark.parametrize("damage", ["removed", "cut", "zeroed"])
def test_a_checkpoint_without_one_of_its_indexes_is_not_used(damage: str) -> None:
    device = device_of()
    before = long_life(device)
    name = names.index(0)
    if damage == "removed":
        device.remove(name)
    elif damage == "cut":
        device.truncate(name, device.size(name) - 1)
    else:
        device.write(name, 0, [bytes(device.size(name))])
    after = Remembering(device)
    assert after.checkpoint_count == 0
    assert after.payloads == before.payloads
    batches = stored_batches(after.journal, 0, 0, len(after.payloads))
    assert [bytes(batch) for batch in batches] == before.payloads


def test_an_index_whose_rows_are_damaged_is_named_when_it_is_read() -> None:
    device = device_of()
    long_life(device)
    device.flip_bit(names.index(0), device.size(names.index(0)) - 1)
    after = Remembering(device)
    with pytest.raises(CorruptJournal, match=names.index(0)):
        after.journal.index.find(0, 0)


def test_a_replay_over_whole_segments_leaves_a_checkpoint_behind() -> None:
    device = device_of()
    before = long_life(device)
    for position in checkpoints_of(device):
        device.remove(names.checkpoint(position))
    assert live(device, 20, durable=True).checkpoint_count == 0
    after = reopen(device)
    assert after.checkpoint_count >= len(before.payloads)
    assert after.payloads == [*before.payloads, *([PAYLOAD] * 20)]


def test_a_missing_segment_is_damage() -> None:
    device = device_of()
    long_life(device)
    device.remove(FIRST)
    with pytest.raises(CorruptJournal, match=f"{FIRST} is missing"):
        reopen(device)


def test_a_journal_whose_segments_are_all_gone_is_not_taken_for_a_new_one() -> None:
    device = device_of()
    live(device, 3, durable=True, close=True)
    for name in device.names():
        if name != names.NOTE:
            device.remove(name)
    with pytest.raises(CorruptJournal, match=f"{FIRST} is missing"):
        reopen(device)


def test_other_segment_sizes_are_taken_at_the_next_open() -> None:
    device = device_of()
    before = live(device, 100, durable=True)
    lane = Remembering(device, JournalSettings(segment_bytes=4 * SEGMENT_BYTES))
    assert lane.payloads == before.payloads
    assert lane.journal.segments.limit == lane.journal.segments.base + 4 * SEGMENT_BYTES
