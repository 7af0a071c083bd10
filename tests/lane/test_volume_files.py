"""Volumes in the hands of who reads a folder without opening it: checked, copied, missed."""

import asyncio
import re
from functools import cache
from random import Random

import pytest

from journal.test_check import Files, device_with, files_of
from lane.test_compacting import Compacted, World
from semel.cli.frame_format import frame_as_json, frame_in_words
from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file import backup, checkpoints
from semel.journal.file.backup import Backup
from semel.journal.file.check import REFUSED, Finding, Folder, check
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.survey import Gap
from semel.lane.check import LaneExaminer
from semel.lane.dump import ShownBatch, ShownVolume, dump
from semel.lane.named_volumes import NamedVolumes
from semel.lane.partition_names import restored
from semel.lane.topics import DeleteTopic
from support.seeded_loop import elapse, run

STEP = 499


def checked(device: MemoryDevice) -> list[Finding]:
    return list(check(Folder(device, LaneExaminer(), lambda done, total: None)))


def volumes_in(device: MemoryDevice) -> set[int]:
    found = device.names()
    data = set(names.positions(found, names.VOLUME))
    assert data == set(names.positions(found, names.VOLUME_INDEX))
    return data


@cache
def stopped() -> Files:
    """With volumes of both kinds, those that settling has made and those of compaction."""

    async def live() -> Files:
        device = MemoryDevice(Random(1))
        world = World(device, 1)
        await world.start()
        while not (world.lane._state.volumes and world.lane._state.compacted_volumes):
            await world.change(250)
            await world.tidy()
        await world.lane.close()
        return files_of(device)

    return run(Random(1), live())


def start(device: MemoryDevice) -> None:
    async def live() -> None:
        world = World(device, 2)
        await world.start()
        await world.lane.close()

    try:
        run(Random(2), live())
    finally:
        device.kill()


# Checking


def test_a_folder_with_volumes_is_whole() -> None:
    device = device_with(stopped())
    folder = Folder(device, LaneExaminer(), lambda done, total: None)
    assert list(check(folder)) == []
    assert folder.counts["volumes"] == len(volumes_in(device)) >= 2
    assert folder.counts["batches in volumes"] > 100


def test_each_flipped_bit_of_a_volume_is_found_and_said_to_be_there() -> None:
    files = stopped()
    meanings = set()
    for name, content in files.items():
        if not name.endswith((names.VOLUME, names.VOLUME_INDEX)):
            continue
        for byte in range(0, len(content), STEP):
            if name.endswith(names.VOLUME) and is_leader_epoch(content, byte):
                continue
            device = device_with(files)
            device.flip_bit(name, byte, 2)
            findings = checked(device)
            assert {finding.file for finding in findings} == {name}, (name, byte)
            assert all(finding.is_damage for finding in findings)
            meanings |= {(name.rpartition(".")[2], finding.meaning) for finding in findings}
    assert any("gets an error; it is lost unless" in meaning for _, meaning in meanings)
    assert all("backup" in meaning for _, meaning in meanings)


def is_leader_epoch(content: bytes, byte: int) -> bool:
    """No checksum covers these four bytes of a batch: a broker writes them behind its back."""
    start = 0
    while True:
        size = int.from_bytes(content[start + 8 : start + 12], "big") + 12
        if byte < start + size:
            return 12 <= byte - start < 16
        start += size


def test_without_a_file_of_a_volume_a_start_is_refused_as_the_check_says() -> None:
    files = stopped()
    for name in [name for name in files if ".volume" in name]:
        device = device_with({other: files[other] for other in files if other != name})
        (finding,) = checked(device)
        assert (finding.file, finding.what, finding.meaning) == (name, "it is missing", REFUSED)
        with pytest.raises(CorruptJournal, match=rf"{name} is missing.*from a backup"):
            start(device)


def test_a_volume_that_nothing_names_is_no_damage_and_the_next_start_removes_it() -> None:
    files = stopped()
    number = max(names.positions(list(files), names.VOLUME))
    orphan = {names.volume(99): b"half", names.volume_index(99): files[names.volume_index(number)]}
    device = device_with({**files, **orphan})
    (finding,) = checked(device)
    assert (finding.file, finding.is_damage) == (names.volume(99), False)
    assert finding.meaning == "the next start removes it"
    start(device)
    assert not orphan.keys() & set(device.names())


def test_what_lies_in_volumes_is_not_called_lost_with_a_frame_of_the_journal() -> None:
    """The frame is of a segment that was settled, or of one behind; neither has what is older."""
    files = stopped()
    device = device_with(files)
    first = names.positions(list(files), names.SEGMENT)[0]
    device.flip_bit(names.segment(first), 2_000)
    missing = [finding.what for finding in checked(device) if not finding.file]
    assert not [what for what in missing if "misses offsets 0 to" in what]


# Showing


def test_the_batches_of_a_partition_are_shown_in_volumes_as_well() -> None:
    device = device_with(stopped())
    shown = list(dump(device, 0, "c-0"))
    volumes = {each.number for each in shown if isinstance(each, ShownVolume)}
    assert volumes
    assert volumes <= volumes_in(device)
    first = next(each for each in shown if isinstance(each, ShownVolume))
    assert first.entries[0].partition == "c-0"
    assert first.entries[0].records() or first.entries[0].marker
    assert next(iter(frame_in_words(first, records=False))) == f"volume {first.number}"
    assert frame_as_json(first, records=True)["volume"] == first.number
    offsets = {
        offset
        for each in shown
        if not isinstance(each, Gap)
        for batch in each.entries
        if isinstance(batch, ShownBatch)
        for offset in range(batch.header.base_offset, batch.header.last_offset + 1)
    }
    behind = [each for each in dump(device, 1, "c-0") if isinstance(each, ShownVolume)]
    assert not behind
    assert max(offsets) + 1 == log_end_offset()


