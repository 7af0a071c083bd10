"""Rules of turns are left out one by one; a named test must find each absence."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from semel.spark import turns
from semel.spark.turns import Answers, Asker, Attempt, Counts, IllegalMove, Move, PartitionTurns
from semel.types import TopicPartition
from spark import test_turns

Rule = Callable[[], None]
Plant = Callable[[pytest.MonkeyPatch], None]


class _EachIsTheFirst(dict[int, Asker]):
    def setdefault(self, key: int, default: Any = None) -> Any:
        self[key] = default
        return default


def every_attempt_may_write(patch: pytest.MonkeyPatch) -> None:
    init = PartitionTurns.__init__

    def lenient(core: PartitionTurns) -> None:
        init(core)
        core._writers = _EachIsTheFirst()

    patch.setattr(PartitionTurns, "__init__", lenient)


def a_turn_is_given_while_another_writes(patch: pytest.MonkeyPatch) -> None:
    take = PartitionTurns._take

    def impatient(
        core: PartitionTurns, asker: Asker, place: TopicPartition, record_count: int
    ) -> Answers:
        core._queues[place].holder = None
        return take(core, asker, place, record_count)

    patch.setattr(PartitionTurns, "_take", impatient)


def who_leaves_within_its_turns_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    end = PartitionTurns.end
    patch.setattr(
        PartitionTurns, "end", lambda core, reason: [] if "within" in reason else end(core, reason)
    )


def who_has_left_still_waits(patch: pytest.MonkeyPatch) -> None:
    leave = PartitionTurns.leave

    def lingering(core: PartitionTurns, asker: Asker) -> Answers:
        asker.asked.clear()
        return leave(core, asker)

    patch.setattr(PartitionTurns, "leave", lingering)


def a_sequence_stays_where_it_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turns, "SEQUENCE_COUNT", 1)


def results_that_spark_has_lost_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    check = PartitionTurns.check

    def collected_only(core: PartitionTurns, written: Mapping[Attempt, Counts]) -> None:
        core._writers = {
            number: each for number, each in core._writers.items() if each.attempt in written
        }
        check(core, written)

    patch.setattr(PartitionTurns, "check", collected_only)


def who_has_not_finished_may_be_committed(patch: pytest.MonkeyPatch) -> None:
    check = PartitionTurns.check

    def hasty(core: PartitionTurns, written: Mapping[Attempt, Counts]) -> None:
        for each in core._writers.values():
            each.is_finished = True
        check(core, written)

    patch.setattr(PartitionTurns, "check", hasty)


def who_had_no_turn_is_believed(patch: pytest.MonkeyPatch) -> None:
    check = PartitionTurns.check

    def trusting(core: PartitionTurns, written: Mapping[Attempt, Counts]) -> None:
        known = {each.attempt for each in core._writers.values()}
        check(core, {attempt: counts for attempt, counts in written.items() if attempt in known})

    patch.setattr(PartitionTurns, "check", trusting)


def who_leaves_is_taken_out_of_one_queue(patch: pytest.MonkeyPatch) -> None:
    leave = PartitionTurns.leave

    def sloppy(core: PartitionTurns, asker: Asker) -> Answers:
        asker.asked = set(sorted(asker.asked)[:1])
        return leave(core, asker)

    patch.setattr(PartitionTurns, "leave", sloppy)


def who_was_refused_goes_on(patch: pytest.MonkeyPatch) -> None:
    step = PartitionTurns.step

    def forgetful(core: PartitionTurns, asker: Asker, move: Move) -> Answers:
        if core._reason is None:
            asker.is_refused = False
        return step(core, asker, move)

    patch.setattr(PartitionTurns, "step", forgetful)


def who_waits_is_not_told_that_there_are_no_more_turns(patch: pytest.MonkeyPatch) -> None:
    def silent(core: PartitionTurns, reason: str) -> Answers:
        core._reason = core._reason or reason
        return []

    patch.setattr(PartitionTurns, "end", silent)


COMMITS = test_turns.test_what_may_be_committed_is_what_spark_collected_whatever_happens
ENDS = test_turns.test_nobody_waits_for_ever
RESULTS = test_turns.test_a_result_that_is_not_what_was_written_is_refused
REFUSALS = test_turns.test_another_attempt_is_refused_once_the_first_has_written

PLANTED: list[tuple[Plant, Rule]] = [
    (every_attempt_may_write, COMMITS),
    (a_turn_is_given_while_another_writes, COMMITS),
    (who_leaves_within_its_turns_is_forgotten, COMMITS),
    (who_has_left_still_waits, ENDS),
    (a_sequence_stays_where_it_is, COMMITS),
    (results_that_spark_has_lost_do_not_matter, COMMITS),
    (who_has_not_finished_may_be_committed, RESULTS),
    (who_had_no_turn_is_believed, RESULTS),
    (who_leaves_is_taken_out_of_one_queue, ENDS),
    (who_was_refused_goes_on, REFUSALS),
    (who_waits_is_not_told_that_there_are_no_more_turns, ENDS),
]


@pytest.mark.parametrize(("plant", "rule"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_the_absence_of_a_rule_is_found(
    plant: Plant, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, IllegalMove, ExceptionGroup, pytest.fail.Exception)):
        _quickly(rule)()


def _quickly(rule: Rule) -> Rule:
    """Nobody reads the schedule that shows a bug, so that it need not be made short."""
    if not hasattr(rule, "hypothesis"):
        return rule
    search = settings(max_examples=3_000, phases=[Phase.generate], database=None)
    return search(given(test_turns.schedules)(rule.hypothesis.inner_test))
