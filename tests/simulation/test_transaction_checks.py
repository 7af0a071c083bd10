"""The oracle names each broken promise of transactions in a history made by hand."""

import asyncio
import re
from collections.abc import Iterable

import pytest

from semel.types import TopicPartition
from semel.verify.checks.checker import anomalies
from semel.verify.history import (
    ABORT_MARKER,
    COMMIT_MARKER,
    Began,
    CommitSent,
    CommittedFetched,
    CommitTried,
    Compacted,
    Ended,
    EpochGiven,
    Fetched,
    History,
    MayBeGone,
    OffsetSeen,
    OffsetsWritten,
    Outcome,
    Span,
    StableEndSeen,
    Stored,
    TimedOut,
    Unwelcome,
    WholeLog,
    WriteAcknowledged,
    Written,
)
from semel.verify.world.loop import Trace

P, Q, INPUT = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("in", 0)
Event = tuple[object, ...]


def at(second: float) -> Span:
    return Span(second, second + 0.1)


def record(offset: int, label: str, epoch: int = 0) -> Stored:
    return Stored(offset, 0, label, 7, epoch)


def whole(partition: TopicPartition, *records: Stored, stable: int | None = None) -> WholeLog:
    end = len(records)
    return WholeLog(0, partition, records, end, end if stable is None else stable)


def left(partition: TopicPartition, start: int, end: int, *records: Stored) -> WholeLog:
    """Behind what is gone."""
    return WholeLog(0, partition, records, end, end, start)


def given(second: float, incarnation: str, epoch: int, *, is_new: bool = True) -> EpochGiven:
    return EpochGiven(at(second), "x", incarnation, 7, epoch, is_new)


def began(attempt: str, incarnation: str = "one") -> Began:
    return Began(attempt, "x", incarnation, "TV2")


def read(second: float, to: int, *records: Stored, stable: int = 9) -> CommittedFetched:
    return CommittedFetched(at(second), "r", P, 0, to, records, stable, 9)


WRITTEN: list[Event] = [began("A"), Written("A", P, ("a0",)), Written("A", Q, ("a1",))]
COMMITTED: list[Event] = [CommitSent(1.0, "A"), Ended(at(1.0), "A", Outcome.COMMITTED)]
LOG_P = whole(P, record(0, "a0"), record(1, COMMIT_MARKER))
LOG_Q = whole(Q, record(0, "a1"), record(1, COMMIT_MARKER))
ABORTED_Q = whole(Q, record(0, "a1"), record(1, ABORT_MARKER))
COPIED: list[Event] = [
    began("A"),
    Written("A", P, ("a0",)),
    OffsetsWritten("A", "g", INPUT, 2, (0, 1)),
    CommitTried("g", INPUT, 2),
]


TWO: list[Event] = [began("A"), Written("A", P, ("a0", "a1"))]
TWO_STORED = (record(0, "a0"), record(1, "a1"), record(2, COMMIT_MARKER))


def found(events: Iterable[Event]) -> list[str]:
    loop = asyncio.new_event_loop()
    history = History(Trace(loop))
    loop.close()
    for event in events:
        history.note(event)
    return anomalies(history)


@pytest.mark.parametrize(
    "events",
    [
        [*WRITTEN, *COMMITTED, LOG_P, LOG_Q],
        [*WRITTEN, CommitSent(1.0, "A"), LOG_P, LOG_Q],
        [*WRITTEN, CommitSent(1.0, "A"), ABORTED_Q],
        [*WRITTEN, ABORTED_Q],
        [*WRITTEN, *COMMITTED, LOG_P, LOG_Q, read(2, 2, record(0, "a0"))],
        [given(1, "one", 0), given(2, "one", 1, is_new=False), given(3, "two", 2)],
        [*COPIED, *COMMITTED, LOG_P, OffsetSeen(at(2), "g", INPUT, 2)],
        [TimedOut(at(2), "A", began_s=1.0, timeout_s=1.0)],
        # What is gone before the start of a log, or from one that is compacted, is not torn.
        [*TWO, *COMMITTED, MayBeGone(P, 1), left(P, 1, 3, *TWO_STORED[1:])],
        [*TWO, *COMMITTED, MayBeGone(P, 3), left(P, 3, 3)],
        [*TWO, *COMMITTED, Compacted("t"), left(P, 0, 3, TWO_STORED[0], TWO_STORED[2])],
        [
            *TWO,
            *COMMITTED,
            MayBeGone(P, 1),
            left(P, 1, 3, *TWO_STORED[1:]),
            read(2, 3, *TWO_STORED[:2]),
        ],
        [
            *TWO,
            *COMMITTED,
            Compacted("t"),
            left(P, 0, 3, *TWO_STORED[1:]),
            read(2, 3, *TWO_STORED[:2]),
        ],
        [
            *COPIED[:2],
            OffsetsWritten("A", "g", INPUT, 2, (1,)),
            CommitTried("g", INPUT, 2),
            *COMMITTED,
            LOG_P,
            MayBeGone(INPUT, 2),
            left(INPUT, 2, 2),
            OffsetSeen(at(2), "g", INPUT, 2),
        ],
    ],
)
def test_nothing_is_wrong_with(events: list[Event]) -> None:
    assert found(events) == []


