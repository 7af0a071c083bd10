"""Told as sequences of events: what went wrong in other brokers, or in ours without a rule."""

import random

import pytest

from semel.broker.transactional import LateRequests
from semel.transactions.commands import AddPartitions, End, InitProducer
from semel.transactions.dialect import Dialect
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Offset,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
)
from support.transaction_lane import PARTITIONS, Lane, Produce, Reply, Request

ID = TransactionalId("orders")
P0, P1, _ = PARTITIONS
TV1, TV2 = Dialect.TV1, Dialect.TV2
FENCED, STALE_EPOCH, UNKNOWN_PRODUCER, ABORTABLE = 90, 47, 59, 120

Producer = tuple[ProducerId, ProducerEpoch]


class Story:
    """One client that speaks to a small broker, on connections that it names by their numbers."""

    def __init__(self, dialect: Dialect) -> None:
        self.lane = Lane(random.Random(0))
        self.dialect = dialect

    def ask(
        self, body: Produce | AddPartitions | End | InitProducer, connection: int = 1
    ) -> Reply | None:
        reply, _ = self.lane.handle(Request(ID, self.dialect, body), connection)
        return reply

    def code(self, body: Produce | AddPartitions | End | InitProducer, connection: int = 1) -> int:
        reply = self.ask(body, connection)
        assert reply is not None
        return reply.code

    def init(self, named: Producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)) -> Producer:
        reply = self.ask(InitProducer(ID, 60_000, *named))
        self.lane.flush()
        assert reply is not None
        assert reply.code == 0
        return reply.producer_id, reply.producer_epoch

    def lose_power(self) -> None:
        """All that was not durable is gone."""
        del self.lane.frames[self.lane.durable :]
        self.lane.crash(power_lost=True)

    def shown(self) -> list[str]:
        self.lane.flush()
        partitions = self.lane.state.partitions.values()
        return sorted(record for one in partitions for record in one.read_committed(Offset(0)))


def test_tv2_a_transaction_whose_opening_was_lost_cannot_commit_the_rest() -> None:
    story = Story(TV2)
    who = story.init()
    assert story.code(Produce(*who, P0, 0, ("A",))) == 0
    story.lose_power()
    assert story.code(Produce(*who, P1, 0, ("B",))) == ABORTABLE
    assert story.code(End(*who, True, TV2)) == ABORTABLE
    reply = story.ask(End(*who, False, TV2))
    assert reply == Reply(0, who[0], ProducerEpoch(who[1] + 1))
    assert story.shown() == []


def test_tv1_a_transaction_that_lost_its_first_records_cannot_go_on() -> None:
    story = Story(TV1)
    who = story.init()
    story.code(AddPartitions(*who, frozenset({P0})))
    story.lane.flush()
    assert story.code(Produce(*who, P0, 0, ("A",))) == 0
    story.lose_power()
    assert story.code(AddPartitions(*who, frozenset({P1}))) == UNKNOWN_PRODUCER
    assert story.code(End(*who, True, TV1)) == UNKNOWN_PRODUCER
    assert story.code(End(*who, False, TV1)) == 0
    assert story.code(AddPartitions(*who, frozenset({P1}))) == UNKNOWN_PRODUCER
    again = story.init(who)
    assert again == (who[0], who[1] + 1)
    story.code(AddPartitions(*again, frozenset({P1})))
    assert story.code(Produce(*again, P1, 0, ("B",))) == 0
    assert story.code(End(*again, True, TV1)) == 0
    assert story.shown() == ["B"]


def test_tv1_a_lost_transaction_is_not_answered_by_the_commit_before_it() -> None:
    story = Story(TV1)
    who = story.init()
    story.code(AddPartitions(*who, frozenset({P0})))
    story.code(Produce(*who, P0, 0, ("first",)))
    assert story.code(End(*who, True, TV1)) == 0
    story.lane.flush()
    story.code(AddPartitions(*who, frozenset({P0})))
    assert story.code(Produce(*who, P0, 1, ("second",))) == 0
    story.lose_power()
    assert story.code(End(*who, True, TV1)) == FENCED
    assert story.shown() == ["first"]


def test_a_killed_process_loses_no_open_transaction() -> None:
    story = Story(TV2)
    who = story.init()
    story.code(Produce(*who, P0, 0, ("A",)))
    story.lane.crash(power_lost=False)
    story.code(Produce(*who, P1, 0, ("B",)))
    assert story.code(End(*who, True, TV2)) == 0
    assert story.shown() == ["A", "B"]


