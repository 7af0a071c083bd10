"""What is owed for the end of an open transaction is enough, whichever way it ends."""

from dataclasses import fields
from itertools import product
from random import Random

import pytest

from semel.broker.config import BrokerConfig
from semel.groups.records import GenerationRecorded, size_alone
from semel.groups.settings import STRING_BYTES_MAX, GroupSettings
from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.settings import JournalSettings
from semel.journal.frames import HEADER_SIZE
from semel.lane import frame
from semel.lane.commands import Claim, LaneSettings, kept_size
from semel.lane.lane import Lane
from semel.lane.topics import CreateInternalTopic
from semel.lane.transactions import add_transaction, ending_size
from semel.lane.waiting_room import EXPIRED_SIZE_MAX
from semel.transactions.commands import (
    Abort,
    Command,
    End,
    InitProducer,
    RaiseTerm,
)
from semel.transactions.dialect import Dialect
from semel.transactions.transaction import Status, Transaction
from semel.types import (
    EPOCH_MAX,
    TRANSACTIONS_TOPIC,
    GroupId,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)
from semel.world import Moment
from support.handled import SeededRandomness
from support.seeded_loop import run

PRODUCER_ID = ProducerId(2**60)
NOW_MS = 1_700_000_000_000
LONGEST = 2**15 - 1
NAMES = ("a", "ü" * (LONGEST // 2))
TOPICS = ("t", "x" * 249)
INDEXES = ((), (0,), (0, 1, 2**31 - 1), tuple(range(300)))
EPOCHS = (ProducerEpoch(0), ProducerEpoch(EPOCH_MAX - 1))
SETTINGS = JournalSettings()


AT = Moment(NOW_MS, NOW_MS)


class StoppedClock:
    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


@pytest.fixture(scope="module")
def lane() -> Lane:
    journal = FileJournal.open(MemoryDevice(Random(1)), SETTINGS)
    randomness = SeededRandomness(Random(1))
    lane = Lane(journal, LaneSettings(GroupSettings()), StoppedClock(), randomness)

    async def main() -> None:
        await lane.start(lambda error: None)
        lane.submit(CreateInternalTopic(TRANSACTIONS_TOPIC))
        lane._state.next_producer_id = ProducerId(2**62)
        for topic, index in product(TOPICS, {index for chosen in INDEXES for index in chosen}):
            lane._state.host(topic, [index], lane._state.next_partition_number)

    run(Random(1), main())
    return lane


def open_transactions() -> list[Transaction]:
    return [
        Transaction(
            transactional_id=TransactionalId(name),
            producer_id=PRODUCER_ID,
            producer_epoch=epoch,
            timeout_ms=2**31 - 1,
            status=Status.ONGOING,
            last_producer_epoch=ProducerEpoch(max(epoch - 1, 0)),
            previous_producer_id=ProducerId(2**61),
            partitions=frozenset(
                TopicPartition(topic, index) for topic in topics for index in indexes
            ),
            started_at_ms=NOW_MS,
            last_update_ms=NOW_MS,
            client_version=2,
            epoch_term=Term(0),
            is_doomed=is_doomed,
        )
        for name, epoch, topics, indexes, is_doomed in product(
            NAMES, EPOCHS, ((), TOPICS[:1], TOPICS), INDEXES, (True, False)
        )
    ]


def ways_to_end(value: Transaction) -> list[Command]:
    producer = value.producer_id, value.producer_epoch
    ends: list[Command] = [
        End(*producer, commit, dialect)
        for commit, dialect in product((True, False), Dialect)
        if not (commit and value.is_doomed)
    ]
    named = InitProducer(value.transactional_id, 60_000, *producer)
    return [*ends, InitProducer(value.transactional_id, 60_000), named, Abort(), RaiseTerm()]


def end_of(lane: Lane, value: Transaction, command: Command) -> frame.Frame:
    made = frame.Frame(AT)
    decision, _ = add_transaction(lane._state, lane._environment, made, value, command)
    assert decision.values, command
    return made


def test_no_end_takes_more_than_is_owed_for_it(lane: Lane) -> None:
    for value in open_transactions():
        for command in ways_to_end(value):
            size = HEADER_SIZE + end_of(lane, value, command).size
            assert size <= ending_size(value), (command, value)


def test_what_is_owed_is_not_much_more_than_an_end_takes(lane: Lane) -> None:
    """Or a disk would be called full that is not."""
    for value in open_transactions():
        end = end_of(lane, value, InitProducer(value.transactional_id, 60_000))
        assert ending_size(value) <= end.size + 700


def test_the_smallest_segments_keep_room_for_what_the_groups_do_unasked() -> None:
    (least,) = (
        field.metadata["least"]
        for field in fields(BrokerConfig)
        if field.name == "journal_segment_bytes"
    )
    settings = JournalSettings(segment_bytes=least)
    partition_count = BrokerConfig.offsets_topic_num_partitions
    long = "x" * STRING_BYTES_MAX
    emptied = GenerationRecorded(GroupId(long), long, 2**31 - 1, None, None, 2**63 - 1, ())
    records_size = max(EXPIRED_SIZE_MAX, size_alone(emptied))
    entries_size = frame.ENTRY_SIZE * partition_count
    size = records_size + entries_size + frame.HEAD_SIZE + HEADER_SIZE
    assert size <= settings.headroom - settings.opening_bytes


def test_who_claims_less_leaves_what_others_may_claim() -> None:
    owed = 12_345
    ordinary, ending, promised = (kept_size(claim, owed, SETTINGS.limits) for claim in Claim)
    assert ordinary == SETTINGS.headroom + owed
    assert owed < ending < ordinary
    assert promised == 0
