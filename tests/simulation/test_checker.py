"""The oracle names each anomaly in a history made by hand, and none in a history without any."""

import asyncio
import re
from collections.abc import Iterable

import pytest

from semel.types import TopicPartition
from semel.verify.checks.checker import anomalies
from semel.verify.history import (
    Acknowledged,
    Assigned,
    Beaten,
    Cause,
    Committed,
    CommitTried,
    Compacted,
    Complaint,
    Deleted,
    DeletionTried,
    Died,
    EndSeen,
    Expelled,
    Fetched,
    FetchRefused,
    Forbidden,
    History,
    Joined,
    MayBeGone,
    NotServing,
    OffsetSeen,
    OpenFailed,
    ProducerIdGiven,
    Refused,
    Sent,
    Span,
    Stored,
    TakenOver,
    TermEndSeen,
    TermSeen,
    TopicMade,
    TopicSeen,
    WholeLog,
)
from semel.verify.judging.judge import judge
from semel.verify.noted import operations_of
from semel.verify.world.loop import Trace

P = TopicPartition("t", 0)
A, B, C = "p/t-0/0", "p/t-0/1", "p/t-0/2"
LOG = (Stored(0, 0, A), Stored(1, 0, B), Stored(2, 1, C))


def at(second: float) -> Span:
    """Asked and answered within a tenth of a second."""
    return Span(second, second + 0.1)


def sent(*labels: str, acks: int = -1) -> Sent:
    return Sent("p", P, labels, acks, is_idempotent=True, is_repeated=True)


def acknowledged(second: float, offset: int, *labels: str, acks: int = -1) -> Acknowledged:
    return Acknowledged(at(second), "p", P, labels, acks, offset, term=0)


def fetched(second: float, from_offset: int, *records: Stored, end: int = 3) -> Fetched:
    return Fetched(at(second), "r", P, from_offset, records, end)


def whole(*records: Stored, number: int = 0) -> WholeLog:
    return WholeLog(number, P, records, len(records))


def later(start: int, *records: Stored, number: int = 0) -> WholeLog:
    return WholeLog(number, P, records, 3, log_start_offset=start)


def history_of(events: Iterable[tuple[object, ...]]) -> History:
    loop = asyncio.new_event_loop()
    try:
        history = History(Trace(loop))
        for event in events:
            history.note(event)
        return history
    finally:
        loop.close()


def found(events: Iterable[tuple[object, ...]]) -> list[str]:
    return anomalies(history_of(events))


def judged(events: Iterable[tuple[object, ...]]) -> list[str]:
    """By the definitions that clients of any cluster are held against."""
    return [str(each) for each in judge(operations_of(history_of(events))).anomalies]


GOOD = (
    ProducerIdGiven("p", 1),
    ProducerIdGiven("q", 2),
    sent(A),
    sent(B, C),
    acknowledged(1, 0, A),
    Died(2.0, Cause.POWER_LOSS),
    acknowledged(3, 1, B, C),
    TermSeen(at(1), 0),
    TermSeen(at(3), 1),
    fetched(4, 0, *LOG),
    EndSeen(at(5), P, 3),
    TermEndSeen(at(5), P, 0, 2, term=1),
    Joined(at(1), "g", "m", 1),
    Assigned(at(1), "g", "m", 1, (P,)),
    Assigned(at(2), "g", "n", 2, (P,)),
    Beaten(at(2), "m", kept_s=1.0),
    Expelled(at(3), "m"),
    CommitTried("g", P, 5),
    Committed(at(3), "g", P, 5),
    OffsetSeen(at(4), "g", P, 5),
    TopicMade(at(1), "t", 1),
    TopicSeen(at(2), "t", 1),
    TopicMade(at(1), "u", 2),
    DeletionTried(3.0, "u"),
    Deleted(at(3), "u"),
    TopicSeen(at(4), "u", 0),
    whole(*LOG),
    whole(*LOG, number=1),
)


def test_a_history_without_anomalies_has_none() -> None:
    assert found(GOOD) == []


TOLD = GOOD[:-2]
"""All but the logs at rest."""


