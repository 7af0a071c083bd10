"""A lane whose journal lies in slots: what moves with it, what a kill aborts, what is read."""

from collections.abc import Generator, Sequence
from random import Random

import msgspec

from semel.groups.settings import GroupSettings
from semel.journal.slots import keys
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.lane import facts
from semel.lane.commands import LaneSettings
from semel.lane.following import FRAMES_AT_ONCE, FollowedLane
from semel.lane.lane import Lane
from semel.lane.lanes import Placement
from semel.lane.leader import Leader, LedBy, Listeners, NodeAddress
from semel.lane.nodes import AddLanes, NoteStandbys, NoteTaken, PlaceLanes
from semel.lane.partition_log import Stored, Wanted
from semel.lane.producing import Incoming, Produce
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.records import batch as record_batch
from semel.records.records import Record, decode_batch, encode_batch
from semel.store.seam import StoreRefused
from semel.transactions.commands import InitProducer, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import Buffer, Offset, Term, TopicPartition, TransactionalId
from support import seeded_loop
from support.handled import LoopClock, SeededRandomness
from support.slot_store import SlotStore
from support.slot_world import randomness, run

SETTINGS = SlotSettings(
    slot_bytes=64 * 1024,
    unconfirmed_bytes=2**20,
    stretch_bytes=32 * 1024,
    checkpoint_slots=50,
    tail_bytes=4096,
)


LANE_SETTINGS = LaneSettings(GroupSettings())


def listeners(node: int) -> Listeners:
    return (("CLIENTS", f"outside-{node}", 9093), ("INSIDE", f"host-{node}", 9092))


async def lead(store: SlotStore, node: int, its_listeners: Listeners = ()) -> Lane:
    journal = await SlotJournal.open(store, 0, node, randomness(node), SETTINGS)
    return await start(journal, node, None, its_listeners)


async def start(
    journal: SlotJournal,
    node: int,
    followed: FollowedLane | None = None,
    its_listeners: Listeners = (),
) -> Lane:
    its_randomness = SeededRandomness(Random(node))
    lane = Lane(journal, LANE_SETTINGS, LoopClock(), its_randomness, followed=followed)
    leader = Leader(b"c" * 16, node, f"host-{node}", 9092, listeners=its_listeners)
    await lane.start(lambda error: None, leader=leader)
    return lane


class StandBy:
    def __init__(self, store: SlotStore) -> None:
        self._follower = Follower(store, 0, SETTINGS)

    async def begin(self) -> None:
        await self._follower.begin()
        self.lane = FollowedLane(LANE_SETTINGS, 0, self._follower)

    async def look(self) -> None:
        if await self._follower.look():
            self.lane = FollowedLane(LANE_SETTINGS, 0, self._follower)
        else:
            self.lane.read_on(self._follower)

    async def take(self, node: int) -> Lane:
        journal = await self._follower.take(node, randomness(node))
        assert journal.is_continued
        return await start(journal, node, self.lane)


async def produce(lane: Lane, value: bytes) -> None:
    partition = lane.view.partition("t", 0)
    batch = memoryview(encode_batch([Record(b"k", value)]))
    header = record_batch.read(batch)
    lane.submit(
        Produce([Incoming(partition, header, record_batch.fingerprint(header, batch), batch)])
    )
    await lane.until_durable()


async def values(lane: Lane) -> list[bytes | None]:
    partition = lane.view.partition("t", 0)
    found: list[bytes | None] = []
    while len(found) < partition.high_watermark:
        wanted = Wanted(partition, Offset(len(found)), partition.high_watermark, 8_000)
        (stored,) = await lane.log.read(await lane.log.find([wanted], 8_000), with_aborted=False)
        assert isinstance(stored, Stored)
        for batch in stored.batches:
            found += [record.value for record in decode_batch(batch)]
    return found


def open_transaction(lane: Lane) -> None:
    name = TransactionalId("id")
    given = lane.submit(Transact(name, InitProducer(name, 60_000)))
    lane.submit(
        Transact(
            name,
            WriteRecords(
                given.producer_id,
                given.producer_epoch,
                frozenset({TopicPartition("t", 0)}),
                Dialect.TV2,
            ),
        )
    )


