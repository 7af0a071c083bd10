"""The oracle of what is forgotten, over histories made by hand."""

import asyncio
import re

import pytest

from semel.types import TopicPartition
from semel.verify.checks.forgetting import check_forgetting
from semel.verify.history import (
    Acknowledged,
    Compacted,
    History,
    Limits,
    RecordMade,
    SpaceSeen,
    Span,
    StartSeen,
    Stored,
    WholeLog,
)
from semel.verify.world.loop import START_MS, Trace

P = TopicPartition("t", 0)
OLD, NEW = "p/t-0/0", "p/t-0/1"
BY_AGE = Limits("t", 1_000, None, 0)
BY_SIZE = Limits("t", None, 500, 0)
BY_KEY = Limits("t", None, None, 60_000)


def found(*events: tuple[object, ...]) -> list[str]:
    loop = asyncio.new_event_loop()
    try:
        history = History(Trace(loop))
    finally:
        loop.close()
    for event in events:
        history.note(event)
    return list(check_forgetting(history))


def made(label: str, at_s: float, key: str | None = None, *, has_value: bool = True) -> RecordMade:
    return RecordMade(P, label, key, has_value, START_MS + int(at_s * 1000))


def told(label: str, offset: int) -> Acknowledged:
    return Acknowledged(Span(0.0, 0.1), "p", P, (label,), -1, offset, 0)


def whole(*records: tuple[int, str], start: int = 0, byte_count: int = 0) -> WholeLog:
    stored = tuple(Stored(offset, 0, label) for offset, label in records)
    return WholeLog(0, P, stored, 2, 2, start, byte_count, 5.0)


def start_seen(offset: int, at_s: float) -> StartSeen:
    return StartSeen(Span(at_s, at_s), P, offset, 2)


VALUES = (BY_KEY, Compacted("t"), made(OLD, 0, "k"), told(OLD, 0), told(NEW, 1))


@pytest.mark.parametrize(
    ("events", "anomaly"),
    [
        ((BY_AGE, made(OLD, 0), told(OLD, 0), start_seen(1, 0.5)), "500 ms before its time"),
        ((BY_AGE, made(OLD, -1), told(OLD, 0), whole((0, OLD))), "5000 ms after its time"),
        ((BY_SIZE, whole((1, NEW), start=1, byte_count=499)), "was cut to 499 of 500 bytes"),
        ((BY_AGE, start_seen(2, 2.0), start_seen(1, 3.0)), "though it had begun at 2"),
        ((*VALUES, made(NEW, 0, "k"), whole((0, OLD))), f"k of t-0 is {OLD} .* again"),
        ((*VALUES, made(NEW, 0, "k"), whole()), "k of t-0 is gone"),
        ((*VALUES, made(NEW, 0, "k", has_value=False), whole()), "k of t-0 is gone"),
        ((BY_AGE, SpaceSeen(0, 5_000_000, 100)), "the disk holds 5000000 bytes"),
    ],
)
def test_it_is_named(events: tuple[tuple[object, ...], ...], anomaly: str) -> None:
    names = found(*events)
    assert any(re.search(anomaly, name) for name in names), names


@pytest.mark.parametrize(
    "events",
    [
        (BY_AGE, made(OLD, 0), told(OLD, 0), start_seen(1, 1.1)),
        (BY_SIZE, whole((1, NEW), start=1, byte_count=500)),
        (*VALUES, made(NEW, 0, "k"), whole((1, NEW))),
        (*VALUES, made(NEW, 0, "k", has_value=False), whole((1, NEW))),
        (
            BY_KEY._replace(delete_retention_ms=1_000),
            *VALUES[1:],
            made(NEW, 0, "k", has_value=False),
            whole(),
        ),
    ],
)
def test_what_goes_in_time_is_no_anomaly(events: tuple[tuple[object, ...], ...]) -> None:
    assert not found(*events)