@pytest.mark.parametrize(
    "events",
    [
        # It begins later, for a reason, also before it had come to rest.
        [*TOLD, MayBeGone(P, 1), later(1, *LOG[1:]), later(1, *LOG[1:], number=1)],
        [*TOLD, MayBeGone(P, 2), later(1, *LOG[1:]), later(2, LOG[2], number=1)],
        [*TOLD, MayBeGone(P, 3), later(3), later(3, number=1)],
        [*TOLD, MayBeGone(P, 1), later(1, *LOG[1:]), FetchRefused("r", P, 0, 1)],
        # It has gaps where it is compacted.
        [*TOLD, Compacted("t"), later(0, LOG[0], LOG[2]), later(0, LOG[2], number=1)],
        [*TOLD, Compacted("t"), later(0, *LOG), fetched(6, 0, LOG[0], LOG[2])],
        [*TOLD, Compacted("t"), later(0, LOG[2]), fetched(6, 1, LOG[2])],
    ],
)
def test_what_may_be_gone_is_no_anomaly(events: list[tuple[object, ...]]) -> None:
    assert found(events) == []


BAD: dict[str, tuple[tuple[object, ...], ...]] = {
    "was acknowledged .* there is nothing": (sent(A), acknowledged(1, 0, A), whole()),
    "was acknowledged .* there is p/t-0/0": (sent(A, B), acknowledged(1, 0, B), whole(LOG[0])),
    r"acknowledged \(acks=1\)": (
        sent(A, acks=1),
        acknowledged(1, 0, A, acks=1),
        Died(1.2, Cause.KILLED),
        whole(),
    ),
    "stands twice": (sent(A), whole(Stored(0, 0, A), Stored(1, 0, A))),
    "out of order at 1": (sent(A, B, acks=1), whole(Stored(0, 0, B), Stored(1, 0, A))),
    "follows a hole": (sent(A, B), whole(Stored(0, 0, B))),
    "never sent": (whole(LOG[0]),),
    "refused as out of order": (Refused("p", P, (A,), -1, 45, True, False),),
    "has 0 other ones": (sent(A), whole(LOG[0]), whole(number=1)),
    "behind 1": (sent(A, B), whole(Stored(0, 1, A), Stored(1, 0, B))),
    "term 0 of t-0 was said to end": (*GOOD, TermEndSeen(at(6), P, 0, 3, term=1)),
    "is p/t-0/0 now and was": (
        sent(A, B, acks=1),
        acknowledged(1, 0, B, acks=1),
        Died(1.05, Cause.POWER_LOSS),
        whole(Stored(0, 0, A)),
    ),
    "the term stayed": (TermSeen(at(1), 0), Died(2.0, Cause.POWER_LOSS), TermSeen(at(3), 0)),
    "the term rose": (TermSeen(at(1), 0), Died(2.0, Cause.KILLED), TermSeen(at(3), 1)),
    "the term fell": (TermSeen(at(1), 1), TermSeen(at(3), 0)),
    "which is gone": (sent(A), fetched(1, 0, LOG[0], end=1), whole()),
    "has gaps": (*GOOD, fetched(6, 0, LOG[0], LOG[2])),
    "began at 1": (*GOOD, fetched(6, 0, LOG[1])),
    "not below the high watermark": (*GOOD, fetched(1, 0, LOG[0], end=0)),
    "end at 2 .* 3 was known": (*GOOD, EndSeen(at(6), P, 2)),
    "end at 0 .* 1 was known": (acknowledged(1, 0, A), EndSeen(at(2), P, 0)),
    "begins at 1, and only 0": (*TOLD, later(1, *LOG[1:])),
    "begins at 2, and only 1": (*TOLD, MayBeGone(P, 1), later(2, LOG[2])),
    "began at 1 and begins at 0": (
        *TOLD,
        MayBeGone(P, 1),
        later(1, *LOG[1:]),
        later(0, *LOG[1:], number=1),
    ),
    "has offset 2 in place of 1": (sent(A, B, C, acks=1), later(0, LOG[0], LOG[2])),
    "has nothing from 1 to its end at 3": (sent(A), later(0, LOG[0])),
    "goes back": (*TOLD, Compacted("t"), later(0, *LOG), fetched(6, 0, LOG[2], LOG[1])),
    "has 2 other ones": (
        *TOLD,
        Compacted("t"),
        later(0, LOG[2]),
        later(0, LOG[1], LOG[2], number=1),
    ),
    "was refused offset 1": (
        *TOLD,
        MayBeGone(P, 1),
        later(1, *LOG[1:]),
        FetchRefused("r", P, 1, 1),
    ),
    "where there is p/t-0/1": (
        sent(A, B),
        acknowledged(1, 0, A),
        Compacted("t"),
        later(0, Stored(0, 0, B)),
    ),
    "was refused offset 7": (FetchRefused("r", P, 7, 1),),
    "belongs to m and to n": (
        Assigned(at(1), "g", "m", 1, (P,)),
        Assigned(at(1), "g", "n", 1, (P,)),
    ),
    "m was expelled at 2.900": (Beaten(at(2), "m", kept_s=1.0), Expelled(at(2.8), "m")),
    "went back from generation 2 to 1": (*GOOD, Joined(at(6), "g", "m", 1)),
    "had 5 committed": (*GOOD, CommitTried("g", P, 4), OffsetSeen(at(6), "g", P, 4)),
    "which no one committed": (OffsetSeen(at(1), "g", P, 9),),
    "was made with 1 partitions and has 0": (*GOOD, TopicSeen(at(6), "t", 0)),
    "was deleted and is there": (*GOOD, TopicSeen(at(6), "u", 2)),
    "producer id 1 was given": (*GOOD, ProducerIdGiven("z", 1)),
    "it was not refused": (Forbidden("anything"),),
    "could not open": (OpenFailed("damage"),),
    "ended by itself": (Died(1.0, Cause.CRASHED),),
    "left to the loop": (Complaint("ValueError"),),
    "not serving": (NotServing("nothing"),),
}


