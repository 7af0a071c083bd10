"""Compaction beside settling, deletions and crashes: the newest of each key is there, once."""

import asyncio
from random import Random
from typing import NamedTuple

import pytest

from semel.broker.leading import volumes_on
from semel.groups.settings import GroupSettings
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.lane.commands import LaneSettings, SettlingSettings
from semel.lane.compacting import CompactionSettings
from semel.lane.contents import CONTENTS
from semel.lane.lane import Lane
from semel.lane.named_volumes import NamedVolumes
from semel.lane.partition_log import Stored, Wanted
from semel.lane.producing import Incoming, Produce, ProduceInTransaction
from semel.lane.topics import CreateTopic, DeleteExpired, DeleteTopic
from semel.lane.transactions import Transact
from semel.lane.view import PartitionView
from semel.records import batch as record_batch
from semel.records.records import Record, decode_batch, encode_batch
from semel.transactions.commands import End, InitProducer
from semel.transactions.dialect import Dialect
from semel.types import Offset, ProducerEpoch, ProducerId, TransactionalId
from support.handled import LoopClock, SeededRandomness
from support.seeded_loop import run

SEGMENT_BYTES = 64 * 1024
SETTINGS = LaneSettings(
    GroupSettings(),
    settling=SettlingSettings(journal_bytes_min=2 * SEGMENT_BYTES, volume_bytes=6 * SEGMENT_BYTES),
)
DELETE_RETENTION_MS = 10_000
COMPACTION = CompactionSettings(DELETE_RETENTION_MS, 0, 2**63 - 1, 2**63 - 1, 0.3, 2**20)
COMPACTED = ("c", "d")
KEYS = 40


class Compacted(NamedTuple):
    """These topics, and no others."""

    topics: tuple[str, ...]
    settings: CompactionSettings = COMPACTION

    def settings_of(self, partition: PartitionView) -> CompactionSettings | None:
        return self.settings if partition.topic_partition.topic in self.topics else None

    async def until_durable(self) -> None: ...


