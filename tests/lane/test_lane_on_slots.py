"""A lane whose journal lies in slots: what moves with it, what a kill aborts, what is read."""

from random import Random

from semel.groups.settings import GroupSettings
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.lane.commands import LaneSettings
from semel.lane.lane import Lane
from semel.lane.partition_log import Stored, Wanted
from semel.lane.producing import Incoming, Produce
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.records import batch as record_batch
from semel.records.records import Record, decode_batch, encode_batch
from semel.transactions.commands import InitProducer, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import Offset, TopicPartition, TransactionalId
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


async def lead(store: SlotStore, node: int) -> Lane:
    journal = await SlotJournal.open(store, 0, node, randomness(node), SETTINGS)
    lane = Lane(journal, LaneSettings(GroupSettings()), LoopClock(), SeededRandomness(Random(node)))
    await lane.start(lambda error: None)
    return lane


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