@pytest.mark.parametrize("with_rule", [True, False])
def test_kafka_17754_a_delayed_end_hits_the_next_transaction_only_without_rule_12(
    with_rule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client aborts; the request is delayed, and retried on a new connection."""
    if not with_rule:
        monkeypatch.setattr(LateRequests, "admit", lambda *arguments: True)
    story = Story(TV1)
    who = story.init()
    story.code(AddPartitions(*who, frozenset({P0})))
    story.code(Produce(*who, P0, 0, ("first",)))
    delayed = End(*who, False, TV1)
    assert story.code(delayed, connection=2) == 0
    story.code(AddPartitions(*who, frozenset({P0})), connection=2)
    story.code(Produce(*who, P0, 1, ("second",)), connection=2)
    arrived = story.ask(delayed, connection=1)
    if with_rule:
        assert arrived is None, "its connection is closed"
        assert story.code(End(*who, True, TV1), connection=2) == 0
        assert story.shown() == ["second"]
    else:
        assert arrived is not None
        assert story.code(End(*who, True, TV1), connection=2) != 0


@pytest.mark.parametrize("with_rule", [True, False])
def test_kafka_17754_a_delayed_record_of_an_aborted_transaction_is_committed_only_without_rule_12(
    with_rule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_rule:
        monkeypatch.setattr(LateRequests, "admit", lambda *arguments: True)
    story = Story(TV1)
    who = story.init()
    story.code(AddPartitions(*who, frozenset({P0})))
    story.code(Produce(*who, P0, 0, ("first",)), connection=2)
    delayed = Produce(*who, P0, 1, ("aborted",))
    story.code(End(*who, False, TV1), connection=2)
    story.code(AddPartitions(*who, frozenset({P0})), connection=2)
    story.code(Produce(*who, P0, 0, ("second",)), connection=2)
    arrived = story.ask(delayed, connection=1)
    assert (arrived is None) is with_rule
    assert story.code(End(*who, True, TV1), connection=2) == 0
    assert ("aborted" in story.shown()) is not with_rule


def test_a_delayed_record_that_comes_first_dooms_the_transaction_it_hits() -> None:
    """Its own transaction was aborted; the sequence is used again, for another record."""
    story = Story(TV1)
    who = story.init()
    delayed = Produce(*who, P0, 0, ("aborted",))
    story.code(AddPartitions(*who, frozenset({P0})))
    story.code(End(*who, False, TV1), connection=2)
    story.code(AddPartitions(*who, frozenset({P0})), connection=2)
    assert story.code(delayed, connection=1) == 0
    assert story.code(Produce(*who, P0, 0, ("second",)), connection=2) == UNKNOWN_PRODUCER
    assert story.code(End(*who, True, TV1), connection=2) == UNKNOWN_PRODUCER
    story.lane.crash(power_lost=False)
    assert story.code(End(*who, True, TV1), connection=2) == UNKNOWN_PRODUCER
    assert story.code(End(*who, False, TV1), connection=2) == 0
    assert story.shown() == []


def test_a_committed_record_is_not_stored_again_after_an_abort() -> None:
    story = Story(TV1)
    who = story.init()
    committed = Produce(*who, P0, 0, ("committed",))
    story.code(AddPartitions(*who, frozenset({P0})))
    story.code(committed)
    story.code(End(*who, True, TV1))
    story.code(AddPartitions(*who, frozenset({P0})))
    story.code(Produce(*who, P0, 1, ("aborted",)))
    story.code(End(*who, False, TV1))
    story.code(AddPartitions(*who, frozenset({P0})))
    assert story.code(committed) == 0
    story.code(End(*who, True, TV1))
    assert story.shown() == ["committed"]


def test_many_connections_may_share_one_producer_under_tv2() -> None:
    story = Story(TV2)
    who = story.init()
    for connection, partition in ((3, PARTITIONS[0]), (1, PARTITIONS[1]), (2, PARTITIONS[2])):
        assert story.code(Produce(*who, partition, 0, (str(connection),)), connection) == 0
    assert story.code(End(*who, True, TV2), connection=1) == 0
    assert story.shown() == ["1", "2", "3"]


def test_a_zombie_is_told_so_by_every_request() -> None:
    for dialect in (TV1, TV2):
        story = Story(dialect)
        zombie = story.init()
        if dialect is TV1:
            story.code(AddPartitions(*zombie, frozenset({P0})))
        story.code(Produce(*zombie, P0, 0, ("old",)))
        story.init()
        assert story.code(Produce(*zombie, P0, 1, ("older",))) == STALE_EPOCH
        assert story.code(End(*zombie, True, dialect)) == FENCED
        assert story.shown() == []