class World:
    def __init__(self, device: MemoryDevice, seed: int) -> None:
        self.device = device
        self.rng = Random(seed)
        self.lane: Lane
        self.written: dict[str, list[tuple[int, bytes, bytes | None]]] = {}
        """By topic: offset, key and value of every committed record."""
        self.transaction_count = 0
        self.settings = COMPACTION

    async def start(self) -> None:
        journal = FileJournal.open(
            self.device, JournalSettings(segment_bytes=SEGMENT_BYTES), CONTENTS
        )
        self.lane = Lane(
            journal,
            SETTINGS,
            LoopClock(),
            SeededRandomness(self.rng),
            volumes=volumes_on(self.device),
        )

        def fail(error: BaseException) -> None:
            raise error

        await self.lane.start(fail)

    def records(self) -> list[Record]:
        rng = self.rng
        return [
            Record(
                b"key %d" % rng.randrange(KEYS),
                None if rng.random() < 0.1 else rng.randbytes(rng.randrange(600)),
                self.lane.view.wall_ms(),
            )
            for _ in range(rng.randint(1, 4))
        ]

    def incoming(self, topic: str, batch: bytes) -> Incoming:
        view = memoryview(batch)
        header = record_batch.read(view)
        partition = self.lane.view.partition(topic, 0)
        return Incoming(partition, header, record_batch.fingerprint(header, view), view)

    def keep(self, topic: str, offset: object, records: list[Record]) -> None:
        assert isinstance(offset, int)
        self.written[topic] += [
            (at, record.key or b"", record.value) for at, record in enumerate(records, offset)
        ]

    def produce(self, topic: str) -> None:
        records = self.records()
        produced = self.lane.submit(Produce([self.incoming(topic, encode_batch(records))]))
        self.keep(topic, produced.results[0], records)

    def transact(self, topic: str) -> None:
        self.transaction_count += 1
        name = TransactionalId(f"t{self.transaction_count % 5}")
        given = self.lane.submit(Transact(name, InitProducer(name, 60_000)))
        is_committed = self.rng.random() < 0.6
        batches = [self.records()[:1] for _ in range(self.rng.randint(1, 3))]
        self.transact_once(
            name, given.producer_id, given.producer_epoch, topic, batches, is_committed
        )

    def transact_once(
        self,
        name: TransactionalId,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        topic: str,
        batches: list[list[Record]],
        is_committed: bool,
    ) -> None:
        done = []
        for sequence, records in enumerate(batches):
            batch = encode_batch(
                records,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            produced = self.lane.submit(
                ProduceInTransaction(name, Dialect.TV2, [self.incoming(topic, batch)])
            )
            done.append((produced.results[0], records))
        end = End(producer_id, producer_epoch, is_committed, Dialect.TV2)
        self.lane.submit(Transact(name, end))
        if is_committed:
            for offset, records in done:
                self.keep(topic, offset, records)

    async def change(self, count: int) -> None:
        for number in range(count):
            if number % 100 == 99:
                await asyncio.sleep(0.2)
            topic = self.rng.choice((*COMPACTED, "plain"))
            if topic not in self.written:
                self.lane.submit(CreateTopic(topic, 1, {}))
                self.written[topic] = []
            elif self.rng.random() < 0.003 and topic != "c":
                self.lane.submit(DeleteTopic(topic))
                del self.written[topic]
            elif self.rng.random() < 0.2:
                self.transact(topic)
            else:
                self.produce(topic)
        await self.lane.until_durable()

    async def outlast_tombstones(self) -> None:
        """Time counts only while someone looks at it."""
        for _ in range(2 * DELETE_RETENTION_MS // 1000):
            await asyncio.sleep(1)
            self.lane.duties.look()

    async def tidy(self) -> None:
        view = self.lane.view
        await self.lane.compacting.round(Compacted(COMPACTED, self.settings))
        if view.hosts("plain"):
            plain = view.partition("plain", 0)
            self.lane.submit(DeleteExpired(((plain.number, plain.last_stable_offset),)))
        warnings: list[str] = []
        await self.lane.settling.round(warnings.append)
        assert warnings == []

    async def committed(self, topic: str) -> list[tuple[int, bytes, bytes | None]]:
        """As a read_committed reader finds it."""
        partition = self.lane.view.partition(topic, 0)
        log = self.lane.log
        offset = partition.log_start_offset
        found = []
        while offset < partition.last_stable_offset:
            wanted = Wanted(partition, offset, partition.last_stable_offset, 8_000)
            (stored,) = await log.read(await log.find([wanted], 8_000), with_aborted=True)
            assert isinstance(stored, Stored), stored
            assert stored.batches
            aborted = list(stored.aborted)
            hidden: set[int] = set()
            for batch in stored.batches:
                header = record_batch.read(batch)
                assert header.last_offset >= offset
                while aborted and aborted[0].first_offset <= header.last_offset:
                    hidden.add(aborted.pop(0).producer_id)
                if header.is_control:
                    hidden.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in hidden):
                    found += [
                        (record.offset, record.key or b"", record.value)
                        for record in decode_batch(batch)
                    ]
                offset = Offset(header.last_offset + 1)
        return found

    async def check(self) -> None:
        for topic in COMPACTED:
            if topic not in self.written:
                continue
            written = self.written[topic]
            found = await self.committed(topic)
            assert found == sorted(found)
            assert set(found) <= set(written), "what was never written, or not so"
            newest = {key: (offset, value) for offset, key, value in written}
            there = {key: (offset, value) for offset, key, value in found}
            for key, (offset, value) in newest.items():
                if value is not None:
                    assert there[key] == (offset, value)
                elif key in there:
                    assert there[key][0] <= offset
                    assert there[key] == (offset, None), "a deleted key is back"
            last = self.lane.view.partition(topic, 0)
            size = await self.lane.log.bytes_of(last)
            assert (size > 0) == (last.log_end_offset > 0)


@pytest.mark.parametrize("seed", range(6))
def test_the_newest_of_each_key_is_there_whatever_was_compacted_settled_and_lost(
    seed: int,
) -> None:
    async def live() -> None:
        device = MemoryDevice(Random(seed))
        world = World(device, seed)
        await world.start()
        for round_number in range(12):
            await world.change(250)
            await world.tidy()
            await world.check()
            if round_number % 3 == 2:
                world.rng.choice((device.kill, device.power_loss))()
                await world.start()
                await world.check()
                await world.outlast_tombstones()
        state = world.lane._state
        assert state.compacted
        found = await world.committed("c")
        assert len(found) < len(world.written["c"]) / 3
        await world.lane.close()

    run(Random(seed), live())


@pytest.mark.parametrize("is_power_loss", [False, True])
@pytest.mark.parametrize("segment_ms", [2**63 - 1, 0], ids=["full segments", "rolled"])
def test_a_crash_at_any_moment_of_a_pass_loses_nothing(
    is_power_loss: bool, segment_ms: int
) -> None:
    async def live(number: int) -> bool:
        device = MemoryDevice(Random(number))
        world = World(device, number)
        world.settings = COMPACTION._replace(segment_ms=segment_ms)
        await world.start()
        await world.change(500)
        tidying = asyncio.ensure_future(world.tidy())
        await asyncio.sleep(number * 0.0007)
        is_over = tidying.done()
        tidying.cancel()
        if is_power_loss:
            device.power_loss()
        else:
            device.kill()
        await world.start()
        await world.check()
        await world.tidy()
        await world.check()
        await world.lane.close()
        return is_over

    over = [run(Random(number), live(number)) for number in range(0, 100, 4)]
    assert any(over)
    assert over.count(False) > 5


def test_what_an_id_commits_counts_though_it_aborted_something_before() -> None:
    """The entry of an aborted transaction outlives its records by a pass. What the same producer
    commits behind its marker must not be taken for aborted: a tombstone would not be known, and
    when its time is over the value that it deletes would be back."""

    async def live() -> None:
        world = World(MemoryDevice(Random(0)), 0)
        await world.start()
        for topic in ("c", "plain"):
            world.lane.submit(CreateTopic(topic, 1, {}))
            world.written[topic] = []
        name = TransactionalId("t")
        for key, value, is_committed in (
            (b"deleted", b"a value", True),
            (b"never", b"aborted", False),
            (b"deleted", None, True),
            *((b"other", bytes(3_000 * count), True) for count in range(1, 6)),
        ):
            given = world.lane.submit(Transact(name, InitProducer(name, 60_000)))
            producer = given.producer_id, given.producer_epoch
            world.transact_once(name, *producer, "c", [[Record(key, value, 0)]], is_committed)
            if key != b"deleted" or value is None:
                # A pass for itself.
                for _ in range(400):
                    world.produce("plain")
                await world.lane.until_durable()
                await world.tidy()
                await world.check()
                await world.outlast_tombstones()
        assert {key for _, key, _ in await world.committed("c")} == {b"other"}
        await world.lane.close()

    run(Random(0), live())


async def compacted(world: World) -> None:
    """A topic of which compaction has left something in a volume of its own."""
    await world.start()
    world.lane.submit(CreateTopic("c", 1, {}))
    world.written["c"] = []
    for _ in range(4):
        for _ in range(200):
            world.produce("c")
        await asyncio.sleep(0.2)
    await world.tidy()
    assert volumes_in(world.device)


def volumes_in(device: MemoryDevice) -> list[str]:
    return [name for name in device.names() if "volume" in name]


def test_the_volume_goes_with_the_topic_that_was_compacted_in_it() -> None:
    async def live() -> None:
        world = World(MemoryDevice(Random(0)), 0)
        await compacted(world)
        world.lane.submit(DeleteTopic("c"))
        del world.written["c"]
        await world.tidy()
        assert volumes_in(world.device) == []
        await world.lane.close()

    run(Random(0), live())


def test_the_volume_goes_when_all_that_was_left_in_it_is_deleted() -> None:
    async def live() -> None:
        world = World(MemoryDevice(Random(0)), 0)
        await compacted(world)
        partition = world.lane.view.partition("c", 0)
        end = world.lane._state.compacted[partition.number].end
        world.lane.submit(DeleteExpired(((partition.number, end),)))
        await world.lane.settling.round(pytest.fail)
        assert volumes_in(world.device) == []
        assert partition.log_start_offset == end
        written = [each for each in world.written["c"] if each[0] >= end]
        assert await world.committed("c") == written
        assert await world.lane.log.find_time(partition, 0, partition.high_watermark) is not None
        world.device.kill()
        await world.start()
        assert await world.committed("c") == written
        await world.lane.close()

    run(Random(0), live())


def test_what_old_checkpoints_told_of_aborted_transactions_ends_with_their_markers() -> None:
    """Else readers would take all that the same producer has committed since for aborted."""

    async def live() -> None:
        world = World(MemoryDevice(Random(0)), 0)
        await world.start()
        for topic in ("c", "plain"):
            world.lane.submit(CreateTopic(topic, 1, {}))
            world.written[topic] = []
        name = TransactionalId("t")
        for count in range(8):
            given = world.lane.submit(Transact(name, InitProducer(name, 60_000)))
            records = [Record(b"%d" % (count // 2), bytes(1_000 * (count + 1)), 0)]
            producer = given.producer_id, given.producer_epoch
            world.transact_once(name, *producer, "c", [records], is_committed=count != 1)
            if count == 1:
                partition = world.lane._state.partitions[world.lane.view.partition("c", 0).number]
                rows = world.lane._journal.index._open[partition.number]
                partition.transactions.aborted_before, rows.aborted = rows.aborted, None
                assert partition.transactions.aborted_before is not None
            for _ in range(400):
                world.produce("plain")
            await world.lane.until_durable()
            await world.tidy()
            await world.check()
            await world.outlast_tombstones()
        await world.lane.close()

    run(Random(0), live())


@pytest.mark.parametrize("is_topic_deleted", [False, True])
def test_a_check_misses_no_volume_that_went_with_what_it_was_needed_for(
    is_topic_deleted: bool,
) -> None:
    async def live() -> None:
        world = World(MemoryDevice(Random(0)), 0)
        await compacted(world)
        partition = world.lane.view.partition("c", 0)
        if is_topic_deleted:
            world.lane.submit(DeleteTopic("c"))
        else:
            end = world.lane._state.compacted[partition.number].end
            world.lane.submit(DeleteExpired(((partition.number, end),)))
        await world.lane.settling.round(pytest.fail)
        assert volumes_in(world.device) == []
        assert NamedVolumes(world.lane._state).numbers() == set()
        await world.lane.close()

    run(Random(0), live())


def test_the_bytes_that_are_needed_of_a_volume_are_the_same_after_a_start() -> None:
    async def live() -> None:
        world = World(MemoryDevice(Random(3)), 3)
        await world.start()
        for _ in range(4):
            await world.change(250)
            await world.tidy()
        before = world.lane._state
        assert before.compacted_live_bytes
        await world.lane.close()
        await world.start()
        after = world.lane._state
        assert after.compacted_live_bytes == before.compacted_live_bytes
        assert after.compacted_volumes == before.compacted_volumes
        await world.lane.close()

    run(Random(3), live())
