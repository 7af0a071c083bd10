"""Rule 7: room is found before anything is decided, and a full disk stops writes alone."""

import contextlib
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from semel.errors import ConfigError, JournalFull
from semel.journal import names
from semel.journal.file.memory import Killed, MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.journal.frames import HEADER_SIZE
from support import seeded_loop
from support.journal_world import Remembering, stored_batches

SEGMENT_BYTES = 8192
HEADROOM_BYTES = 1024
SETTINGS = JournalSettings(segment_bytes=SEGMENT_BYTES, headroom_bytes=HEADROOM_BYTES)
PAYLOAD = b"p" * 100
FRAME_SIZE = HEADER_SIZE + len(PAYLOAD)


def run(main: Coroutine[Any, Any, None]) -> None:
    seeded_loop.run(Random(0), main)


def on_a_full_disk() -> tuple[MemoryDevice, Remembering]:
    """With the open segment allocated, and no other."""
    device = MemoryDevice(Random(1))
    lane = Remembering(device, SETTINGS)
    device.is_full = True
    lane.start()
    return device, lane


def fill(lane: Remembering, *, kept_size: int = HEADROOM_BYTES, count_max: int = 1000) -> int:
    """Appends until it is refused."""
    for count in range(count_max):
        try:
            lane.append(PAYLOAD, kept_size=kept_size)
        except JournalFull:
            return count
    return count_max


def test_a_full_disk_refuses_before_anything_changes_and_keeps_what_must_be_left() -> None:
    async def main() -> None:
        _, lane = on_a_full_disk()
        assert fill(lane) == (SEGMENT_BYTES - HEADROOM_BYTES) // FRAME_SIZE
        end = lane.journal.end
        with pytest.raises(JournalFull, match="No space left"):
            lane.journal.reserve(len(PAYLOAD), HEADROOM_BYTES)
        assert lane.journal.end == end
        assert fill(lane, kept_size=0) == SEGMENT_BYTES // FRAME_SIZE - end // FRAME_SIZE
        assert await lane.durable(lane.journal.end)
        assert not lane.failures

    run(main())


def test_reads_go_on_while_the_disk_is_full() -> None:
    async def main() -> None:
        _, lane = on_a_full_disk()
        count = fill(lane)
        await lane.durable(lane.journal.end)
        batches = stored_batches(lane.journal, 0, 0, count)
        assert [bytes(batch) for batch in batches] == lane.payloads

    run(main())


def test_writes_resume_when_there_is_room_again() -> None:
    async def main() -> None:
        device, lane = on_a_full_disk()
        before = fill(lane)
        device.is_full = False
        for _ in range(100):
            await seeded_loop.elapse(0.01)
            if fill(lane, count_max=200):
                break
        assert len(lane.payloads) == before + 200
        await lane.journal.close()
        assert Remembering(device, SETTINGS).payloads == lane.payloads

    run(main())


def test_a_full_disk_is_asked_again_now_and_then_and_not_at_every_request() -> None:
    async def main() -> None:
        device, lane = on_a_full_disk()
        fill(lane)
        calls = 0
        create = device.create

        def counted(name: str) -> None:
            nonlocal calls
            calls += name == names.PREALLOCATED
            create(name)

        device.create = counted  # type: ignore[method-assign]
        for _ in range(1000):
            await seeded_loop.elapse(0.001)
            with pytest.raises(JournalFull):
                lane.journal.reserve(len(PAYLOAD), HEADROOM_BYTES)
        assert 2 <= calls <= 1000 / SETTINGS.allocation_retry_ms + 1
        assert names.PREALLOCATED not in device.names()

    run(main())


def test_a_disk_that_is_only_slow_refuses_nothing() -> None:
    async def main() -> None:
        lane = Remembering(MemoryDevice(Random(1)), SETTINGS)
        lane.start()
        # All in one tick: no background job has had a chance to end.
        for _ in range(500):
            lane.append(PAYLOAD)
        assert len(lane.journal.segments.bases) > 5
        assert await lane.durable(lane.journal.end)

    run(main())


@pytest.mark.parametrize("size", [SETTINGS.payload_bytes_max, SEGMENT_BYTES, 5 * SEGMENT_BYTES])
def test_a_frame_of_any_size_gets_a_segment_that_it_fits_into(size: int) -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        lane = Remembering(device, SETTINGS)
        lane.start()
        for _ in range(3):
            lane.append(PAYLOAD)
            await lane.durable(lane.append(b"x" * size))
            lane.append(PAYLOAD)
        await lane.durable(lane.journal.end)
        device.power_loss()
        assert Remembering(device, SETTINGS).payloads == lane.payloads

    run(main())


def test_what_must_be_left_may_be_more_than_a_segment() -> None:
    async def main() -> None:
        kept_size = 3 * SEGMENT_BYTES
        device = MemoryDevice(Random(1))
        lane = Remembering(device, SETTINGS)
        lane.start()
        for _ in range(200):
            lane.append(PAYLOAD, kept_size=kept_size)
        device.is_full = True
        fill(lane, kept_size=kept_size)
        with pytest.raises(JournalFull):
            lane.journal.reserve(len(PAYLOAD), kept_size)
        lane.append(b"x" * (kept_size - HEADER_SIZE), kept_size=0)
        assert await lane.durable(lane.journal.end)

    run(main())


