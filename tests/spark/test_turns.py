"""The rules of turns, under any order of moves, starts and deaths of tasks."""

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum, auto

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from semel.spark.turns import (
    Answers,
    Asker,
    Attempt,
    Finish,
    Finished,
    GiveBack,
    Granted,
    IllegalMove,
    Refused,
    Take,
    TurnRefused,
    Turns,
)
from semel.types import SEQUENCE_COUNT, TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
PLANS = [[(FIRST, 3), (SECOND, 1)], [(SECOND, 2), (FIRST, 1), (FIRST, 2)], [(FIRST, 5)]]
"""What each task has to write, in its order."""


class Deed(Enum):
    START = auto()
    GO_ON = auto()
    DIE = auto()
    LOSE_RESULT = auto()


Schedule = Sequence[tuple[Deed, int]]

schedules = st.lists(
    st.tuples(st.sampled_from([Deed.GO_ON] * 6 + [*Deed]), st.integers(0, 3)),
    min_size=10,
    max_size=60,
)


class Running:
    """An attempt of a task, which takes one small step at a time."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.left = list(PLANS[asker.attempt.task_number])
        self.sequence: int | None = None
        self.has_written = False
        self.is_waiting = False
        self.is_over = False


class Cluster:
    """Spark, its tasks and the log they write to. It decides by itself what is right."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.attempts: list[Running] = []
        self.results: dict[Attempt, dict[TopicPartition, int]] = {}
        self.log: dict[TopicPartition, list[Attempt]] = defaultdict(list)
        """Who has written each record."""
        self.is_doomed = False
        """Whether somebody has died and left records, or a turn that may become records."""

    def run(self, schedule: Schedule) -> None:
        for number in range(len(PLANS)):
            self.start(number)
        for deed, number in schedule:
            if deed is Deed.START:
                self.start(number % len(PLANS))
            else:
                self.do(deed, self.attempts[number % len(self.attempts)])
        while any(self.go_on(each) for each in self.attempts):
            pass

    def start(self, task_number: int) -> None:
        attempt = Attempt(task_number, attempt_id=len(self.attempts))
        self.attempts.append(Running(self.turns.join(attempt)))

    def do(self, deed: Deed, running: Running) -> None:
        if deed is Deed.GO_ON:
            self.go_on(running)
        elif deed is Deed.LOSE_RESULT:
            self.results.pop(running.asker.attempt, None)
        elif not running.is_over:
            running.is_over = True
            mine = running.asker.attempt
            if running.sequence is not None or any(mine in each for each in self.log.values()):
                self.is_doomed = True
            self.hear(self.turns.leave(running.asker))

    def go_on(self, running: Running) -> bool:
        """Whether it could do something."""
        if running.is_over or running.is_waiting:
            return False
        asker = running.asker
        if not running.left:
            self.hear(self.turns.step(asker, Finish()))
            return True
        place, count = running.left[0]
        if running.sequence is None:
            running.is_waiting = True
            self.hear(self.turns.step(asker, Take(place, count)))
        elif not running.has_written:
            assert running.sequence == len(self.log[place]), "the broker would refuse it"
            self.log[place] += [asker.attempt] * count
            running.has_written = True
        else:
            running.left.pop(0)
            running.sequence, running.has_written = None, False
            self.hear(self.turns.step(asker, GiveBack(place)))
        return True

    def hear(self, answers: Answers) -> None:
        for asker, answer in answers:
            [running] = [each for each in self.attempts if each.asker is asker]
            assert not running.is_over, "nobody is there to hear that"
            running.is_waiting = False
            match answer:
                case Granted(place, sequence):
                    assert not self.is_doomed, "what comes now cannot be committed"
                    assert place == running.left[0][0]
                    running.sequence = sequence
                case Finished():
                    running.is_over = True
                    mine = {
                        place: records.count(asker.attempt)
                        for place, records in self.log.items()
                        if asker.attempt in records
                    }
                    self.results[asker.attempt] = mine
                    assert self.turns.leave(asker) == []
                case Refused():
                    running.is_over = True
                    self.hear(self.turns.leave(asker))


