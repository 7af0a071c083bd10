"""What an open makes of the bytes it finds: rules 5, 6 and 8 of the law, one by one."""

from random import Random

import pytest

from semel.errors import CorruptJournal
from semel.journal import names, note
from semel.journal.frames import HEADER_SIZE, head, header_at
from semel.journal.memory import MemoryDevice
from semel.journal.settings import JournalSettings
from support import seeded_loop
from support.journal_world import SEGMENT_BYTES, Remembering

FIRST = names.segment(0)
PAYLOAD = b"p" * 100
FRAME_SIZE = HEADER_SIZE + len(PAYLOAD)


def device_of(seed: int = 1) -> MemoryDevice:
    return MemoryDevice(Random(seed))


def live(device: MemoryDevice, count: int, *, durable: bool, close: bool = False) -> Remembering:
    """One process that appends `count` frames, and is killed once they are written or durable."""

    async def main() -> Remembering:
        lane = Remembering(device)
        lane.start()
        for _ in range(count):
            position = lane.append(PAYLOAD)
            await (lane.durable(position) if durable else lane.written(position))
        if close:
            await lane.journal.close()
        return lane

    lane = seeded_loop.run(Random(2), main())
    device.kill()
    return lane


def reopen(device: MemoryDevice) -> Remembering:
    lane = Remembering(device)
    device.kill()
    return lane


def forget_note(device: MemoryDevice) -> None:
    """So that the frames alone must tell what was durable."""
    device.remove(names.NOTE)


# Rule 5: what is recorded in a frame.


def test_a_frame_records_its_position_incarnation_predecessor_and_durable_position() -> None:
    device = device_of()
    live(device, 3, durable=True)
    live(device, 1, durable=True)
    stored = device.read(FIRST, 0, 4 * FRAME_SIZE)
    headers = [header_at(stored, place * FRAME_SIZE) for place in range(4)]
    assert [header.position for header in headers] == [place * FRAME_SIZE for place in range(4)]
    assert [header.incarnation for header in headers] == [1, 1, 1, 2]
    assert [header.previous for header in headers] == [0, *(h.checksum for h in headers[:-1])]
    assert [header.durable for header in headers] == [place * FRAME_SIZE for place in range(4)]