@pytest.mark.parametrize("anomaly", BAD)
def test_each_anomaly_is_named(anomaly: str) -> None:
    named = found(BAD[anomaly])
    assert len(named) == 1
    assert re.search(anomaly, named[0])


def test_answers_that_overlap_may_come_in_either_order() -> None:
    early, late = Span(1.0, 2.0), Span(1.5, 1.7)
    assert not found((EndSeen(early, P, 0), EndSeen(late, P, 3)))


def test_what_was_written_long_before_a_power_loss_is_not_lost() -> None:
    lost = (sent(A, acks=1), acknowledged(1, 0, A, acks=1), Died(5.0, Cause.POWER_LOSS), whole())
    assert len(found(lost)) == 1
    soon = (sent(A, acks=1), acknowledged(1, 0, A, acks=1), Died(1.2, Cause.POWER_LOSS), whole())
    assert not found(soon)


def test_what_was_acknowledged_once_written_dies_with_a_leader_that_was_fenced_soon_after() -> None:
    one = (sent(A, acks=1), acknowledged(1, 0, A, acks=1))
    durable = (sent(A), acknowledged(1, 0, A))
    soon, late = TakenOver(1.2, 0), TakenOver(5.0, 0)
    for check in (found, judged):
        assert not check((*one, soon, whole()))
        assert len(check((*one, late, whole()))) == 1
        assert len(check((*durable, soon, whole()))) == 1


def test_a_record_without_a_sequence_may_come_late_and_once() -> None:
    plain = [Sent("p", P, (label,), 1, is_idempotent=False) for label in (A, B, C)]
    told = (acknowledged(1, 0, B, acks=1), acknowledged(2, 1, C, acks=1))
    in_order = Stored(0, 0, B), Stored(1, 0, C)
    late = (*in_order, Stored(2, 0, A))
    assert not found((*plain, *told, whole(*late)))
    twice = (*late, Stored(3, 0, A))
    assert found((*plain, *told, whole(*twice)))
    swapped = Stored(0, 0, C), Stored(1, 0, B)
    told = (acknowledged(1, 0, C, acks=1), acknowledged(2, 1, B, acks=1))
    assert found((*plain, *told, whole(*swapped)))