@pytest.mark.parametrize(
    ("events", "anomaly"),
    [
        ([*WRITTEN, *COMMITTED, LOG_P, ABORTED_Q], "was committed and is not whole"),
        ([*WRITTEN, *COMMITTED, LOG_P], "was committed and is not whole"),
        (
            [
                *WRITTEN,
                *COMMITTED,
                whole(P, record(0, "a0"), record(1, "a0"), record(2, COMMIT_MARKER)),
                LOG_Q,
            ],
            "was committed and is not whole",
        ),
        (
            # A start that moves takes the first records, and not those behind them.
            [
                *TWO,
                *COMMITTED,
                MayBeGone(P, 1),
                left(P, 1, 3, record(1, "a0"), record(2, COMMIT_MARKER)),
            ],
            "was committed and is not whole",
        ),
        (
            [
                *TWO,
                *COMMITTED,
                Compacted("t"),
                left(P, 0, 3, record(0, "a1"), record(1, "a0"), record(2, COMMIT_MARKER)),
            ],
            "was committed and is not whole",
        ),
        (
            [
                *TWO,
                *COMMITTED,
                Compacted("t"),
                left(P, 0, 3, *TWO_STORED),
                read(2, 3, TWO_STORED[1]),
            ],
            "without committed",
        ),
        ([*WRITTEN, LOG_P, LOG_Q], "was not committed and is visible"),
        (
            [
                *WRITTEN,
                CommitSent(1.0, "A"),
                Ended(at(1.0), "A", Outcome.ABORTED),
                LOG_P,
                LOG_Q,
            ],
            "was not committed and is visible",
        ),
        ([*WRITTEN, CommitSent(1.0, "A"), LOG_P, ABORTED_Q], "is torn"),
        ([*WRITTEN, whole(P, record(0, "a0"))], "never committed or aborted"),
        ([whole(P, stable=-1)], "is stuck"),
        ([whole(P, record(0, "z"), record(1, COMMIT_MARKER))], "which no transaction wrote"),
        ([*WRITTEN, ABORTED_Q, whole(P), read(2, 2, record(0, "a0"))], "with uncommitted"),
        ([*WRITTEN, *COMMITTED, LOG_P, LOG_Q, read(2, 2)], "without committed"),
        ([read(2, 5, stable=4)], "beyond the last stable offset"),
        ([read(1, 0, stable=4), read(2, 0, stable=3)], "went back from 4 to 3"),
        ([read(1, 0, stable=4), StableEndSeen(at(2), P, 3)], "went back from 4 to 3"),
        (
            [
                *WRITTEN,
                *COMMITTED,
                LOG_P,
                LOG_Q,
                WriteAcknowledged(at(0.5), "A", P, 0, 1),
                Fetched(at(2), "r", P, 0, (), 1),
            ],
            "a transaction up to 2 was committed before",
        ),
        ([TimedOut(at(2), "A", 1.2, 1.0)], "aborted by its timer after 0.900 of 1.0 s"),
        ([given(1, "one", 3), given(2, "two", 3)], "was given to one and to two"),
        (
            [whole(P, record(0, ABORT_MARKER, epoch=2), record(1, ABORT_MARKER, epoch=1))],
            "has an epoch that is over",
        ),
        (
            [
                given(1, "one", 0),
                given(2, "two", 1),
                began("A"),
                WriteAcknowledged(at(3), "A", P, 0, 1),
            ],
            "though it was fenced before",
        ),
        (
            [
                given(0, "one", 0),
                given(0.5, "two", 1),
                *WRITTEN,
                *COMMITTED,
                LOG_P,
                LOG_Q,
            ],
            "was committed though it was fenced before",
        ),
        (
            [
                given(0, "one", 0),
                given(0.5, "two", 1),
                began("A"),
                Written("A", P, ("a0",)),
                Fetched(at(2), "r", P, 0, (), 0),
                whole(P, record(0, "a0"), record(1, ABORT_MARKER)),
            ],
            "by one who was fenced before",
        ),
        ([Unwelcome("A", "TV2", "EndTxn", 51)], "was answered with 51"),
        ([*COPIED, *COMMITTED, LOG_P, OffsetSeen(at(0.5), "g", INPUT, 2)], "before any"),
        ([*COPIED, LOG_P, OffsetSeen(at(2), "g", INPUT, 2)], "before any"),
        ([*COPIED, *COMMITTED, LOG_P, OffsetSeen(at(2), "g", INPUT, -1)], "though they stand"),
        ([*COPIED, *COMMITTED, OffsetSeen(at(2), "g", INPUT, 2)], r"\[0, 1\] were not copied"),
    ],
)
def test_it_names(events: list[Event], anomaly: str) -> None:
    assert any(re.search(anomaly, each) for each in found(events)), found(events)
