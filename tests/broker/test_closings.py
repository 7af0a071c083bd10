"""The log tells of bad connections, and is not filled by them."""

from typing import Any

import pytest

from semel.broker import log
from semel.broker.server import CLOSINGS_INTERVAL_S, Closings
from semel.testing import Broker
from support.raw_client import METRICS, RawClient, metric

Line = tuple[str, dict[str, Any]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """What is written to the log during the test."""
    written: list[Line] = []
    monkeypatch.setattr(log, "warning", lambda event, **values: written.append((event, values)))
    return written


def test_the_first_is_told_at_once_and_the_others_as_a_number_a_minute(lines: list[Line]) -> None:
    closings = Closings()
    closings.note("/a", "no size", 1_000.0)
    assert lines == [("connection closed", {"client": "/a", "reason": "no size"})]
    for number in range(500):
        closings.note(f"/{number}", "bad", 1_000.0 + number / 10)
        closings.tell(1_000.0 + number / 10)
    assert len(lines) == 1
    closings.tell(1_000.0 + CLOSINGS_INTERVAL_S)
    assert lines[1:] == [("connections closed", {"count": 500, "last": "/499", "reason": "bad"})]
    closings.tell(1_000.0 + 5 * CLOSINGS_INTERVAL_S)
    assert len(lines) == 2


def test_after_a_quiet_minute_one_is_told_at_once_again(lines: list[Line]) -> None:
    closings = Closings()
    for minute in range(3):
        closings.note("/a", f"{minute}", 61.0 * minute)
    assert [values["reason"] for _, values in lines] == ["0", "1", "2"]


def test_a_hundred_bad_connections_are_one_line_and_all_are_counted() -> None:
    with Broker(arguments=METRICS) as broker:
        for _ in range(100):
            with RawClient(broker) as client:
                client.send(b"GET / HTTP/1.1\r\n\r\n")
                assert client.is_closed_by_broker
        assert broker.complaints().count("closed") == 1
        assert metric(broker, "semel_requests_malformed") == 100
