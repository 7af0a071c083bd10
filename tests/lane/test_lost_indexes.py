"""An index file that is lost is built again from its segment, and tells the same as before."""

from random import Random
from typing import NamedTuple

import pytest

from journal.test_check import Files, device_with, files_of
from lane.test_compacting import SEGMENT_BYTES, World
from lane.test_volume_files import checked, start
from semel.broker.leading import volumes_on
from semel.errors import CorruptJournal
from semel.groups.settings import GroupSettings
from semel.journal import names
from semel.journal.file import checkpoints
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.journal.index_files import read_index
from semel.lane.commands import LaneSettings
from semel.lane.contents import CONTENTS
from semel.lane.lane import Lane
from semel.lane.partition_names import restored
from semel.lane.producing import ProduceInTransaction
from semel.lane.topics import DeleteExpired
from semel.lane.transactions import Transact
from semel.records.records import encode_batch
from semel.transactions.commands import End, InitProducer
from semel.transactions.dialect import Dialect
from semel.types import Offset, TransactionalId
from support.handled import LoopClock, SeededRandomness
from support.seeded_loop import run


class LongTransactions(World):
    """Some end only when the segment is full in which they were begun."""

    async def unsettled(self) -> None:
        """A lane that leaves its segments as they are."""
        settings = JournalSettings(segment_bytes=SEGMENT_BYTES)
        journal = FileJournal.open(self.device, settings, CONTENTS)
        randomness = SeededRandomness(self.rng)
        lane_settings = LaneSettings(GroupSettings())
        self.lane = Lane(
            journal, lane_settings, LoopClock(), randomness, volumes=volumes_on(self.device)
        )

        def fail(error: BaseException) -> None:
            raise error

        await self.lane.start(fail)

    async def transact_long(self, number: int) -> None:
        name = TransactionalId(f"long {number % 3}")
        given = self.lane.submit(Transact(name, InitProducer(name, 900_000)))
        for sequence in range(self.rng.randint(1, 3)):
            batch = encode_batch(
                self.records()[:1],
                producer_id=given.producer_id,
                producer_epoch=given.producer_epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            incoming = [self.incoming("c", batch)]
            produced = self.lane.submit(ProduceInTransaction(name, Dialect.TV2, incoming))
            assert isinstance(produced.results[0], int)
            await self.change(self.rng.choice((5, 60, 150)))
        end = End(given.producer_id, given.producer_epoch, False, Dialect.TV2)
        self.lane.submit(Transact(name, end))

    async def delete_most(self) -> None:
        expired = []
        for partition in self.lane.view.partitions():
            middle = (partition.log_start_offset + partition.last_stable_offset) // 2
            expired.append((partition.number, Offset(middle)))
        self.lane.submit(DeleteExpired(tuple(expired)))
        warnings: list[str] = []
        await self.lane.settling.round(warnings.append)
        assert warnings == []


def lived(seed: int, *, is_settled: bool, is_released: bool) -> Files:
    async def live() -> Files:
        device = MemoryDevice(Random(seed))
        world = LongTransactions(device, seed)
        await (world.start() if is_settled else world.unsettled())
        await world.change(20)
        for number in range(9):
            await world.transact_long(number)
            if is_settled and number in (3, 5):
                await world.tidy()
        if is_released:
            await world.delete_most()
        for number in range(3):
            await world.transact_long(number)
        await world.lane.close()
        return files_of(device)

    return run(Random(seed), live())


class Told(NamedTuple):
    """What an index tells of a partition that has rows. Floors may be lower than they were."""

    rows: tuple[list[int], ...]
    byte_count: int
    aborted: set[tuple[int, int, int]]


def told_by(content: bytes) -> dict[int, Told]:
    _, found = read_index(content, "an index").restored()
    return {
        number: Told(
            (
                list(rows.base_offsets),
                list(rows.positions),
                list(rows.sizes),
                list(rows.last_offset_deltas),
            ),
            rows.byte_count,
            set() if rows.aborted is None else {each[:3] for each in rows.aborted},
        )
        for number, rows in found.items()
    }


def offsets_in(files: Files) -> dict[int, set[int]]:
    """Where batches begin of each partition that was not deleted, wherever they lie."""
    stored = checkpoints.decode(
        files[max(name for name in files if name.endswith(names.CHECKPOINT))]
    )
    assert stored is not None
    living = restored(stored.state[0]).partitions
    found: dict[int, set[int]] = {}
    for name, content in files.items():
        if name.endswith((names.INDEX, names.VOLUME_INDEX)):
            for number, told in told_by(content).items():
                if number in living:
                    found.setdefault(number, set()).update(told.rows[0])
    return found


def check_same(built: dict[int, Told], lost: dict[int, Told], offsets: dict[int, set[int]]) -> None:
    """Of partitions that are there, but for transactions whose first records are gone: no reader
    comes to where they began."""
    for number in lost.keys() & offsets.keys():
        now, then = built[number], lost[number]
        cut = {each[::2] for each in then.aborted if each[1] not in offsets[number]}
        for told in (now, then):
            told.aborted.difference_update({each for each in told.aborted if each[::2] in cut})
        assert now == then


KINDS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("is_settled", "is_released"), KINDS)
def test_a_lost_index_is_built_again_and_tells_the_same(
    is_settled: bool, is_released: bool, seed: int
) -> None:
    files = lived(seed, is_settled=is_settled, is_released=is_released)
    bases = names.positions(list(files), names.INDEX)
    assert len(bases) > 1
    if is_released:
        assert bases[0] > 0
    if is_settled:
        assert names.positions(list(files), names.VOLUME)
    newest = names.positions(list(files), names.SEGMENT)[-1]
    offsets = offsets_in(files)
    aborted_count = 0
    for lost in (bases[:1], bases[1:2], bases[-1:], bases[:2], bases):
        device = device_with(files)
        for base in lost:
            device.remove(names.index(base))
        # A volume may be left of a topic that was deleted since the last round.
        findings = [finding for finding in checked(device) if finding.is_damage]
        assert {finding.file for finding in findings} == {names.index(base) for base in lost}
        assert {finding.meaning for finding in findings} == {
            "the next start builds it again from its segment"
        }
        start(device)
        assert names.positions(device.names(), names.SEGMENT)[-1] == newest
        assert checked(device) == []
        for base in set(lost) & set(names.positions(device.names(), names.INDEX)):
            name = names.index(base)
            built = told_by(device.read(name, 0, device.size(name)))
            check_same(built, told_by(files[name]), offsets)
            aborted_count += sum(len(each.aborted) for each in built.values())
    assert aborted_count


