"""What a listener's log says of failures, and that no storm of them fills a disk."""

import logging
from collections.abc import Callable, Iterator

import pytest

from semel.app.failure import Failure
from semel.app.failure_log import FailureLog
from semel.client.consuming.record import Record

STORM = 5_000
LINES_MAX = 60
"""In ten seconds, of what each kind of failure may write together."""


class Clock:
    now_ms = 1_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.INFO, "semel.app"):
        yield lambda: [record.getMessage() for record in caplog.records]


def failure(offset: int, attempt: int = 1, error: Exception | None = None) -> Failure:
    record = Record(topic="orders", partition=3, offset=offset, key=b"k", value=b"v")
    return Failure(record, error or ValueError("no price"), attempt)


def test_each_failure_is_a_line_with_its_place_and_cause(lines: Callable[[], list[str]]) -> None:
    log = FailureLog("bill", Clock())
    log.retried([failure(7, 2)], 4)
    log.laid_aside([failure(7, 4)], "orders.dead")
    log.in_doubt(40, KeyError("price"))
    log.set_back(OSError("gone"), is_of_group=False)
    assert lines() == [
        "listener bill: the record at orders-3 offset 7 failed, attempt 2 of 4, and is tried "
        "again: ValueError: no price",
        "listener bill: the record at orders-3 offset 7 failed 4 times and was laid aside in "
        "orders.dead: ValueError: no price",
        "listener bill: a batch of 40 records failed and is tried in smaller parts: "
        "KeyError: 'price'",
        "listener bill: nothing of a cycle was committed, and it is done again: OSError: gone",
    ]


def test_a_cause_of_many_lines_is_one_and_a_long_one_is_cut(
    lines: Callable[[], list[str]],
) -> None:
    log = FailureLog("bill", Clock())
    log.retried([failure(1, error=ValueError("one\n  two\n" + "x" * 100_000))], 4)
    (line,) = lines()
    assert "one two xxx" in line
    assert len(line) < 1_000


def test_of_a_storm_some_are_listed_and_the_rest_is_counted(
    lines: Callable[[], list[str]],
) -> None:
    clock = Clock()
    log = FailureLog("bill", clock)
    for offset in range(STORM):
        log.retried([failure(offset)], 4)
        log.laid_aside([failure(offset)], "orders.dead")
    listed = lines()
    assert 2 <= len(listed) <= LINES_MAX
    # The dead are listed however many retries there were before them.
    dead_count = sum("laid aside" in line for line in listed)
    retry_count = len(listed) - dead_count
    assert dead_count > 0
    clock.now_ms += 60_000
    log.tell_rest()
    (rest,) = lines()[len(listed) :]
    assert f"{STORM - retry_count} tried again" in rest
    assert f"{STORM - dead_count} laid aside" in rest
    # What comes after it is listed again.
    log.retried([failure(1)], 4)
    log.tell_rest(is_over=True)
    assert [line for line in lines() if "attempt 1 of 4" in line][retry_count:] != []
    assert lines()[-1].endswith("is tried again: ValueError: no price")


def test_the_rest_is_told_when_the_listener_ends(lines: Callable[[], list[str]]) -> None:
    log = FailureLog("bill", Clock())
    for offset in range(STORM):
        log.retried([failure(offset)], 4)
    listed_count = len(lines())
    log.tell_rest(is_over=True)
    assert f"{STORM - listed_count} tried again" in lines()[-1]


def test_where_it_was_raised_is_shown_to_whoever_looks_closely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog("bill", Clock())
    for level in (logging.WARNING, logging.DEBUG):
        with caplog.at_level(level, "semel.app"):
            log.retried([failure(1)], 4)
    assert [record.exc_info is not None for record in caplog.records] == [False, True]