def test_every_open_raises_the_incarnation_even_if_it_appends_nothing() -> None:
    device = device_of()
    assert [reopen(device).journal.incarnation for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("offset", [0, 3, 5, 9, 13, 17, 25, 29, HEADER_SIZE, FRAME_SIZE - 1])
def test_a_flipped_bit_before_a_recorded_durable_position_is_damage_with_its_place(
    offset: int,
) -> None:
    device = device_of()
    live(device, 4, durable=True)
    forget_note(device)
    device.flip_bit(FIRST, FRAME_SIZE + offset)
    with pytest.raises(CorruptJournal, match=f"{FIRST}, byte {FRAME_SIZE}: "):
        reopen(device)


def test_a_durable_position_recorded_behind_the_hole_proves_damage_too() -> None:
    device = device_of()
    live(device, 4, durable=True)
    forget_note(device)
    # The frames before this one know nothing of its being durable; those behind it do.
    device.flip_bit(FIRST, 2 * FRAME_SIZE + HEADER_SIZE)
    with pytest.raises(CorruptJournal, match=f"byte {2 * FRAME_SIZE}: wrong checksum"):
        reopen(device)


def test_damage_is_reported_again_at_every_open_and_nothing_is_repaired() -> None:
    device = device_of()
    live(device, 4, durable=True)
    device.flip_bit(FIRST, HEADER_SIZE)
    stored = device.read(FIRST, 0, SEGMENT_BYTES)
    for _ in range(2):
        with pytest.raises(CorruptJournal):
            reopen(device)
    assert device.read(FIRST, 0, SEGMENT_BYTES) == stored


def test_damage_in_a_tail_that_an_earlier_open_made_durable_is_damage() -> None:
    device = device_of()
    live(device, 2, durable=False)
    reopen(device)
    device.flip_bit(FIRST, FRAME_SIZE + HEADER_SIZE)
    with pytest.raises(CorruptJournal, match=f"byte {FRAME_SIZE}: wrong checksum"):
        reopen(device)


def test_a_clean_close_makes_any_later_damage_known() -> None:
    device = device_of()
    live(device, 2, durable=True, close=True)
    device.remove(names.checkpoint(2 * FRAME_SIZE))
    device.flip_bit(FIRST, FRAME_SIZE + HEADER_SIZE)
    with pytest.raises(CorruptJournal):
        reopen(device)


def test_a_truncated_segment_is_damage() -> None:
    device = device_of()
    live(device, 4, durable=True, close=True)
    device.remove(names.checkpoint(4 * FRAME_SIZE))
    device.truncate(FIRST, 2 * FRAME_SIZE + 10)
    with pytest.raises(CorruptJournal, match=f"{FIRST}, byte {2 * FRAME_SIZE}: "):
        reopen(device)


@pytest.mark.parametrize("offset", [0, 5, 9, HEADER_SIZE, FRAME_SIZE - 1])
def test_a_bad_frame_at_the_durable_position_is_cut_and_all_behind_it_wiped_on_disk(
    offset: int,
) -> None:
    device = device_of()
    live(device, 2, durable=True)
    lane = live(device, 0, durable=True)
    assert len(lane.replayed) == 2
    live(device, 3, durable=False)
    device.flip_bit(FIRST, 2 * FRAME_SIZE + offset)
    lane = reopen(device)
    assert len(lane.replayed) == 2
    assert lane.journal.end == 2 * FRAME_SIZE
    device.power_loss()
    assert device.read(FIRST, 2 * FRAME_SIZE, SEGMENT_BYTES) == bytes(
        SEGMENT_BYTES - 2 * FRAME_SIZE
    ), "the wiping was not synced"


def test_a_cut_removes_the_segments_behind_it() -> None:
    device = device_of()

    async def main() -> None:
        lane = Remembering(device)
        lane.start()
        # In one tick, so that no frame can know of anything durable.
        for _ in range(80):
            end = lane.append(PAYLOAD)
        await lane.written(end)

    seeded_loop.run(Random(3), main())
    device.kill()
    for name in device.names():
        if name.endswith(names.CHECKPOINT):
            device.remove(name)
    assert len(names.positions(device.names(), names.SEGMENT)) == 2
    device.flip_bit(FIRST, 5 * FRAME_SIZE)
    lane = Remembering(device)
    assert len(lane.replayed) == 5
    assert names.positions(device.names(), names.SEGMENT) == [0]


def test_a_frame_of_another_history_is_not_taken_though_it_is_whole_and_in_place() -> None:
    device = device_of()
    live(device, 2, durable=True)
    lane = reopen(device)
    parts = [PAYLOAD]
    header, _ = head(parts, len(PAYLOAD), 12345, 2 * FRAME_SIZE, 9, 0)  # type: ignore[arg-type]
    device.write(FIRST, 2 * FRAME_SIZE, [header, *parts])
    lane = reopen(device)
    assert len(lane.replayed) == 2
    assert lane.journal.incarnation > 9


# Rule 6: every open makes durable what it serves.


def test_what_an_open_has_found_survives_a_power_loss_right_after_it() -> None:
    for seed in range(20):
        device = device_of(seed)
        live(device, 5, durable=False)
        assert len(reopen(device).replayed) == 5
        device.power_loss()
        assert len(reopen(device).replayed) == 5


def test_pages_that_a_failed_sync_dropped_are_written_again() -> None:
    """Until the power goes nobody can see that they are missing."""
    for seed in range(20):
        device = device_of(seed)

        async def main(device: MemoryDevice = device) -> None:
            lane = Remembering(device)
            lane.start()
            device.fails_next_sync = True
            assert not await lane.durable(lane.append(PAYLOAD))

        seeded_loop.run(Random(seed), main())
        device.kill()
        lane = Remembering(device)
        assert not lane.journal.certain
        assert len(lane.replayed) == 1
        device.power_loss()
        assert len(reopen(device).replayed) == 1


# Rule 2: the facts that the journal gives.


def test_a_kill_leaves_certainty_and_the_same_identity() -> None:
    device = device_of()
    first = live(device, 3, durable=False).journal
    second = reopen(device).journal
    assert second.certain
    assert second.identity.proves_same(first.identity)


def test_a_power_loss_changes_the_identity() -> None:
    device = device_of()
    first = live(device, 3, durable=True).journal
    device.power_loss()
    assert not reopen(device).journal.identity.proves_same(first.identity)


def test_doubt_stays_until_a_frame_behind_it_is_durable() -> None:
    device = device_of()
    live(device, 1, durable=True)
    note.mark(device, failed=True)
    assert not reopen(device).journal.certain
    assert not live(device, 1, durable=False).journal.certain
    note.mark(device, failed=True)
    assert not live(device, 1, durable=True).journal.certain
    assert reopen(device).journal.certain


def test_a_journal_without_its_note_is_in_doubt() -> None:
    device = device_of()
    live(device, 1, durable=True)
    forget_note(device)
    assert not reopen(device).journal.certain


def test_a_new_journal_is_certain() -> None:
    assert reopen(device_of()).journal.certain


# Rule 8 and start-up.


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
    batches = after.journal.batches(0, 0, len(after.payloads), 2**30)
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
