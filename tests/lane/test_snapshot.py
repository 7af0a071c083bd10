"""A snapshot is the state at its start, whatever is applied while it is taken."""

import tracemalloc
from collections.abc import Callable, Iterator
from random import Random

import pytest
from msgspec.structs import replace

from lane.test_recovery import Workload, empty_state
from semel.groups.commands import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from semel.groups.settings import GroupSettings
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.lane import facts, restoring, snapshot
from semel.lane.commands import Claim, LaneSettings
from semel.lane.frame import Frame
from semel.lane.group_commands import AskGroups, CommitOffsetsInTransaction
from semel.lane.lane import Lane
from semel.lane.producing import TakeProducerId
from semel.lane.topics import ConfigureTopic, CreateTopic, DeleteTopic, GrowTopic
from semel.lane.transactions import Transact
from semel.log.partition import Partition
from semel.records import batch as record_batch
from semel.records.records import Record, encode_batch
from semel.transactions.commands import End, InitProducer, WriteOffsets, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import GroupId, MemberId, TopicPartition, TransactionalId
from support.handled import LoopClock, SeededRandomness, opened, started
from support.inside import partitions_of, say, state_of
from support.lane_state import whole
from support.seeded_loop import run


def restored(stored: bytes) -> list[str]:
    """All that is in a state which was made of these bytes, in whatever order it was captured."""
    state = empty_state()
    restoring.restore(stored, state)
    groups, transactions = state.groups.snapshot(), state.transactions.snapshot()
    assert groups.generations_ms is not None
    assert transactions.changed_ms is not None
    found: list[object] = [
        (state.term, state.cluster_id, state.next_partition_number, state.next_producer_id),
        (state.last_moment and (state.last_moment.now_ms, state.last_moment.wall_ms)),
        (state.wall_ahead_ms, groups.order),
        *((each.name, each.topic_id, each.config) for each in state.catalogue),
        *(_fields(each) for each in state.partitions.values()),
        *zip(groups.generations, groups.generations_ms, strict=True),
        *groups.offsets,
        *(sorted(value.partitions) for value in transactions.values),
        *(replace(value, partitions=frozenset()) for value in transactions.values),
        *transactions.changed_ms,
        *state.compacted.items(),
        *state.compacted_volumes.items(),
    ]
    return sorted(map(repr, found))


PRODUCER_FIELDS = ("active_at_ms", "epoch", "restart", "taken", "transaction_start")


def _fields(partition: Partition) -> object:
    return (
        partition.topic_partition,
        partition.number,
        partition.log_start_offset,
        partition.log_end_offset,
        partition.term_starts,
        partition.transactions.snapshot(),
        [
            (producer_id, [getattr(producer, field) for field in PRODUCER_FIELDS])
            for producer_id, producer in partition.producers.items()
        ],
    )


@pytest.fixture(params=[1, 3, 400])
def items_per_piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "ITEMS_PER_PIECE", request.param)
    monkeypatch.setattr(snapshot, "NUMBERS_PER_PIECE", request.param)


@pytest.mark.usefixtures("items_per_piece")
@pytest.mark.parametrize("seed", range(8))
def test_requests_of_every_kind_between_two_pieces_change_none_of_them(seed: int) -> None:
    rng = Random(f"snapshot {seed}")

    async def scenario() -> None:
        broker = opened(MemoryDevice(Random(seed)), rng)
        state = state_of(broker)
        async with started(broker):
            workload = Workload(broker, rng)
            for _ in range(60):
                await workload.step()
            expected = restored(whole(state))
            taken = []
            for piece in snapshot.take(state):
                taken.append(piece)
                for _ in range(rng.choice((0, 0, 1, 4))):
                    await workload.step()
            assert restored(b"".join(taken)) == expected
            assert state.capture is None

    run(rng, scenario())


# One by one.

NAME, GROUP = TransactionalId("id"), GroupId("g")
NAMED = "another-object-in-each-request"