def log_end_offset() -> int:
    """Of "c", as the newest checkpoint tells."""
    device = device_with(stopped())
    position = names.positions(device.names(), names.CHECKPOINT)[-1]
    stored = checkpoints.read(device, position)
    assert stored is not None
    partition = restored(stored.state[0]).partition("c", 0)
    assert partition is not None
    return partition.log_end_offset


def test_the_facts_of_settling_and_compaction_are_shown_to_be_read() -> None:
    said: list[str] = []

    def look(device: MemoryDevice) -> None:
        for shown in dump(device, 0, None):
            said.extend(frame_in_words(shown, records=False))

    async def live() -> None:
        device = MemoryDevice(Random(4))
        world = World(device, 4)
        await world.start()
        look(device)
        while not (world.lane._state.volumes and world.lane._state.compacted_volumes):
            await world.change(250)
            await world.tidy()
            look(device)
        await world.lane.close()

    run(Random(4), live())
    assert "  fact RetentionEnforced" in said
    settled = next(line for line in said if "Settled" in line)
    assert re.fullmatch(r"  fact Settled: added \[\d+\], replaced \[.*\], end \d+", settled)
    at = next(number for number, line in enumerate(said) if "Compacted" in line)
    assert re.fullmatch(r"  fact Compacted: volume \d+", said[at])
    assert re.fullmatch(r"    [cd]-0 up to offset \d+: \d+ bytes are left", said[at + 1])


# Copying


@pytest.mark.parametrize("seed", range(6))
def test_a_backup_while_volumes_are_made_and_replaced_has_those_that_it_needs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[set[int]] = []
    plan = backup._plan

    def counted(*arguments: object) -> backup.CopyPlan:
        made = plan(*arguments)  # type: ignore[arg-type]  # As it was called.
        plans.append(made.volumes)
        return made

    monkeypatch.setattr(backup, "_plan", counted)

    async def live() -> None:
        device, target = MemoryDevice(Random(seed)), MemoryDevice(Random(seed + 100))
        world = World(device, seed)
        await world.start()
        for _ in range(3):
            await world.change(250)
            await world.tidy()
        promised = list(world.written["c"])

        async def go_on() -> None:
            while True:
                await world.change(120)
                await world.tidy()

        going_on = asyncio.ensure_future(go_on())
        for _ in Backup(device, target, NamedVolumes).make():
            await elapse(world.rng.choice((0, 0.003, 0.03)))
        assert not going_on.done()
        going_on.cancel()
        device.kill()

        assert [finding for finding in checked(target) if finding.is_damage] == []
        assert volumes_in(target) == plans[-1]
        copy = World(target, seed)
        await copy.start()
        written = world.written["c"]
        found = await copy.committed("c")
        assert set(found) <= set(written)
        last = {key: offset for offset, key, _ in found}
        deleted = {key: offset for offset, key, value in written if value is None}
        for offset, key, value in promised:
            assert value is None or last.get(key, -1) >= offset or deleted[key] > offset
        await copy.lane.close()

    run(Random(seed), live())
    assert plans[-1]
    if seed == 0:
        assert len(plans) > 1, "no file went away while it was copied"


def test_a_backup_has_the_volumes_that_are_named_behind_the_newest_checkpoint() -> None:
    async def live() -> tuple[MemoryDevice, set[int]]:
        device = MemoryDevice(Random(7))
        world = World(device, 7)
        await world.start()
        await world.change(700)
        await world.tidy()
        await world.change(200)
        await world.lane.compacting.round(Compacted(("c",)))
        named = world.lane._state.named_volumes()
        device.kill()
        return device, named

    device, named = run(Random(7), live())
    newest = checkpoints.read(device, names.positions(device.names(), names.CHECKPOINT)[-1])
    assert newest is not None
    assert restored(newest.state[0]).named_volumes() != named, "there is nothing to be missed"
    target = MemoryDevice(Random(8))
    for _ in Backup(device, target, NamedVolumes).make():
        pass
    assert volumes_in(target) == named
    assert checked(target) == []
    start(target)


def fail(warning: str) -> None:
    raise AssertionError(warning)


def test_what_compaction_left_of_a_deleted_topic_is_asked_for_by_nobody() -> None:
    async def live() -> MemoryDevice:
        device = MemoryDevice(Random(9))
        world = World(device, 9)
        await world.start()
        state, view = world.lane._state, world.lane.view
        await world.change(900)
        for topic in ("c", "d"):
            await world.lane.compacting.round(Compacted((topic,)))
        of_d = state.compacted[view.partition("d", 0).number].volume
        world.lane.submit(DeleteTopic("d"))
        await world.lane.settling.round(fail)
        assert of_d not in volumes_in(device)
        device.kill()
        return device

    device = run(Random(9), live())
    target = MemoryDevice(Random(8))
    for _ in Backup(device, target, NamedVolumes).make():
        pass
    for each in (device, target):
        assert [finding for finding in checked(each) if finding.is_damage] == []
        start(each)


def test_a_damaged_volume_is_not_backed_up() -> None:
    files = stopped()
    for suffix in (names.VOLUME, names.VOLUME_INDEX):
        name = next(name for name in files if name.endswith(suffix))
        device = device_with(files)
        device.flip_bit(name, len(files[name]) - 10)
        with pytest.raises(CorruptJournal, match=rf"{name}.* no backup"):
            for _ in Backup(device, MemoryDevice(Random(3)), NamedVolumes).make():
                pass
