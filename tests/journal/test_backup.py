"""A copy of a folder that is written to meanwhile: what a backup promises, and what a plain copy
does not."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from journal.short_lives import PAYLOAD, device_of, live, reopen
from journal.test_check import checked, files_of
from semel.errors import ConfigError, CorruptJournal, NewerFormat
from semel.journal import names
from semel.journal.file import note
from semel.journal.file.backup import Backup, back_up
from semel.journal.file.disk import FileDevice
from semel.journal.file.walk import search_behind
from semel.types import Position
from support import seeded_loop
from support.journal_world import SETTINGS, Remembering, payload_of

SEEDS = 30


class NoVolumes:
    """Payloads that nobody knows name none."""

    def snapshot(self, stored: bytes) -> None:
        pass

    def frame(self, payload: memoryview, position: int) -> None:
        pass

    def numbers(self) -> set[int]:
        return set()


class Load:
    """A journal that is written to between any two steps of a copy."""

    def __init__(self, seed: int, *, releases: bool, count: int | None = None) -> None:
        self.device = device_of(seed)
        self.target = device_of(seed + 1000)
        self.rng = Random(seed)
        self._releases = releases
        self._count = self.rng.choice((1, 100, 300)) if count is None else count
        self._lane: Remembering
        self.payloads: list[bytes] = []
        """All that were ever appended."""
        self.promised = 0
        """Those of them that were durable before the copy was begun."""

    def run(self, copy: Iterator[None]) -> None:
        """Take its steps."""

        async def main() -> None:
            lane = self._lane = Remembering(self.device)
            lane.start()
            for _ in range(self._count):
                self._append()
                await seeded_loop.elapse(0.001)
            await lane.durable(lane.journal.end)
            self.promised = len(lane.payloads)
            for _ in copy:
                await self._go_on()

        try:
            seeded_loop.run(self.rng, main())
        finally:
            self.payloads = self._lane.payloads
            self.device.kill()

    def _append(self) -> None:
        self._lane.append(payload_of(self.rng, len(self._lane.payloads)))

    async def _go_on(self) -> None:
        for _ in range(self.rng.choice((0, 1, 5, 40))):
            self._append()
            await seeded_loop.elapse(self.rng.choice((0, 0.0005, 0.005)))
        if self._releases and self.rng.random() < 0.3:
            self._lane.journal.release_before(Position(self._lane.journal.durable))
            await seeded_loop.elapse(0.05)


def is_prefix(found: list[bytes], load: Load) -> bool:
    return load.promised <= len(found) and found == load.payloads[: len(found)]


# What a backup promises


@pytest.mark.parametrize("releases", [False, True])
def test_a_backup_under_load_is_whole_and_has_all_that_was_durable_when_it_was_begun(
    releases: bool,
) -> None:
    grown = 0
    for seed in range(SEEDS):
        load = Load(seed, releases=releases)
        load.run(Backup(load.device, load.target, NoVolumes).make())
        assert checked(load.target) == []
        copy = reopen(load.target)
        assert is_prefix(copy.payloads, load)
        assert copy.journal.may_miss_acknowledged
        grown += len(load.payloads) > load.promised
        assert is_prefix(reopen(load.device).payloads, load)
    assert grown > SEEDS / 2


def test_segments_that_are_given_up_meanwhile_are_left_out() -> None:
    """All of them but the last, when the first is copied."""
    load = Load(5, releases=False, count=300)
    backup = Backup(load.device, load.target, NoVolumes)

    def steps() -> Iterator[None]:
        for number, _ in enumerate(backup.make()):
            if number == 3:
                load._lane.journal.release_before(Position(2**40))
            yield

    load.run(steps())
    found = note.read(load.target)
    assert found is not None
    assert found.note.released > 0
    assert names.positions(load.target.names(), names.SEGMENT)[0] == found.note.released
    assert checked(load.target) == []
    assert is_prefix(reopen(load.target).payloads, load)


def test_a_backup_of_a_stopped_folder_goes_on_as_the_folder_would() -> None:
    source, target = device_of(), device_of(2)
    live(source, 300, durable=True, close=True)
    before = files_of(source)
    for _ in Backup(source, target, NoVolumes).make():
        pass
    assert files_of(source) == before
    live(target, 10, durable=True, close=True)
    assert reopen(target).payloads == [PAYLOAD] * 310


@pytest.mark.parametrize("place", [0, 1, -1])
def test_damage_is_not_backed_up(place: int) -> None:
    """In a segment that a start reads, or in one that it does not."""
    source, target = device_of(), device_of(2)
    live(source, 300, durable=True)
    base = names.positions(source.names(), names.SEGMENT)[place]
    source.flip_bit(names.segment(base), 200)
    with pytest.raises(CorruptJournal, match=rf"{names.segment(base)}, byte .* no backup"):
        for _ in Backup(source, target, NoVolumes).make():
            pass


def test_an_unfinished_write_is_left_out() -> None:
    source, target = device_of(), device_of(2)
    live(source, 3, durable=True)
    live(source, 1, durable=False)
    source.flip_bit(names.segment(0), 3 * 132 + 40)
    for _ in Backup(source, target, NoVolumes).make():
        pass
    assert reopen(target).payloads == [PAYLOAD] * 3


def test_a_target_that_is_there_and_a_folder_of_a_newer_version_are_refused(
    tmp_path: Path,
) -> None:
    source = tmp_path / "data"
    source.mkdir()
    with pytest.raises(ConfigError, match="is no data folder"):
        back_up(source, tmp_path / "copy", NoVolumes, lambda done: None)
    (source / names.FORMAT).write_text("format 99\n")
    with pytest.raises(NewerFormat):
        back_up(source, tmp_path / "copy", NoVolumes, lambda done: None)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / "copy").mkdir()
    with pytest.raises(ConfigError, match="copy is there already"):
        back_up(source, tmp_path / "copy", NoVolumes, lambda done: None)


# What a plain copy does not


def plain_copy(load: Load, piece_size: int) -> Iterator[None]:
    """As `cp -r` does it: the names at first, then file by file, piece by piece."""
    found = load.device.names()
    load.rng.shuffle(found)
    for name in found:
        load.target.create(name)
        offset = 0
        while True:
            try:
                piece = load.device.read(name, offset, piece_size)
            except FileNotFoundError:
                break
            if not piece:
                break
            load.target.write(name, offset, [piece])
            offset += len(piece)
            yield


def test_a_plain_copy_that_the_check_calls_whole_has_all_that_was_durable_when_it_was_begun() -> (
    None
):
    whole = opened = 0
    for seed in range(4 * SEEDS):
        load = Load(seed, releases=seed % 2 == 0)
        load.run(plain_copy(load, 3000))
        is_whole = not any(finding.is_damage for finding in checked(load.target))
        try:
            found = reopen(load.target)
        except CorruptJournal:
            assert not is_whole
            continue
        opened += 1
        if is_whole:
            whole += 1
            assert is_prefix(found.payloads, load)
    # Most are of no use, and some of these open all the same: hence the check, and the backup.
    assert 0 < whole < opened < 4 * SEEDS


def test_a_backup_is_a_folder_of_its_own_on_a_real_disk(tmp_path: Path) -> None:
    async def main() -> None:
        lane = Remembering(FileDevice(tmp_path / "data"), SETTINGS)
        lane.start()
        for _ in range(300):
            await lane.durable(lane.append(PAYLOAD))
        made = back_up(tmp_path / "data", tmp_path / "copy", NoVolumes, lambda done: None)
        assert made.end == lane.journal.end
        await lane.journal.close()

    asyncio.run(main())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]
    device = FileDevice(tmp_path / "copy")
    copy = Remembering(device, SETTINGS)
    device.stop()
    assert copy.payloads == [PAYLOAD] * 300
    assert copy.journal.may_miss_acknowledged


class Sealing(FileDevice):
    """Its segment is sealed while somebody looks for what it holds."""

    def next_data(self, name: str, offset: int) -> int:
        self.truncate(name, 100)
        return super().next_data(name, offset)


def test_a_segment_that_is_cut_to_its_size_meanwhile_has_nothing_more(tmp_path: Path) -> None:
    device = Sealing(tmp_path)
    (tmp_path / names.segment(0)).write_bytes(bytes(50_000))
    assert search_behind(device, [0], 200) == (True, 0, 0)