class World:
    """Topics `t` and `u`, a transaction open in both, with an offset that is pending in it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        for topic in ("t", "u", NAMED):
            lane.submit(CreateTopic(topic, 2, {}))
        given = lane.submit(Transact(NAME, InitProducer(NAME, 60_000)))
        self.producer = (given.producer_id, given.producer_epoch)
        partitions = frozenset({TopicPartition("t", 0), TopicPartition("u", 1)})
        writing = WriteRecords(*self.producer, partitions, Dialect.TV2)
        lane.submit(Transact(NAME, writing))
        self.produce("t", 0)
        self.produce("u", 1)
        self.commit_offset()
        self.produce("t", 1, producer_id=-1)
        self.compact(1, ((0, 1, 50), (3, 1, 70)))

    def compact(self, volume: int, parts: tuple[tuple[int, int, int], ...]) -> None:
        """As far as the state is concerned: nobody reads what is left."""
        frame = Frame(self.lane._clock.moment())
        frame.add_fact(facts.Compacted(volume, parts))
        self.lane._state.apply(frame)

    def delete(self, topic: str) -> None:
        """As `compact`."""
        frame = Frame(self.lane._clock.moment())
        frame.add_fact(facts.TopicDeleted(topic))
        self.lane._state.apply(frame)

    def produce(self, topic: str, index: int, producer_id: int | None = None) -> None:
        own, epoch = self.producer
        partition = partitions_of(self.lane._state, topic)[index]
        known = partition.producers.get(own)
        sequence = 0 if known is None else known.taken[-1].last_sequence + 1
        records = [Record(b"k", b"v")]
        if producer_id is None:
            encoded = encode_batch(
                records,
                producer_id=own,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        else:
            encoded = encode_batch(records)
        batch = memoryview(encoded)
        header = record_batch.read(batch)
        frame = Frame(self.lane._clock.moment())
        term, end = self.lane._state.term, partition.log_end_offset
        frame.add_batch(partition.number, end, term, header, header.checksum, batch)
        self.lane._append(frame, Claim.ORDINARY)

    def commit_offset(self, offset: int = 1) -> None:
        member = MemberId("")
        offsets = (OffsetToCommit("t", 0, offset),)
        asked = CommitOffsets(GROUP, -1, member, None, offsets, in_transaction=True)
        joining = WriteOffsets(*self.producer, 0, Dialect.TV2)
        self.lane.submit(CommitOffsetsInTransaction(NAME, joining, asked))

    def end(self, commit: bool) -> None:
        self.lane.submit(Transact(NAME, End(*self.producer, commit, Dialect.TV2)))

    def make_again(self, topic: str) -> None:
        self.lane.submit(DeleteTopic(topic))
        self.lane.submit(CreateTopic(topic, 1, {}))
        self.produce(topic, 0, producer_id=-1)

    def say(self, fact: facts.AnyFact) -> None:
        say(self.lane, fact)


CHANGES: dict[str, Callable[[World], object]] = {
    "a batch of the transaction": lambda world: world.produce("t", 0),
    "a batch of no producer": lambda world: world.produce("t", 1, producer_id=-1),
    "an offset": lambda world: world.commit_offset(7),
    "a commit": lambda world: world.end(True),
    "an abort": lambda world: world.end(False),
    "records deleted": lambda world: world.say(facts.RecordsDeleted(0, 1)),
    "producers expired": lambda world: world.say(facts.ProducersExpired(2**60)),
    "producers forgotten": lambda world: world.say(facts.ProducersForgotten(0, (0, 1))),
    "a producer id": lambda world: world.lane.submit(TakeProducerId()),
    "a new topic": lambda world: world.lane.submit(CreateTopic("v", 3, {"retention.ms": "1"})),
    "more partitions": lambda world: world.lane.submit(GrowTopic("t", 4)),
    "a setting": lambda world: world.lane.submit(ConfigureTopic("t", {"retention.ms": "2"})),
    "a setting, by an equal name": lambda world: world.lane.submit(
        ConfigureTopic(bytes(NAMED, "ascii").decode(), {"retention.ms": "2"})
    ),
    "more partitions, by an equal name": lambda world: world.lane.submit(
        GrowTopic(bytes(NAMED, "ascii").decode(), 4)
    ),
    "a topic deleted": lambda world: world.lane.submit(DeleteTopic("t")),
    "a topic deleted and made again": lambda world: world.make_again("t"),
    "a compaction": lambda world: world.compact(2, ((0, 1, 40),)),
    "a compacted topic deleted": lambda world: world.delete("u"),
    "a term": lambda world: world.say(facts.Opened(9)),
}


def pieces_while(world: World, change: Callable[[World], object], before: int) -> bytes:
    """The snapshot, if the change comes when so many pieces are taken."""
    taken: list[bytes] = []
    pieces: Iterator[bytes] = snapshot.take(world.lane._state)
    for piece in pieces:
        if len(taken) == before:
            change(world)
        taken.append(piece)
    return b"".join(taken)


@pytest.mark.usefixtures("items_per_piece")
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_about_to_change_is_captured_first(name: str) -> None:
    change = CHANGES[name]

    async def scenario() -> None:
        for before in (0, 1, 2, 5, 10, 30):
            device = MemoryDevice(Random(1))
            journal = FileJournal.open(device, JournalSettings(segment_bytes=2**20))
            settings = LaneSettings(GroupSettings(), 2, transactions_partition_count=2)
            lane = Lane(journal, settings, LoopClock(), SeededRandomness(Random(2)))
            await lane.start(_fail)
            world = World(lane)
            at_the_start = restored(whole(lane._state))
            assert restored(pieces_while(world, change, before)) == at_the_start
            device.kill()

    run(Random(1), scenario())


def test_a_start_copies_nothing_of_what_there_may_be_much_of() -> None:
    """The mark of a checkpoint is one step of the loop, and its frames wait for it."""

    async def mark_bytes(count: int) -> int:
        journal = FileJournal.open(MemoryDevice(Random(1)), JournalSettings())
        settings = LaneSettings(GroupSettings(), 2, transactions_partition_count=2)
        lane = Lane(journal, settings, LoopClock(), SeededRandomness(Random(2)))
        await lane.start(_fail)
        lane.submit(CreateTopic("t", count, {}))
        parts = tuple((number, 1, 1) for number in range(count))
        for number in range(count):
            partition = lane._state.partition("t", number)
            assert partition is not None
            lane.submit(CreateTopic(f"t{number}", 1, {}))
            name = TransactionalId(f"id{number}")
            lane.submit(Transact(name, InitProducer(name, 60_000)))
            offsets = (OffsetToCommit("t", 0, 1),)
            group_id = GroupId(f"g{number}")
            lane.submit(AskGroups(CommitOffsets(group_id, -1, NO_MEMBER_ID, None, offsets)))
        frame = Frame(lane._clock.moment())
        frame.add_fact(facts.Compacted(1, parts))
        lane._state.apply(frame)
        tracemalloc.start()
        try:
            pieces = snapshot.take(lane._state)
            assert next(pieces)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return peak_bytes

    few, many = (run(Random(1), mark_bytes(count)) for count in (10, 1_000))
    assert many < 1.2 * few + 2_000


def _fail(error: BaseException) -> None:
    raise error
