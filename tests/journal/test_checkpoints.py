"""Rule 8: a start replays only what follows the newest checkpoint that can be trusted."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest

from journal.short_lives import FRAME_SIZE, PAYLOAD, device_of, live, reopen
from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.device import Done
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.memory_file import MemoryFile
from semel.journal.file.settings import JournalSettings
from support import seeded_loop
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


class SlowToSync(MemoryDevice):
    """Nothing that the journal asks to be synced is, until it is let go."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.held: list[Callable[[], None]] = []

    def submit_sync(self, files: Sequence[str], folder: bool, on_done: Done) -> None:
        self.held.append(partial(super().submit_sync, files, folder, on_done))


def test_a_checkpoint_waits_until_the_frames_before_it_are_durable() -> None:
    async def main() -> None:
        device = SlowToSync()
        lane = Remembering(device)
        lane.start()
        for _ in range(100):
            lane.append(PAYLOAD)
        await seeded_loop.elapse(1)
        assert checkpoints_of(device) == []
        while device.held:
            device.held.pop()()
            await seeded_loop.elapse(1)
        assert len(checkpoints_of(device)) == 1

    seeded_loop.run(Random(1), main())


# Snapshots that take their time.


async def roll(lane: Remembering) -> None:
    """Append until the journal has rolled."""
    count = len(lane.journal.segments.bases)
    while len(lane.journal.segments.bases) == count:
        await lane.durable(lane.append(PAYLOAD))


def test_frames_go_on_while_a_snapshot_is_taken_and_are_not_in_it() -> None:
    async def main() -> None:
        device = device_of()
        lane = Remembering(device)
        lane.payloads_per_piece = 1
        lane.start()
        await roll(lane)
        at_the_start = len(lane.payloads) - 1
        more = [lane.append(b"%d" % number) for number in range(20)]
        await lane.durable(more[-1])
        assert checkpoints_of(device) == []
        await seeded_loop.elapse(1)
        device.kill()
        after = reopen(device)
        assert after.checkpoint_count == at_the_start
        assert after.payloads == lane.payloads

    seeded_loop.run(Random(1), main())


def test_a_roll_that_finds_a_snapshot_under_way_lets_it_end_and_is_next() -> None:
    async def main() -> None:
        device = device_of()
        lane = Remembering(device)
        lane.payloads_per_piece = 1
        lane.start()
        for _ in range(300):
            lane.append(PAYLOAD)
        assert len(lane.journal.segments.bases) == 5
        await seeded_loop.elapse(2)
        # The first was not given up, and one more was taken for all the rolls behind it.
        assert checkpoints_of(device) == [lane.journal.segments.bases[1], lane.journal.end]
        device.kill()
        assert reopen(device).payloads == lane.payloads

    seeded_loop.run(Random(1), main())


def test_what_a_start_has_to_replay_stays_bounded_however_long_the_load_lasts() -> None:
    """A snapshot gets a turn for each tick of the loop, so that no load can hold it up."""

    async def main() -> None:
        device = device_of()
        lane = Remembering(device)
        lane.payloads_per_piece = 5
        lane.start()
        for _ in range(40):
            await roll(lane)
        device.kill()
        after = reopen(device)
        behind = len(after.payloads) - after.checkpoint_count
        # Two snapshots of as many pieces, and what was not yet published.
        assert behind <= 3 * len(after.payloads) // 5

    seeded_loop.run(Random(1), main())


def test_a_clean_stop_takes_the_snapshot_to_its_end() -> None:
    async def main() -> None:
        device = device_of()
        lane = Remembering(device)
        lane.payloads_per_piece = 1
        lane.start()
        await roll(lane)
        lane.append(b"last")
        await lane.journal.close()
        after = reopen(device)
        assert after.checkpoint_count == len(lane.payloads) == len(after.payloads)

    seeded_loop.run(Random(1), main())


def test_a_snapshot_that_fails_is_a_warning_and_the_next_is_taken() -> None:
    async def main() -> None:
        device = device_of()
        lane = Remembering(device)
        lane.start()
        lane.payloads_per_piece = 0
        await roll(lane)
        await seeded_loop.elapse(1)
        assert len(lane.warnings) == 1
        assert not lane.failures
        lane.payloads_per_piece = 10
        await lane.journal.close()
        assert reopen(device).checkpoint_count == len(lane.payloads)

    seeded_loop.run(Random(1), main())