def test_the_last_segments_are_as_small_as_the_disk_wants_them() -> None:
    settings = JournalSettings(segment_bytes=16 * SEGMENT_BYTES, headroom_bytes=HEADROOM_BYTES)

    async def main() -> None:
        device = MemoryDevice(Random(1))
        device.capacity_bytes = 5 * settings.segment_bytes + 3 * settings.segment_bytes // 4
        lane = Remembering(device, settings)
        lane.start()
        while fill(lane):
            await seeded_loop.elapse(1)
        segments = [name for name in device.names() if name.endswith(names.SEGMENT)]
        # An older checkpoint goes only when there is a newer one: what it took may be left.
        assert device.free_bytes() < settings.segment_bytes // 8 + settings.ballast_bytes
        assert min(device.size(name) for name in segments) < settings.segment_bytes // 4
        await lane.durable(lane.journal.end)
        device.power_loss()
        again = Remembering(device, settings)
        assert again.payloads == lane.payloads
        again.start()
        assert await again.durable(again.append(b"opened", kept_size=0))

    run(main())


def test_a_segment_that_was_preallocated_is_there_for_the_next_process_on_a_full_disk() -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        lane = Remembering(device, SETTINGS)
        lane.start()
        await seeded_loop.elapse(1)
        device.is_full = True
        # To the last byte of the open segment, since there is the preallocated one.
        fill(lane, count_max=SEGMENT_BYTES // FRAME_SIZE)
        await lane.durable(lane.journal.end)
        assert len(lane.journal.segments.bases) == 1
        for crash in (device.kill, device.power_loss):
            crash()
            again = Remembering(device, SETTINGS)
            assert again.payloads == lane.payloads
        again.start()
        again.append(b"x" * SETTINGS.payload_bytes_max)
        assert await again.durable(again.journal.end)

    run(main())


@pytest.mark.parametrize("kept_size", [500, 3_000, SEGMENT_BYTES + 4_000])
def test_what_must_be_left_is_there_after_any_crash_on_a_full_disk(kept_size: int) -> None:
    for seed in range(150):
        room_outlives_crashes(seed, kept_size)


def room_outlives_crashes(seed: int, kept_size: int) -> None:
    """Also if the next process dies while it opens, and the power may go each time."""
    rng = Random(f"room {seed}")

    async def main() -> None:
        device = MemoryDevice(rng)
        crashes = (device.kill, device.power_loss)
        lane = Remembering(device, SETTINGS)
        lane.start()
        full_from = rng.randrange(60)
        for number in range(rng.randrange(1, 90)):
            device.is_full = number >= full_from
            with contextlib.suppress(JournalFull):
                lane.append(b"p" * rng.randrange(1, 900), kept_size=kept_size)
            if rng.random() < 0.3:
                await seeded_loop.elapse(rng.uniform(0, 0.003))
        device.is_full = True
        rng.choice(crashes)()
        for _ in range(rng.randrange(4)):
            device.calls_left = rng.randrange(13)
            with contextlib.suppress(Killed):
                Remembering(device, SETTINGS)
            rng.choice(crashes)()
        again = Remembering(device, SETTINGS)
        again.start()
        if again.payloads:  # What was taken left that room.
            assert await again.durable(again.append(b"x" * (kept_size - HEADER_SIZE), kept_size=0))

    seeded_loop.run(rng, main())


def test_a_full_disk_is_told_once_when_it_comes_and_once_when_it_goes() -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        lane = Remembering(device, SETTINGS)
        lane.start()
        await seeded_loop.elapse(1)
        device.is_full = True
        lane.warnings.clear()
        fill(lane)
        for _ in range(50):
            await seeded_loop.elapse(0.1)
            fill(lane)
        told = [warning for warning in lane.warnings if "checkpoint" not in warning]
        assert [warning.split(":")[0] for warning in told] == [
            "the disk has no room for a whole segment of the journal",
            "writes are refused until the disk has room",
        ]
        assert lane.journal.segments.refused_count == 51
        device.is_full = False
        lane.warnings.clear()
        await seeded_loop.elapse(1)
        lane.journal.segments.preallocate()
        await seeded_loop.elapse(1)
        assert [warning.split(":")[0] for warning in lane.warnings] == ["writes are taken again"]

    run(main())


def test_a_checkpoint_that_finds_no_room_is_a_warning_and_is_made_at_a_later_roll() -> None:
    async def main() -> None:
        device = MemoryDevice(Random(1))
        lane = Remembering(device, SETTINGS)
        lane.start()
        await seeded_loop.elapse(0.1)
        device.is_full = True
        fill(lane)
        await seeded_loop.elapse(1)
        assert lane.warnings
        assert not lane.failures
        assert not names.positions(device.names(), names.CHECKPOINT)
        device.is_full = False
        for _ in range(3):
            await seeded_loop.elapse(1)
            fill(lane, count_max=100)
        await lane.durable(lane.journal.end)
        await seeded_loop.elapse(1)
        device.kill()
        after = Remembering(device, SETTINGS)
        assert after.checkpoint_count > 0
        assert after.payloads == lane.payloads

    run(main())


def test_a_full_disk_can_be_opened_and_closed() -> None:
    async def main() -> None:
        device, lane = on_a_full_disk()
        fill(lane)
        for _ in range(3):
            await lane.journal.close()
            lane_again = Remembering(device, SETTINGS)
            assert lane_again.payloads == lane.payloads
            lane = lane_again
            lane.start()
            assert await lane.durable(lane.append(b"opened", kept_size=0))

    run(main())


def test_settings_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ConfigError):
        JournalSettings(segment_bytes=100)
    with pytest.raises(ConfigError):
        JournalSettings(segment_bytes=8192, headroom_bytes=8192)