def test_readers_find_the_same_when_all_indexes_were_lost() -> None:
    for is_released in (False, True):
        files = lived(4, is_settled=True, is_released=is_released)

        async def read(device: MemoryDevice) -> list[object]:
            world = World(device, 1)
            await world.start()
            found: list[object] = []
            for partition in world.lane.view.partitions():
                size = await world.lane.log.bytes_of(partition)
                half = await world.lane.log.first_kept(partition, None, size // 2)
                found.append((partition.topic_partition, size, half))
            found.append(await world.committed("c"))
            await world.lane.close()
            return found

        before = run(Random(1), read(device_with(files)))
        kept = {name: files[name] for name in files if not name.endswith(names.INDEX)}
        assert run(Random(1), read(device_with(kept))) == before


def test_a_damaged_index_is_named_and_built_again_without_the_file() -> None:
    files = lived(2, is_settled=False, is_released=True)
    name = names.index(names.positions(list(files), names.INDEX)[0])
    for byte in (0, len(files[name]) - 1):
        device = device_with(files)
        device.flip_bit(name, byte)
        (finding,) = checked(device)
        assert finding.file == name
        assert finding.meaning.endswith("without the file, the next start builds it again")
        device.remove(name)
        start(device)
        assert checked(device) == []


def test_an_index_whose_segment_is_damaged_is_not_built_and_the_sentence_says_what_to_do() -> None:
    files = lived(2, is_settled=False, is_released=True)
    base = names.positions(list(files), names.INDEX)[0]
    device = device_with(files)
    device.remove(names.index(base))
    device.flip_bit(names.segment(base), 5_000)
    with pytest.raises(
        CorruptJournal, match=rf"{names.index(base)} is missing and cannot .*from a backup"
    ):
        start(device)
