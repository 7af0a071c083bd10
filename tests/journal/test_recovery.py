"""What an open makes of the bytes it finds: rules 2, 5 and 6 of the law, one by one."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from random import Random

import pytest

from journal.short_lives import FRAME_SIZE, PAYLOAD, device_of, live, reopen
from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file import note
from semel.journal.file.memory import Killed, MemoryDevice
from semel.journal.frames import HEADER_SIZE, head, header_at
from semel.records.checksum import crc32c
from support import seeded_loop
from support.journal_world import SEGMENT_BYTES, Remembering

FIRST = names.segment(0)


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


def test_no_power_loss_makes_an_incarnation_come_twice() -> None:
    for seed in range(20):
        device = device_of(seed)
        seen = []
        for _ in range(4):
            seen.append(reopen(device).journal.incarnation)
            device.power_loss()
        assert seen == [1, 2, 3, 4]


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


def test_a_clean_close_vouches_for_nothing_that_was_appended_too_late_to_be_synced() -> None:
    for seed in range(20):
        device = device_of(seed)

        async def main(device: MemoryDevice = device, seed: int = seed) -> None:
            lane = Remembering(device)
            lane.start()
            lane.append(PAYLOAD)
            closing = asyncio.ensure_future(lane.journal.close())
            rng = Random(seed)
            while not closing.done():
                if rng.random() < 0.5:
                    lane.append(PAYLOAD)
                await seeded_loop.elapse(rng.random() / 1000)

        seeded_loop.run(Random(seed), main())
        device.power_loss()
        assert reopen(device).replayed


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


def test_a_power_loss_at_any_step_of_an_open_is_no_damage() -> None:
    """The names of files that the last process left may be lost with it, and what is in them."""
    for seed in range(20):
        for calls in range(40):
            device = device_of(seed)
            live(device, 70, durable=False)
            device.calls_left = calls
            with contextlib.suppress(Killed):
                Remembering(device)
            device.power_loss()
            assert set(reopen(device).replayed) <= {PAYLOAD}


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
        assert lane.journal.may_miss_acknowledged
        assert len(lane.replayed) == 1
        device.power_loss()
        assert len(reopen(device).replayed) == 1


# Rule 2: the facts that the journal gives.


def test_a_kill_leaves_no_doubt() -> None:
    device = device_of()
    live(device, 3, durable=False)
    assert not reopen(device).journal.may_miss_acknowledged


def test_a_power_loss_leaves_doubt() -> None:
    device = device_of()
    live(device, 3, durable=True)
    device.power_loss()
    assert reopen(device).journal.may_miss_acknowledged


def power_loss(device: MemoryDevice) -> None:
    device.power_loss()


def io_error(device: MemoryDevice) -> None:
    note.write_failed(device, failed=True)


def note_of_0_1(device: MemoryDevice) -> None:
    """Without an identity, in both of its slots."""
    for offset in (0, 4096):
        slot = struct.pack("<8sIQ", b"SEMELNO1", 1, FRAME_SIZE)
        device.write(names.NOTE, offset, [slot + struct.pack("<I", crc32c(slot))])


@pytest.mark.parametrize("harm", [power_loss, io_error, note_of_0_1, forget_note])
def test_doubt_stays_until_a_frame_behind_it_is_durable(
    harm: Callable[[MemoryDevice], None],
) -> None:
    device = device_of()
    live(device, 1, durable=True)
    harm(device)
    for _ in range(2):
        assert reopen(device).journal.may_miss_acknowledged
        assert live(device, 0, durable=False, close=True).journal.may_miss_acknowledged
    assert live(device, 1, durable=True).journal.may_miss_acknowledged
    assert not reopen(device).journal.may_miss_acknowledged


def test_a_process_that_dies_at_any_step_of_an_open_leaves_the_doubt() -> None:
    for calls in range(40):
        device = device_of()
        live(device, 1, durable=True)
        device.power_loss()
        device.calls_left = calls
        with contextlib.suppress(Killed):
            Remembering(device)
        device.kill()
        assert reopen(device).journal.may_miss_acknowledged


def test_a_frame_that_is_only_written_answers_no_doubt() -> None:
    answered = set()
    for seed in range(20):
        device = device_of(seed)
        live(device, 1, durable=True)
        device.power_loss()
        life = live(device, 1, durable=False)
        is_answered = bool(life.durable_calls)
        answered.add(is_answered)
        assert reopen(device).journal.may_miss_acknowledged != is_answered
    assert False in answered


def test_a_torn_note_leaves_the_one_before() -> None:
    """Whichever of its slots was written last."""
    for lives in (1, 2):
        device = device_of()
        for _ in range(lives):
            incarnation = live(device, 0, durable=True).journal.incarnation
        for offset in (0, 4096):
            device.flip_bit(names.NOTE, offset + 12)
            found = note.read(device)
            device.flip_bit(names.NOTE, offset + 12)
            if lives == 1:
                # The other slot was never written.
                assert (found is None) == (offset == 0)
            else:
                assert found is not None
                assert found.note.incarnation == (incarnation if offset == 0 else incarnation - 1)


def test_a_new_journal_is_certain() -> None:
    assert not reopen(device_of()).journal.may_miss_acknowledged
