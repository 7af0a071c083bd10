"""How partitions rest, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.records import place, portion, record
from semel.app.backlog import Backlog
from semel.app.cycle import CycleOutcome, Doubt, doubt
from semel.app.failure import Failure
from semel.app.outbox import Outbox
from semel.app.retry_policy import RetryPolicy, check_retry_policy
from semel.errors import ConfigError


def failed_at(offset: int, attempt: int) -> CycleOutcome:
    failure = Failure(record(offset), ValueError(), attempt)
    return CycleOutcome(Outbox(), failures={place(0): failure}, undone={place(0): offset})


@given(st.integers(1, 200), st.floats(0, 1))
def test_pauses_double_up_to_the_longest_and_are_spread_over_their_second_half(
    attempt: int, random: float
) -> None:
    pause_ms = RetryPolicy(backoff_ms=100, backoff_ms_max=5_000).pause_ms(attempt, random)
    whole_ms = 100
    for _ in range(attempt - 1):
        whole_ms = min(2 * whole_ms, 5_000)
    assert whole_ms / 2 <= pause_ms <= whole_ms


def test_retries_end_after_the_retries_and_for_what_will_not_pass() -> None:
    retry_policy = RetryPolicy(retries=2, retry_on=(OSError,))
    assert [retry_policy.allows(ConnectionError(), attempt) for attempt in (1, 2, 3)] == [1, 1, 0]
    assert not retry_policy.allows(ValueError(), 1)


@pytest.mark.parametrize(
    "retry_policy", [RetryPolicy(retries=-1), RetryPolicy(backoff_ms=2, backoff_ms_max=1)]
)
def test_a_policy_that_cannot_be_is_refused(retry_policy: RetryPolicy) -> None:
    with pytest.raises(ConfigError):
        check_retry_policy(retry_policy)


def backlog_at(*places: tuple[int, int]) -> Backlog:
    """With these records held back."""
    backlog = Backlog(RetryPolicy(backoff_ms=100))
    backlog.hold(portion(places).records(), dict.fromkeys([place(0), place(1)], 0))
    return backlog


def taken(backlog: Backlog, count_max: int = 100) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in backlog.take(count_max)]


def test_a_partition_rests_after_a_failure_and_wakes_in_time() -> None:
    backlog = backlog_at((0, 5), (1, 7), (0, 6))
    backlog.failed(failed_at(5, 1), now_ms=1_000, random=1)
    assert backlog.wake(1_000) == 1_000
    assert taken(backlog) == [(1, 7)]
    assert backlog.wake(1_099) == 1_100
    assert taken(backlog) == []
    assert backlog.wake(1_100) == 1_100
    assert not backlog.is_resting
    assert taken(backlog) == [(0, 5), (0, 6)]
    assert backlog.wake(1_200) is None


def test_what_is_put_back_comes_before_what_is_held() -> None:
    backlog = backlog_at((0, 5), (0, 6), (0, 7))
    records = backlog.take(2)
    backlog.hold(records, {place(0): 6})
    assert backlog.held_count == 2
    assert taken(backlog) == [(0, 6), (0, 7)]


def test_partitions_are_served_in_turn() -> None:
    backlog = backlog_at((0, 5), (0, 6), (1, 7), (1, 8))
    found = [taken(backlog, 1) for _ in range(4)]
    assert found == [[(0, 5)], [(1, 7)], [(0, 6)], [(1, 8)]]


def test_records_in_doubt_do_not_keep_the_other_partitions_waiting() -> None:
    backlog = backlog_at((0, 5), (0, 6), (1, 7), (1, 8))
    backlog.failed(CycleOutcome(Outbox(), doubts={place(0): Doubt(7, 1)}), 0, 0)
    backlog.wake(100)
    found = [taken(backlog) for _ in range(3)]
    assert found == [[(0, 5)], [(1, 7), (1, 8)], [(0, 6)]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=20), st.integers(1, 5))
def test_records_are_taken_once_and_in_order(runs: list[tuple[int, int]], count_max: int) -> None:
    places = [(partition, offset) for offset, (partition, _) in enumerate(runs)]
    backlog = Backlog(RetryPolicy())
    backlog.hold(portion(places).records(), dict.fromkeys(map(place, range(3)), 0))
    found = []
    while batch := taken(backlog, count_max):
        assert len(batch) <= count_max
        found += batch
    for partition in range(3):
        assert [each for each in found if each[0] == partition] == [
            each for each in places if each[0] == partition
        ]


def test_attempts_are_those_of_one_record() -> None:
    backlog = Backlog(RetryPolicy())
    backlog.failed(failed_at(5, 2), 0, 0)
    assert backlog.attempts_of(place(0), 5) == 2
    assert backlog.attempts_of(place(0), 6) == 0
    assert backlog.attempts_of(place(1), 5) == 0
    backlog.done({place(0): 6})
    assert backlog.attempts_of(place(0), 5) == 0


def test_the_record_at_fault_is_found_in_few_steps() -> None:
    at_fault, count = 37, 100
    backlog = backlog_at(*((0, offset) for offset in range(count)))
    done: list[int] = []
    steps = 0
    while records := backlog.take(1_000):
        steps += 1
        offsets = [each.offset for each in records]
        if at_fault in offsets and len(offsets) > 1:
            outcome = CycleOutcome(Outbox())
            doubt(outcome, portion((0, offset) for offset in offsets), ValueError())
            backlog.hold(records, outcome.undone)
            backlog.failed(outcome, 0, 0)
            backlog.wake(1_000)
        else:
            done += offsets
            backlog.done({place(0): offsets[-1] + 1})
    assert done == list(range(count))
    assert steps < 30


def test_what_is_behind_the_doubt_goes_together_again() -> None:
    backlog = backlog_at(*((0, offset) for offset in range(5, 12)))
    backlog.failed(CycleOutcome(Outbox(), doubts={place(0): Doubt(7, 1)}), 0, 0)
    backlog.wake(100)
    assert taken(backlog) == [(0, 5)]
    backlog.done({place(0): 6})
    assert taken(backlog) == [(0, 6), (0, 7)]
    backlog.done({place(0): 8})
    assert taken(backlog) == [(0, offset) for offset in range(8, 12)]


def test_of_a_partition_that_went_away_nothing_is_held() -> None:
    backlog = backlog_at((0, 5), (1, 7))
    backlog.failed(failed_at(5, 2), 0, 0)
    backlog.failed(CycleOutcome(Outbox(), doubts={place(0): Doubt(8, 1)}), 0, 0)
    backlog.drop([place(0), place(2)])
    assert (backlog.is_resting, backlog.held) == (False, frozenset({place(1)}))


def test_what_is_polled_again_is_not_held_and_has_failed_as_often() -> None:
    backlog = backlog_at((0, 5))
    backlog.failed(failed_at(5, 2), 0, 0)
    backlog.drop([place(0)])
    assert (backlog.is_resting, backlog.held_count) == (False, 0)
    assert backlog.attempts_of(place(0), 5) == 2
