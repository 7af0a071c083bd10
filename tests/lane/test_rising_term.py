"""A term that rises: over however many open transactions, in one frame, or it has not risen."""

from random import Random

from semel.groups.settings import GroupSettings
from semel.journal.device import UNKNOWN, DiskIdentity
from semel.journal.journal import Journal
from semel.journal.memory import MemoryDevice
from semel.journal.settings import JournalSettings
from semel.lane import facts
from semel.lane.commands import LaneSettings
from semel.lane.lane import Lane
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.transactions.commands import InitProducer, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import Term, TopicPartition, TransactionalId
from support.handled import LoopClock, SeededRandomness
from support.inside import say
from support.seeded_loop import run

OPEN_COUNT = 400
SEGMENT_BYTES = 64 * 1024
"""Their ends take several times as much."""


def _fail(error: BaseException) -> None:
    raise error


async def _start(device: MemoryDevice) -> Lane:
    journal = Journal.open(device, JournalSettings(segment_bytes=SEGMENT_BYTES))
    settings = LaneSettings(GroupSettings())
    lane = Lane(journal, settings, LoopClock(), SeededRandomness(Random(2)))
    await lane.start(_fail)
    return lane


async def _open_transactions(lane: Lane) -> None:
    lane.submit(CreateTopic("t", 1, {}))
    for number in range(OPEN_COUNT):
        name = TransactionalId(f"id-{number}")
        given = lane.submit(Transact(name, InitProducer(name, 60_000)))
        write = WriteRecords(
            given.producer_id,
            given.producer_epoch,
            frozenset({TopicPartition("t", 0)}),
            Dialect.TV2,
        )
        lane.submit(Transact(name, write))
    await lane.until_durable()


def test_however_many_transactions_are_open_one_frame_ends_them_and_raises_the_term() -> None:
    async def live() -> None:
        device = MemoryDevice(Random(1))
        lane = await _start(device)
        term = lane.state.term
        await _open_transactions(lane)
        assert lane.state.transactions.owed_size > 2 * SEGMENT_BYTES
        device.power_loss()

        risen = await _start(device)
        assert risen.state.term == term + 1
        assert risen.state.transactions.open() == ()
        assert risen.state.transactions.owed_size == 0
        assert risen.state.hosted["t"][0].log_end_offset == OPEN_COUNT
        assert risen.journal.frames_appended == 1
        device.kill()

        again = await _start(device)
        assert again.state.term == term + 1
        assert again.state.hosted["t"][0].log_end_offset == OPEN_COUNT
        assert again.journal.frames_appended == 0

    run(Random(1), live())


def test_a_term_that_rose_under_no_known_disk_rises_again() -> None:
    """As a process left it that died between several frames of one rise."""

    async def live() -> None:
        device = MemoryDevice(Random(1))
        lane = await _start(device)
        term = Term(lane.state.term + 1)
        unproven = DiskIdentity(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        say(lane, facts.Opened(term, unproven))
        await lane.until_durable()
        device.kill()
        assert (await _start(device)).state.term == term + 1

    run(Random(1), live())
