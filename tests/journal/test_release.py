"""What the file driver forgets: whole segments behind both checkpoints, through any crash."""

from functools import partial
from random import Random

import pytest

from journal.short_lives import PAYLOAD, device_of, live, reopen
from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.memory import MemoryDevice
from semel.types import Position
from support import seeded_loop
from support.journal_world import Remembering, stored_batches

COUNT = 300


def segments_of(device: MemoryDevice) -> list[int]:
    return names.positions(device.names(), names.SEGMENT)


def indexes_of(device: MemoryDevice) -> list[int]:
    return names.positions(device.names(), names.INDEX)


def checkpoints_of(device: MemoryDevice) -> list[int]:
    return names.positions(device.names(), names.CHECKPOINT)


def with_segments(seed: int = 1) -> MemoryDevice:
    """Several, and two checkpoints: the older at the last roll, the newer at the end."""
    device = device_of(seed)
    live(device, COUNT, durable=True, close=True)
    assert len(segments_of(device)) > 4
    return device


def release(device: MemoryDevice, position: int, wait_s: float = 1) -> Remembering:
    async def main() -> Remembering:
        lane = Remembering(device)
        lane.start()
        lane.journal.release_before(Position(position))
        await seeded_loop.elapse(wait_s)
        return lane

    return seeded_loop.run(Random(2), main())


def readable_from(lane: Remembering) -> int:
    """The first offset whose batch lies in a segment that is kept."""
    first = lane.journal.segments.bases[0]
    rows = (lane.journal.index.find(0, offset) for offset in range(COUNT))
    return next(row.base_offset for row in rows if row is not None and row.position >= first)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_segments_that_end_at_or_before_the_position_are_unlinked_with_their_indexes(
    place: int,
) -> None:
    device = with_segments()
    bases = segments_of(device)
    release(device, bases[place] + 10)
    assert segments_of(device) == bases[place:]
    assert indexes_of(device) == bases[place:-1]
    device.kill()
    after = reopen(device)
    assert after.payloads == [PAYLOAD] * COUNT
    assert list(after.journal.segments.bases) == bases[place:]


def test_what_the_older_checkpoint_may_have_to_replay_is_kept() -> None:
    device = with_segments()
    bases, (older, newer) = segments_of(device), checkpoints_of(device)
    lane = release(device, newer)
    assert lane.journal.segments.bases[0] == max(base for base in bases if base <= older)
    device.kill()
    device.flip_bit(names.checkpoint(newer), 60)
    assert reopen(device).payloads == [PAYLOAD] * COUNT


def test_with_one_checkpoint_alone_nothing_is_given_up() -> None:
    device = with_segments()
    bases = segments_of(device)
    device.remove(names.checkpoint(checkpoints_of(device)[0]))
    release(device, 2**40)
    assert segments_of(device) == bases


def test_nothing_is_given_up_while_acknowledged_bytes_may_be_missing() -> None:
    device = with_segments()
    bases = segments_of(device)
    device.power_loss()
    release(device, 2**40)
    assert segments_of(device) == bases


def test_what_is_kept_is_read_and_what_is_given_up_is_not() -> None:
    device = with_segments()
    ((position, size),) = reopen(device).journal.index.extents(0, 0, 1, 1)
    for open_again in (partial(release, position=2**40), reopen):
        lane = open_again(device)
        first = readable_from(lane)
        assert 0 < first < COUNT
        batches = stored_batches(lane.journal, 0, first, COUNT)
        assert [bytes(batch) for batch in batches] == [PAYLOAD] * (COUNT - first)
        with pytest.raises(FileNotFoundError, match="given up"):
            lane.journal.read_now([(position, size)])
        device.kill()


def test_a_journal_goes_on_and_gives_up_more() -> None:
    device = with_segments()
    release(device, 2**40)
    device.kill()
    live(device, COUNT, durable=True, close=True)
    before = segments_of(device)
    release(device, 2**40)
    assert segments_of(device)[0] > before[0]
    device.kill()
    assert reopen(device).payloads == [PAYLOAD] * 2 * COUNT


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_crash_at_any_moment_is_no_damage(power: bool) -> None:
    left = set()
    for moment in range(60):
        device = with_segments(moment)
        bases = segments_of(device)
        release(device, 2**40, wait_s=moment * 0.0003)
        if power:
            device.power_loss()
        else:
            device.kill()
        left.add(len(segments_of(device)))
        for _ in range(2):
            after = reopen(device)
            assert after.payloads == [PAYLOAD] * COUNT
            # Either none is given up, or a start ends what was begun.
            kept = list(after.journal.segments.bases)
            assert kept in (bases, bases[-len(kept) :])
            assert (segments_of(device), indexes_of(device)) == (kept, kept[:-1])
            first = readable_from(after)
            batches = stored_batches(after.journal, 0, first, COUNT)
            assert [bytes(batch) for batch in batches] == [PAYLOAD] * (COUNT - first)
    assert len(left) > 2, "no crash came between two files"


@pytest.mark.parametrize("name", [names.segment(0), names.index(0)])
def test_a_file_that_outlived_the_other_of_its_segment_goes_at_the_next_start(name: str) -> None:
    """A power loss may keep the one and take the other, whichever was unlinked first."""
    device = with_segments()
    release(device, 2**40)
    device.kill()
    device.create(name)
    assert reopen(device).payloads == [PAYLOAD] * COUNT
    assert name not in device.names()


def test_without_a_checkpoint_the_rest_is_of_no_use_and_that_is_said() -> None:
    device = with_segments()
    release(device, 2**40)
    device.kill()
    first = segments_of(device)[0]
    for position in checkpoints_of(device):
        device.flip_bit(names.checkpoint(position), 60)
    with pytest.raises(CorruptJournal, match=f"before byte {first} .* was given up"):
        reopen(device)


def test_a_missing_segment_that_was_not_given_up_is_damage() -> None:
    device = with_segments()
    release(device, 2**40)
    device.kill()
    first = segments_of(device)[0]
    device.remove(names.segment(first))
    with pytest.raises(CorruptJournal, match=f"{names.segment(first)} is missing"):
        reopen(device)