def is_exact(cluster: Cluster) -> bool:
    """Whether each task that Spark has a result of wrote all it had to, and nobody else did."""
    expected: dict[TopicPartition, list[Attempt]] = defaultdict(list)
    for attempt in cluster.results:
        for place, count in PLANS[attempt.task_number]:
            expected[place] += [attempt] * count
    return {place: sorted(records) for place, records in cluster.log.items()} == {
        place: sorted(records) for place, records in expected.items()
    }


@settings(max_examples=500)
@given(schedules)
def test_what_may_be_committed_is_what_spark_collected_whatever_happens(schedule: Schedule) -> None:
    cluster = Cluster()
    cluster.run(schedule)
    try:
        cluster.turns.check(cluster.results)
    except TurnRefused:
        event("refused")
        assert cluster.is_doomed or not is_exact(cluster), "it could have been committed"
    else:
        event(f"committed, {len(cluster.results)} tasks")
        assert is_exact(cluster)
        assert len({each.task_number for each in cluster.results}) == len(cluster.results)


@settings(max_examples=500)
@given(schedules)
def test_nobody_waits_for_ever(schedule: Schedule) -> None:
    cluster = Cluster()
    cluster.run(schedule)
    assert all(each.is_over for each in cluster.attempts)


def test_sequences_begin_again_behind_the_last() -> None:
    turns = Turns()
    asker = turns.join(Attempt(0, 0))
    for count, sequence in ((SEQUENCE_COUNT - 2, 0), (5, SEQUENCE_COUNT - 2), (1, 3)):
        assert turns.step(asker, Take(FIRST, count)) == [(asker, Granted(FIRST, sequence))]
        turns.step(asker, GiveBack(FIRST))


def test_another_attempt_is_refused_once_the_first_has_written() -> None:
    turns = Turns()
    own, again = turns.join(Attempt(7, 1)), turns.join(Attempt(7, 2))
    turns.step(own, Take(FIRST, 3))
    [(asker, answer)] = turns.step(again, Take(SECOND, 1))
    assert asker is again
    assert isinstance(answer, Refused)
    assert "task 7 was started again" in answer.reason
    turns.leave(again)
    turns.step(own, GiveBack(FIRST))
    turns.step(own, Finish())
    turns.check({own.attempt: {FIRST: 3}})


def test_a_result_that_is_not_what_was_written_is_refused() -> None:
    turns = Turns()
    own, unfinished = turns.join(Attempt(0, 0)), turns.join(Attempt(1, 1))
    turns.step(own, Take(FIRST, 3))
    turns.step(own, GiveBack(FIRST))
    turns.step(own, Finish())
    with pytest.raises(TurnRefused, match="task 0 has written what its result does not say"):
        turns.check({own.attempt: {FIRST: 2}})
    with pytest.raises(TurnRefused, match="task 0 has written what its result does not say"):
        turns.check({})
    with pytest.raises(TurnRefused, match="it had no turn"):
        turns.check({own.attempt: {FIRST: 3}, Attempt(9, 9): {FIRST: 1}})
    turns.step(unfinished, Take(SECOND, 1))
    with pytest.raises(TurnRefused, match="task 1 has written what its result does not say"):
        turns.check({own.attempt: {FIRST: 3}, unfinished.attempt: {SECOND: 1}})


def test_an_illegal_move_changes_nothing() -> None:
    turns = Turns()
    own, other = turns.join(Attempt(0, 0)), turns.join(Attempt(1, 1))
    turns.step(own, Take(FIRST, 3))
    turns.step(other, Take(FIRST, 1))
    for move in (Take(SECOND, 0), Take(SECOND, -1), Take(FIRST, 1), GiveBack(SECOND), Finish()):
        with pytest.raises(IllegalMove):
            turns.step(own, move)
    with pytest.raises(IllegalMove):
        turns.step(other, GiveBack(FIRST))
    assert turns.step(own, GiveBack(FIRST)) == [(other, Granted(FIRST, 3))]
    assert turns.step(own, Finish()) == [(own, Finished())]
    with pytest.raises(IllegalMove):
        turns.step(own, Take(FIRST, 1))
    turns.step(other, GiveBack(FIRST))
    turns.step(other, Finish())
    turns.check({own.attempt: {FIRST: 3}, other.attempt: {FIRST: 1}})
