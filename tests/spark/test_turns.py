"""The rules of turns, under any order of moves, starts and deaths of tasks."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial

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
    Move,
    PartitionTurns,
    Refused,
    Take,
    TurnRefused,
)
from semel.types import SEQUENCE_COUNT, TopicPartition

FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))
PLANS = [
    [{FIRST: 3, SECOND: 1}, {FIRST: 1}],
    [{SECOND: 2, FIRST: 1}, {SECOND: 1, FIRST: 2, THIRD: 1}],
    [{FIRST: 5, THIRD: 1}],
]
"""What each task has to write, in groups whose turns it takes at once."""


class Deed(Enum):
    START = auto()
    GO_ON = auto()
    DIE = auto()
    LOSE_RESULT = auto()
    END = auto()


Schedule = Sequence[tuple[Deed, int, int]]

schedules = st.lists(
    st.tuples(
        st.sampled_from([Deed.GO_ON] * 12 + [Deed.START, Deed.DIE] * 2 + [*Deed]),
        st.integers(0, 30),
        st.integers(0, 5),
    ),
    min_size=10,
    max_size=90,
)


class Running:
    """An attempt of a task, which takes one small step at a time."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.groups = [dict(group) for group in PLANS[asker.attempt.task_number]]
        self.asked: set[TopicPartition] = set()
        self.granted: dict[TopicPartition, int] = {}
        self.written: set[TopicPartition] = set()
        self.is_refused = False
        self.is_over = False


class Cluster:
    """Spark, its tasks and the log they write to. It decides by itself what is right."""

    def __init__(self) -> None:
        self.turns = PartitionTurns()
        self.attempts: list[Running] = []
        self.results: dict[Attempt, dict[TopicPartition, int]] = {}
        self.log: dict[TopicPartition, list[Attempt]] = defaultdict(list)
        """Who has written each record."""
        self.is_doomed = False
        """Whether the driver has ended the batch, or somebody has left records, or a turn."""

    def run(self, schedule: Schedule) -> None:
        for number in range(len(PLANS)):
            self.start(number)
        for deed, number, choice in schedule:
            if deed is Deed.START:
                self.start(number % len(PLANS))
            else:
                self.do(deed, self.attempts[number % len(self.attempts)], choice)
        while any(self.go_on(each, 0) for each in self.attempts):
            pass

    def start(self, task_number: int) -> None:
        attempt = Attempt(task_number, attempt_id=len(self.attempts))
        self.attempts.append(Running(self.turns.join(attempt)))

    def do(self, deed: Deed, running: Running, choice: int) -> None:
        match deed:
            case Deed.GO_ON:
                self.go_on(running, choice)
            case Deed.LOSE_RESULT:
                self.results.pop(running.asker.attempt, None)
            case Deed.DIE if not running.is_over:
                self.leave(running)
            case Deed.END:
                self.is_doomed = True
                self.hear(self.turns.end("the driver has ended it"))

    def go_on(self, running: Running, choice: int) -> bool:
        """Whether it could do something."""
        possible = [] if running.is_over else self.possible(running)
        if possible:
            possible[choice % len(possible)]()
        return bool(possible)

    def possible(self, running: Running) -> list[Callable[[], None]]:
        group = running.groups[0] if running.groups else {}
        steps: list[Callable[[], None]] = [partial(self.leave, running)] * running.is_refused
        for place, count in group.items():
            if place in running.written:
                steps.append(partial(self.give_back, running, place))
            elif place in running.granted:
                steps.append(partial(self.write, running, place, count))
            elif place not in running.asked and not running.is_refused:
                steps.append(partial(self.take, running, place, count))
        if not running.groups and not running.is_refused:
            steps.append(partial(self.move, running, Finish()))
        return steps

    def take(self, running: Running, place: TopicPartition, count: int) -> None:
        running.asked.add(place)
        self.move(running, Take(place, count))

    def move(self, running: Running, move: Move) -> None:
        self.hear(self.turns.step(running.asker, move))

    def write(self, running: Running, place: TopicPartition, count: int) -> None:
        records = self.log[place]
        assert running.granted[place] == len(records), "the broker would refuse it"
        records += [running.asker.attempt] * count
        running.written.add(place)

    def give_back(self, running: Running, place: TopicPartition) -> None:
        running.asked.remove(place)
        del running.granted[place]
        running.written.remove(place)
        del running.groups[0][place]
        if not running.groups[0]:
            running.groups.pop(0)
        self.move(running, GiveBack(place))

    def leave(self, running: Running) -> None:
        running.is_over = True
        mine = running.asker.attempt
        if running.granted or any(mine in records for records in self.log.values()):
            self.is_doomed = True
        self.hear(self.turns.leave(running.asker))

    def hear(self, answers: Answers) -> None:
        for asker, answer in answers:
            [running] = [each for each in self.attempts if each.asker is asker]
            assert not running.is_over, "nobody is there to hear that"
            assert not running.is_refused, "it was told to stop"
            match answer:
                case Granted(place, sequence):
                    assert not self.is_doomed, "what comes now cannot be committed"
                    assert place in running.asked - running.granted.keys()
                    running.granted[place] = sequence
                case Finished():
                    running.is_over = True
                    self.results[asker.attempt] = {
                        place: records.count(asker.attempt)
                        for place, records in self.log.items()
                        if asker.attempt in records
                    }
                    assert self.turns.leave(asker) == []
                case Refused():
                    running.is_refused = True


def is_exact(cluster: Cluster) -> bool:
    """Whether each task that Spark has a result of wrote all it had to, and nobody else did."""
    expected: dict[TopicPartition, list[Attempt]] = defaultdict(list)
    for attempt in cluster.results:
        for group in PLANS[attempt.task_number]:
            for place, count in group.items():
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
    turns = PartitionTurns()
    asker = turns.join(Attempt(0, 0))
    for count, sequence in ((SEQUENCE_COUNT - 2, 0), (5, SEQUENCE_COUNT - 2), (1, 3)):
        assert turns.step(asker, Take(FIRST, count)) == [(asker, Granted(FIRST, sequence))]
        turns.step(asker, GiveBack(FIRST))


def test_another_attempt_is_refused_once_the_first_has_written() -> None:
    turns = PartitionTurns()
    own, again = turns.join(Attempt(7, 1)), turns.join(Attempt(7, 2))
    turns.step(own, Take(FIRST, 3))
    [(asker, answer)] = turns.step(again, Take(SECOND, 1))
    assert asker is again
    assert isinstance(answer, Refused)
    assert "task 7 was started again" in answer.reason
    assert turns.step(again, Take(THIRD, 1)) == [], "it was told once"
    turns.leave(again)
    turns.step(own, GiveBack(FIRST))
    turns.step(own, Finish())
    turns.check({own.attempt: {FIRST: 3}})


def test_a_result_that_is_not_what_was_written_is_refused() -> None:
    turns = PartitionTurns()
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
    turns = PartitionTurns()
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
