"""How partitions rest, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.app.outbox import Outbox
from semel.app.patience import Patience, check
from semel.app.standing import Standing
from semel.app.turn import Failure, Outcome
from semel.errors import ConfigError
from support.app_records import place, record


def failed_at(offset: int, attempt: int) -> Outcome:
    failure = Failure(record(offset), ValueError(), attempt)
    return Outcome(Outbox(), failures={place(0): failure}, undone={place(0): offset})


@given(st.integers(1, 200), st.floats(0, 1))
def test_pauses_double_up_to_the_longest_and_are_spread_over_their_second_half(
    attempt: int, dice: float
) -> None:
    pause_ms = Patience(backoff_ms=100, backoff_ms_max=5_000).pause_ms(attempt, dice)
    whole_ms = 100
    for _ in range(attempt - 1):
        whole_ms = min(2 * whole_ms, 5_000)
    assert whole_ms / 2 <= pause_ms <= whole_ms


def test_patience_ends_after_the_retries_and_for_what_will_not_pass() -> None:
    patience = Patience(retries=2, retry_on=(OSError,))
    assert [patience.allows(ConnectionError(), attempt) for attempt in (1, 2, 3)] == [1, 1, 0]
    assert not patience.allows(ValueError(), 1)


@pytest.mark.parametrize(
    "patience", [Patience(retries=-1), Patience(backoff_ms=2, backoff_ms_max=1)]
)
def test_a_patience_that_cannot_be_is_refused(patience: Patience) -> None:
    with pytest.raises(ConfigError):
        check(patience)


def test_a_partition_rests_after_a_failure_and_wakes_in_time() -> None:
    standing = Standing(Patience(backoff_ms=100))
    standing.failed(failed_at(5, 1), now_ms=1_000, dice=1)
    assert standing.wake_at_ms() == 1_100
    assert standing.wake(1_099) == []
    assert standing.resting == {place(0)}
    assert standing.wake(1_100) == [place(0)]
    assert not standing.resting


def test_attempts_are_those_of_one_record() -> None:
    standing = Standing(Patience())
    standing.failed(failed_at(5, 2), 0, 0)
    assert standing.attempts_of(place(0), 5) == 2
    assert standing.attempts_of(place(0), 6) == 0
    assert standing.attempts_of(place(1), 5) == 0
    standing.done({place(0): 6})
    assert standing.attempts_of(place(0), 5) == 0


def test_records_in_doubt_go_one_by_one_until_the_last_of_them_is_done() -> None:
    standing = Standing(Patience())
    standing.failed(Outcome(Outbox(), doubtful={place(0): 8}), 0, 0)
    for offset in (6, 7):
        standing.done({place(0): offset})
        assert standing.goes_record_by_record
    standing.done({place(0): 8})
    assert not standing.goes_record_by_record


def test_a_partition_that_went_away_is_forgotten() -> None:
    standing = Standing(Patience())
    standing.failed(failed_at(5, 2), 0, 0)
    standing.failed(Outcome(Outbox(), doubtful={place(0): 8}), 0, 0)
    standing.forget([place(0), place(1)])
    assert not standing.resting
    assert not standing.goes_record_by_record
    assert standing.attempts_of(place(0), 5) == 0
