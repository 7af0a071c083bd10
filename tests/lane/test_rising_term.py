"""A term that rises: over however many open transactions, in one frame, or it has not risen."""

from collections.abc import Callable
from random import Random

import msgspec

from semel.groups.settings import GroupSettings
from semel.journal.file import note
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.note import Note
from semel.journal.file.settings import JournalSettings
from semel.lane import facts
from semel.lane.commands import LaneSettings
from semel.lane.lane import Lane
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.transactions.commands import InitProducer, WriteRecords
from semel.transactions.dialect import Dialect
from semel.types import TopicPartition, TransactionalId
from support.handled import LoopClock, SeededRandomness
from support.inside import partitions_of
from support.seeded_loop import run

OPEN_COUNT = 400
SEGMENT_BYTES = 64 * 1024
"""Their ends take several times as much."""


def _fail(error: BaseException) -> None:
    raise error


async def _start(device: MemoryDevice, on_warning: Callable[[str], None] | None = None) -> Lane:
    journal = FileJournal.open(device, JournalSettings(segment_bytes=SEGMENT_BYTES))
    settings = LaneSettings(GroupSettings())
    lane = Lane(journal, settings, LoopClock(), SeededRandomness(Random(2)))
    await lane.start(_fail, on_warning)
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
        term = lane._state.term
        await _open_transactions(lane)
        assert lane._state.transactions.owed_size > 2 * SEGMENT_BYTES
        device.power_loss()

        risen = await _start(device)
        assert risen._state.term == term + 1
        assert risen._state.transactions.open() == ()
        assert risen._state.transactions.owed_size == 0
        assert partitions_of(risen._state, "t")[0].log_end_offset == OPEN_COUNT
        assert risen._journal.frames_appended == 1
        device.kill()

        again = await _start(device)
        assert again._state.term == term + 1
        assert partitions_of(again._state, "t")[0].log_end_offset == OPEN_COUNT
        assert again._journal.frames_appended == 0

    run(Random(1), live())


def test_the_first_start_after_an_upgrade_raises_the_term_once() -> None:
    """What version 0.1 has noted does not say where the journal was."""

    async def live() -> None:
        device = MemoryDevice(Random(1))
        lane = await _start(device)
        term = lane._state.term
        await _open_transactions(lane)
        await lane._journal.close()
        note.write(device, Note(1, lane._journal.durable))

        for _ in range(3):
            upgraded = await _start(device)
            assert upgraded._state.term == term + 1
            assert upgraded._state.transactions.open() == ()
            device.kill()

    run(Random(1), live())


def test_what_version_0_1_said_of_the_disk_is_read_over() -> None:
    identity = {"boot_id": "b", "device": "d", "inode": "i", "mount": "m"}
    stored = msgspec.msgpack.encode(["Opened", 7, identity])
    assert facts.decode(stored) == facts.Opened(7)


def test_a_term_that_rises_is_told_and_the_first_one_is_not() -> None:
    async def live() -> None:
        device = MemoryDevice(Random(1))
        told: list[str] = []
        await _open_transactions(await _start(device, told.append))
        device.kill()
        await _start(device, told.append)
        assert told == []
        device.power_loss()
        await _start(device, told.append)
        (line,) = told
        assert f"leader epoch is 1 now, and {OPEN_COUNT} open transactions were aborted" in line

    run(Random(1), live())