def test_the_records_of_a_lane_are_there_for_whoever_takes_it() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, 1)
        lane.submit(CreateTopic("t", 1, {}))
        sent = [b"%d" % number * 300 for number in range(200)]
        for value in sent:
            await produce(lane, value)
        assert await values(lane) == sent, "most of it lies in slots alone"
        assert await values(await lead(store, 2)) == sent

    run(main())


def test_a_kill_raises_the_term_to_the_epoch_and_aborts_and_a_move_does_neither() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, 1)
        assert lane.view.term == 0
        lane.submit(CreateTopic("t", 1, {}))
        open_transaction(lane)
        await lane.close()
        moved = await lead(store, 2)
        assert moved.view.term == 0
        assert len(moved._state.transactions.open()) == 1
        await moved.until_durable()
        killed = await lead(store, 3)
        assert killed.view.term == 2, "the epoch"
        assert len(killed._state.transactions.open()) == 0

    run(main())


def test_every_leader_has_an_epoch_of_its_own_and_batches_carry_it() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, 1)
        lane.submit(CreateTopic("t", 1, {}))
        await produce(lane, b"a")
        await lane.close()
        moved = await lead(store, 2)
        assert (moved.view.term, moved.view.epoch) == (0, 1)
        await produce(moved, b"b")
        killed = await lead(store, 3)
        assert (killed.view.term, killed.view.epoch) == (2, 2)
        await produce(killed, b"c")
        partition = killed.view.partition("t", 0)
        current = killed.view.epoch
        assert [partition.term_at(Offset(offset), current) for offset in range(3)] == [0, 1, 2]
        assert partition.end_of_term(1, current) == (1, 2), "where the moved lane began and ended"

    run(main())


def test_who_reads_in_pieces_has_the_same_indexes() -> None:
    """What they say lies in a stretch is what is settled of it."""

    async def main() -> None:
        store = SlotStore()
        create = store.create

        async def without_checkpoints(key: str, parts: Sequence[Buffer]) -> None:
            if key.startswith(keys.checkpoints(0)):
                raise StoreRefused(key)
            await create(key, parts)

        store.create = without_checkpoints  # type: ignore[method-assign]
        lane = await lead(store, 1)
        lane.submit(CreateTopic("t", 1, {}))
        for number in range(4 * FRAMES_AT_ONCE):
            await produce(lane, b"%d" % number * 300)
        found: list[dict[int, bytes]] = []
        for is_read in (True, False):
            follower = Follower(store, 0, SETTINGS)
            await follower.begin()
            while not await follower.look() and follower.caught_up_s is None:
                pass
            followed = FollowedLane(LANE_SETTINGS, 0, follower, is_read=is_read)
            await followed.read_on_in_pieces(follower)
            found.append(
                {each.base: encoded(each.encode()) for each in follower.index.unpublished()}
            )
        assert found[0] == found[1]
        assert len(found[0]) > 2

    run(main())


def encoded(steps: Generator[None, None, Buffer]) -> bytes:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


def test_who_follows_knows_the_leader_and_leads_on_from_there() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, 1)
        lane.submit(CreateTopic("t", 1, {}))
        standby = StandBy(store)
        await standby.begin()
        sent = [b"%d" % number * 300 for number in range(100)]
        for value in sent[:50]:
            await produce(lane, value)
            await standby.look()
        assert standby.lane.led_by == LedBy(Term(0), 1, "host-1", 9092)
        assert standby.lane.cluster_id == b"c" * 16
        assert [topic.name for topic in standby.lane.catalogue] == ["t"]
        for value in sent[50:]:
            await produce(lane, value)
        taken = await standby.take(2)
        assert await values(taken) == sent
        await produce(taken, b"more")
        assert await values(await lead(store, 3)) == [*sent, b"more"]

    run(main())


def test_who_leads_is_told_by_a_checkpoint_as_well() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, 1)
        lane.submit(CreateTopic("t", 1, {}))
        await produce(lane, b"a")
        await lane.close()
        standby = StandBy(store)
        await standby.begin()
        assert standby.lane.led_by == LedBy(Term(0), 1, "host-1", 9092)

    run(main())