class Forgetful(MemoryDevice):
    """Keeps something else than it was given of the checkpoints that it is to spoil."""

    spoils = False

    def sync(self, name: str) -> None:
        super().sync(name)
        if self.spoils and names.CHECKPOINT in name:
            self.flip_bit(name, self.size(name) // 2)


def test_a_checkpoint_that_the_disk_does_not_give_back_takes_the_place_of_none() -> None:
    async def main() -> None:
        device = Forgetful(Random(1))
        lane = Remembering(device)
        lane.start()
        for _ in range(2):
            await roll(lane)
            await lane.journal.checkpoint_now()
        kept = checkpoints_of(device)
        assert len(kept) == 2
        device.spoils = True
        await roll(lane)
        await lane.journal.checkpoint_now()
        assert checkpoints_of(device) == kept
        assert all("does not give back" in warning for warning in lane.warnings)
        assert lane.warnings
        # What those that are kept do not need may go, and no more.
        lane.journal.release_before(lane.journal.end)
        assert lane.journal.segments.bases[0] <= kept[0]
        device.spoils = False
        await roll(lane)
        await lane.journal.checkpoint_now()
        assert checkpoints_of(device)[-1] > kept[-1]
        await lane.journal.close()
        assert reopen(device).payloads == lane.payloads

    seeded_loop.run(Random(1), main())


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_crash_at_any_moment_of_a_checkpoint_loses_nothing(power: bool) -> None:
    seen = set()
    for moment in range(90):
        device = device_of(moment)

        async def main(device: MemoryDevice = device, moment: int = moment) -> Remembering:
            lane = Remembering(device)
            lane.payloads_per_piece = 3
            lane.start()
            await roll(lane)
            for _ in range(moment):
                await seeded_loop.elapse(0.0005)
            await lane.durable(lane.append(b"last"))
            return lane

        lane = seeded_loop.run(Random(moment), main())
        if power:
            device.power_loss()
        else:
            device.kill()
        after = reopen(device)
        assert after.payloads == lane.payloads
        batches = stored_batches(after.journal, 0, 0, len(after.payloads))
        assert [bytes(batch) for batch in batches] == lane.payloads
        seen.add(after.checkpoint_count > 0)
    assert seen == {False, True}


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


def test_a_checkpoint_without_one_of_its_indexes_is_not_used() -> None:
    device = device_of()
    before = long_life(device)
    device.remove(names.index(0))
    after = Remembering(device)
    assert after.checkpoint_count == 0
    assert after.payloads == before.payloads
    batches = stored_batches(after.journal, 0, 0, len(after.payloads))
    assert [bytes(batch) for batch in batches] == before.payloads


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "zeroed", "another"])
def test_a_damaged_index_is_named_when_it_is_read_and_built_again_without_the_file(
    damage: str,
) -> None:
    device = device_of()
    before = long_life(device)
    name = names.index(0)
    size = device.size(name)
    if damage == "flipped":
        device.flip_bit(name, size - 1)
    elif damage == "cut":
        device.truncate(name, size - 1)
    elif damage == "emptied":
        device.truncate(name, 0)
    elif damage == "zeroed":
        device.write(name, 0, [bytes(size)])
    else:
        another = names.index(before.journal.segments.bases[1])
        device.create(name)
        device.write(name, 0, [device.read(another, 0, device.size(another))])
    after = Remembering(device)
    assert after.checkpoint_count == len(before.payloads)
    with pytest.raises(CorruptJournal, match=f"{name}.*without the file, a start builds it again"):
        after.journal.index.find(0, 0)
    device.stop()
    device.remove(name)
    mended = Remembering(device)
    assert mended.payloads == before.payloads
    batches = stored_batches(mended.journal, 0, 0, len(before.payloads))
    assert [bytes(batch) for batch in batches] == before.payloads


def test_a_start_opens_no_index_of_a_sealed_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of()
    long_life(device)
    touched: list[str] = []
    file = device._file

    def touch(name: str) -> MemoryFile:
        touched.append(name)
        return file(name)

    monkeypatch.setattr(device, "_file", touch)
    reopen(device)
    assert touched
    assert not [name for name in touched if name.endswith(names.INDEX)]


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
