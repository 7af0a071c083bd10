"""A cycle: what is called, what is kept of it, and where each partition goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.records import failing_at, performed, place, portion, record, rules, sent
from semel.app.calling import on_loop
from semel.app.cycle import CycleOutcome, Doubt, Rules, all_at_once, one_by_one
from semel.app.outbox import Outbox
from semel.client.consuming.record import Record
from semel.types import TopicPartition


def never() -> bool:
    return False


def no_attempts(where: TopicPartition, offset: int) -> int:
    return 0


def after(seconds: int) -> Callable[[], bool]:
    """Over once it has been asked this often."""
    left = iter([False] * seconds + [True] * 1_000)
    return lambda: next(left)


def cycle(
    places: list[tuple[int, int]],
    function: Callable[..., None],
    law: Rules,
    is_over: Callable[[], bool] = never,
    attempts: int = 0,
) -> CycleOutcome:
    steps = one_by_one(portion(places), law, Outbox(), lambda *_: attempts, is_over)
    return performed(steps, function)


def test_everything_that_succeeds_is_sent_and_done() -> None:
    outcome = cycle([(0, 5), (1, 7), (0, 6)], failing_at(), rules())
    assert sent(outcome) == ["0-5", "1-7", "0-6"]
    assert outcome.done == {place(0): 7, place(1): 8}
    assert not outcome.undone


async def coming(each: Record) -> None: ...


def made(each: Record) -> Iterator[None]:
    yield


async def made_on_the_loop(each: Record) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("begin", [coming, made, made_on_the_loop])
def test_what_returns_before_it_has_done_anything_has_failed(
    begin: Callable[[Record], Any],
) -> None:
    """As a decorator that hides what it wraps makes it."""
    outcome = cycle([(0, 5)], lambda each, out: begin(each), rules(retries=1))
    assert outcome.undone == {place(0): 5}
    assert isinstance(outcome.failures[place(0)].error, TypeError)


def test_behind_a_failure_its_partition_waits_and_the_others_go_on() -> None:
    places = [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]
    outcome = cycle(places, failing_at((0, 2)), rules(retries=1))
    assert sent(outcome) == ["0-1", "1-1", "1-2"]
    assert outcome.done == {place(0): 2, place(1): 3}
    assert outcome.undone == {place(0): 2}
    assert outcome.failures[place(0)].record.offset == 2
    assert outcome.failures[place(0)].attempt == 1


@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 9))),
    st.integers(0, 40),
)
def test_what_is_sent_is_what_was_done_and_nothing_is_passed_over(
    partitions: list[int], bad: set[tuple[int, int]], patience: int
) -> None:
    offsets = [0, 0, 0]
    places = []
    for partition in partitions:
        places.append((partition, offsets[partition]))
        offsets[partition] += 1
    outcome = cycle(places, failing_at(*bad), rules(retries=1), after(patience))
    for partition in range(3):
        mine = [each for each in sent(outcome) if each.startswith(f"{partition}-")]
        done = outcome.done.get(place(partition), 0)
        assert mine == [f"{partition}-{offset}" for offset in range(done)]
        assert outcome.undone.get(place(partition), offsets[partition]) == done


def test_a_record_out_of_patience_becomes_a_letter_and_the_next_one_follows() -> None:
    outcome = cycle([(0, 1), (0, 2)], failing_at((0, 1)), rules(2, "dead"), attempts=2)
    letter, other = outcome.outbox.records
    assert (letter.topic, letter.key, letter.value) == ("dead", b"key", b"1")
    assert dict(letter.headers)["semel.dead.attempts"] == b"3"
    assert other.value == b"0-2"
    assert outcome.done == {place(0): 3}
    assert (outcome.done_count, len(outcome.dead)) == (1, 1)


def test_without_a_place_for_letters_the_cycle_ends_at_the_record() -> None:
    outcome = cycle([(0, 1), (0, 2), (1, 1), (0, 3)], failing_at((0, 2)), rules())
    assert outcome.final is not None
    assert outcome.final.record.offset == 2
    assert outcome.done == {place(0): 2}
    assert outcome.undone == {place(0): 2, place(1): 1}


def test_a_cycle_that_takes_too_long_keeps_what_it_has_done() -> None:
    outcome = cycle([(0, 1), (0, 2), (0, 3)], failing_at(), rules(), after(1))
    assert sent(outcome) == ["0-1", "0-2"]
    assert (outcome.done, outcome.undone) == ({place(0): 3}, {place(0): 3})


def test_a_cycle_has_at_least_one_record() -> None:
    outcome = cycle([(0, 1), (0, 2)], failing_at(), rules(), after(0))
    assert sent(outcome) == ["0-1"]


def test_a_batch_that_fails_leaves_nothing_and_is_to_be_tried_in_parts() -> None:
    def function(batch: list[Record], out: Outbox) -> None:
        out.send("out", value="half")
        raise ValueError

    steps = all_at_once(portion([(0, 4), (1, 1), (0, 5)]), rules(9), Outbox(), no_attempts)
    outcome = performed(steps, function)
    assert (sent(outcome), outcome.done) == ([], {})
    assert outcome.undone == {place(0): 4, place(1): 1}
    assert outcome.doubts == {place(0): Doubt(6, 2), place(1): Doubt(2, 1)}


def test_a_batch_of_one_that_fails_is_at_fault() -> None:
    def function(batch: list[Record], out: Outbox) -> None:
        raise ValueError

    steps = all_at_once(portion([(0, 4)]), rules(0, "dead"), Outbox(), no_attempts)
    outcome = performed(steps, function)
    assert (sent(outcome), outcome.done) == (["4"], {place(0): 5})


def test_a_function_on_the_loop_is_judged_as_one_in_a_thread() -> None:
    async def function(each: Record, out: Outbox) -> None:
        await asyncio.sleep(0)
        failing_at((0, 2))(each, out)

    places = portion([(0, 1), (0, 2), (1, 1)])
    steps = one_by_one(places, rules(1), Outbox(), no_attempts, never)
    outcome = asyncio.run(on_loop(steps, function))
    assert sent(outcome) == ["0-1", "1-1"]
    assert outcome.undone == {place(0): 2}


def test_a_function_whose_inner_task_was_cancelled_has_failed() -> None:
    async def function(each: Record, out: Outbox) -> None:
        inner = asyncio.get_running_loop().create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    steps = one_by_one(portion([(0, 1)]), rules(1), Outbox(), no_attempts, never)
    outcome = asyncio.run(on_loop(steps, function))
    assert "cancelled from within" in str(outcome.failures[place(0)].error)


def test_a_member_that_is_cancelled_is_cancelled() -> None:
    async def function(each: Record, out: Outbox) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        steps = one_by_one(portion([(0, 1)]), rules(1), Outbox(), no_attempts, never)
        working = asyncio.get_running_loop().create_task(on_loop(steps, function))
        await asyncio.sleep(0)
        working.cancel()
        await working

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())


def test_a_plain_function_that_returns_a_coroutine_has_failed() -> None:
    async def work() -> None: ...

    steps = one_by_one(portion([(0, 1)]), rules(1), Outbox(), no_attempts, never)
    outcome = performed(steps, lambda *_: work())  # type: ignore[arg-type]
    assert isinstance(outcome.failures[place(0)].error, TypeError)


def test_an_iterator_that_ends_in_a_function_is_a_failure_like_any_other() -> None:
    def function(each: Record, out: Outbox) -> None:
        next(iter(()))

    steps = one_by_one(portion([(0, 1), (1, 1)]), rules(1), Outbox(), no_attempts, never)
    outcome = performed(steps, function)
    assert set(outcome.failures) == {place(0), place(1)}


def test_the_story_of_a_letter_names_where_it_came_from() -> None:
    origin = record(7, partition=3)._replace(headers=(("own", b"1"),))
    steps = one_by_one(
        portion([])._replace(content=[origin]), rules(0, "dead"), Outbox(), no_attempts, never
    )
    outcome = performed(steps, failing_at((3, 7)))
    assert dict(outcome.outbox.records[0].headers) == {
        "own": b"1",
        "semel.dead.topic": b"in",
        "semel.dead.partition": b"3",
        "semel.dead.offset": b"7",
        "semel.dead.timestamp_ms": b"1007",
        "semel.dead.exception": b"ValueError",
        "semel.dead.message": b"3-7 is bad",
        "semel.dead.attempts": b"1",
    }