def test_who_stands_by_is_known_to_all_who_follow_and_to_who_takes_over() -> None:
    async def scenario() -> None:
        store = SlotStore()
        nodes = [NodeAddress(number, f"host-{number}", 9092) for number in (2, 3)]
        first = await lead(store, 1)
        first.submit(NoteStandbys.of(reversed(nodes)))
        end = first.mark().position
        first.submit(NoteStandbys.of(nodes))
        assert first.mark().position == end, "it was said already"
        await first.close()
        standby = StandBy(store)
        await standby.begin()
        assert standby.lane.standing_by == nodes, "the checkpoint says so"
        second = await lead(store, 2)
        assert second.view.standing_by == nodes[1:]
        await second.close()

    run(scenario())


def test_where_clients_find_nodes_is_known_to_all_who_follow_and_to_who_takes_over() -> None:
    async def scenario() -> None:
        store = SlotStore()
        nodes = [NodeAddress(number, f"host-{number}", 9092) for number in (2, 3)]
        own = {number: listeners(number) for number in (1, 2, 3)}
        first = await lead(store, 1, own[1])
        first.submit(NoteStandbys.of(nodes, {2: own[2], 3: own[3]}))
        end = first.mark().position
        first.submit(NoteStandbys.of(nodes, {3: own[3], 2: own[2]}))
        assert first.mark().position == end, "it was said already"
        assert first.view.listeners == own
        await first.close()
        standby = StandBy(store)
        await standby.begin()
        assert standby.lane.listeners == own, "the checkpoint says so"
        second = await lead(store, 2, own[2])
        assert second.view.listeners == own
        # The third is of a version before by now, which says nothing of that.
        second.submit(NoteStandbys.of(nodes[1:], {3: ()}))
        assert second.view.listeners == {2: own[2]}
        await second.close()

    run(scenario())


def test_a_version_before_reads_what_is_said_of_nodes_without_their_listeners() -> None:
    class StandingBy(facts.Fact, frozen=True):
        nodes: tuple[tuple[int, str, int], ...]

    class Led(facts.Fact, frozen=True):
        epoch: int
        node_id: int
        host: str
        port: int

    before = msgspec.msgpack.Decoder(StandingBy | Led).decode
    own = listeners(1)
    assert before(facts.encode(facts.Led(3, 1, "host-1", 9092, own))) == Led(3, 1, "host-1", 9092)
    nodes = ((2, "host-2", 9092),)
    said = facts.encode(facts.StandingBy(nodes, ((2, *own[0]),)))
    assert before(said) == StandingBy(nodes)
    assert facts.decode(facts.encode(StandingBy(nodes))) == facts.StandingBy(nodes)


def test_where_lanes_are_led_is_known_to_all_who_follow_lane_0() -> None:
    async def scenario() -> None:
        store = SlotStore()
        first = await lead(store, 1)
        first.submit(AddLanes(4))
        placed = {1: Placement(1), 2: Placement(2, True), 3: Placement(1)}
        first.submit(PlaceLanes(placed))
        newest = LedBy(Term(3), 2, "host-2", 9092)
        first.submit(NoteTaken(2, newest))
        end = first.mark().position
        first.submit(AddLanes(2))
        first.submit(PlaceLanes({2: Placement(2, True)}))
        first.submit(NoteTaken(2, newest))
        first.submit(NoteTaken(2, LedBy(Term(2), 1, "host-1", 9092)))
        assert first.mark().position == end, "it was said, or is not true any more"
        await first.close()
        standby = StandBy(store)
        await standby.begin()
        for known in (standby.lane.lanes, (second := await lead(store, 2)).view.lanes):
            assert known.count == 4
            assert known.placed == placed
            assert known.taken == {2: newest}
        await second.close()

    run(scenario())


def test_an_epoch_is_not_durable_before_it_can_be_told_nor_ever_where_another_leads() -> None:
    """What a successor issues may have the same number."""

    async def scenario() -> None:
        store = SlotStore()
        old = await lead(store, 1)
        name = TransactionalId("id")
        assert old.is_epoch_durable(name)
        old.submit(Transact(name, InitProducer(name, 60_000)))
        assert not old.is_epoch_durable(name)
        await old.until_durable()
        assert old.is_epoch_durable(name)
        new = await lead(store, 2)
        assert new.is_epoch_durable(name)
        old.submit(Transact(name, InitProducer(name, 60_000)))
        new.submit(Transact(name, InitProducer(name, 60_000)))
        await new.until_durable()
        await seeded_loop.elapse(5)
        assert new.is_epoch_durable(name)
        assert not old.is_epoch_durable(name)

    run(scenario())
