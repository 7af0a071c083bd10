"""Records that fail: tried again in order, laid aside with their story, or the end."""

import asyncio
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from semel import App, Outbox, Record, Transaction
from semel.app.failure import ListenerFailed
from semel.app.progress import Counts
from semel.types import TopicPartition
from support.app_topics import Topics, group_offsets, numbers, spread
from support.topics import Read, committed, fill, values

QUICK: dict[str, Any] = {"backoff_ms": 1, "backoff_ms_max": 4}


def run(
    topics: Topics, function: Callable[..., Any], *, is_transactional: bool = True, **options: Any
) -> Counts:
    app = App(topics.servers)
    if is_transactional:
        function = app.transactional(function)
    app.listener(topics.source, group=topics.group, name="it", **options)(function)
    return app.run_until_idle()["it"]


def failing(topics: Topics, failures: dict[bytes, int]) -> Callable[[Record, Outbox], None]:
    """Copies; a value fails as often as it is told here."""
    left = Counter(failures)

    def copy(record: Record, out: Outbox) -> None:
        out.send(topics.target, key=record.key, value=record.value, partition=record.partition)
        if left[record.value] > 0:
            left[record.value] -= 1
            raise ConnectionError(f"{record.value!r} did not work")

    return copy


@pytest.mark.parametrize("is_transactional", [True, False], ids=["transactional", "plain"])
def test_what_passes_is_tried_again_and_the_order_is_kept(
    topics: Topics, is_transactional: bool
) -> None:
    sent = numbers(60)
    spread(topics.servers, topics.source, sent)
    function = failing(topics, {sent[8]: 3, sent[20]: 1, sent[33]: 2})
    counts = run(topics, function, is_transactional=is_transactional, retries=3, **QUICK)
    written = committed(topics.servers, topics.target)
    for partition in range(2):
        assert [e.value for e in written if e.partition == partition] == sent[partition::2]
    assert (counts.records, counts.retries, counts.dead_letters) == (60, 6, 0)


def story(letter: Read) -> dict[str, bytes | None]:
    return {name.removeprefix("semel.dead."): value for name, value in letter.headers}


@pytest.mark.parametrize("is_transactional", [True, False], ids=["transactional", "plain"])
def test_a_poison_record_is_laid_aside_and_the_others_pass(
    topics: Topics, is_transactional: bool
) -> None:
    sent = numbers(60)
    spread(topics.servers, topics.source, sent)
    counts = run(
        topics,
        failing(topics, {sent[21]: 99}),
        is_transactional=is_transactional,
        retries=2,
        dead_letters=topics.dead,
        **QUICK,
    )
    (letter,) = committed(topics.servers, topics.dead)
    assert letter.value == sent[21]
    told = story(letter)
    assert (told["topic"], told["partition"], told["offset"]) == (
        topics.source.encode(),
        b"1",
        b"10",
    )
    assert (told["exception"], told["attempts"]) == (b"ConnectionError", b"3")
    assert values(topics.servers, topics.target) == [each for each in sent if each != sent[21]]
    assert (counts.records, counts.retries, counts.dead_letters) == (59, 2, 1)
    assert group_offsets(topics.servers, topics.group) == {
        TopicPartition(topics.source, partition): 30 for partition in range(2)
    }


@pytest.mark.parametrize("batch", [True, "arrow"], ids=["list", "arrow"])
def test_a_poison_record_in_a_batch_is_found(topics: Topics, batch: bool | str) -> None:
    sent = numbers(40)
    spread(topics.servers, topics.source, sent, headers=[("trace", b"7")])

    def copy(content: Any, out: Transaction) -> None:
        found = content if batch is True else content["value"].to_pylist()
        for each in found:
            value = each.value if batch is True else each
            out.send(topics.target, value=value)
            if value in (sent[9], sent[30]):
                raise ValueError("bad")

    counts = run(topics, copy, batch=batch, retries=1, dead_letters=topics.dead, **QUICK)
    letters = committed(topics.servers, topics.dead)
    assert sorted(each.value or b"" for each in letters) == [sent[9], sent[30]]
    assert [each.headers[0] for each in letters] == [("trace", b"7")] * 2
    good = [each for each in sent if each not in (sent[9], sent[30])]
    assert values(topics.servers, topics.target) == good
    assert (counts.records, counts.dead_letters) == (38, 2)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise AttributeError("of the record that it would quote")


def test_an_exception_that_cannot_be_put_into_words_is_laid_aside_by_its_name(
    topics: Topics,
) -> None:
    fill(topics.servers, topics.source, [b"good", b"bad"])

    def work(record: Record) -> None:
        if record.value == b"bad":
            raise Unspeakable

    counts = run(topics, work, retries=1, dead_letters=topics.dead, **QUICK)
    (letter,) = committed(topics.servers, topics.dead)
    assert story(letter)["message"] == b"Unspeakable"
    assert (counts.records, counts.dead_letters) == (1, 1)


def test_an_exception_that_cannot_be_put_into_words_ends_the_application_by_its_name(
    topics: Topics,
) -> None:
    fill(topics.servers, topics.source, [b"x"])

    def work(record: Record) -> None:
        raise Unspeakable

    with pytest.raises(ListenerFailed, match=r"failed once, .*Unspeakable: Unspeakable"):
        run(topics, work, retries=0)


def test_so_does_one_that_is_not_raised_by_a_listener(topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"x"])

    def nowhere(topic: str, key: bytes | None, partition_count: int) -> int:
        raise Unspeakable

    app = App(topics.servers, partitioner=nowhere)

    @app.listener(topics.source, group=topics.group)
    def copy(record: Record, out: Outbox) -> None:
        out.send(topics.target, value=record.value)

    with pytest.raises(ListenerFailed, match="listener copy: Unspeakable: Unspeakable"):
        app.run_until_idle()


def test_a_function_that_is_cancelled_from_within_has_failed(topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"good", b"bad"])

    def cancel(record: Record) -> None:
        if record.value == b"bad":
            raise asyncio.CancelledError

    async def cancel_on_loop(record: Record) -> None:
        cancel(record)

    for function in (cancel, cancel_on_loop):
        group = topics._replace(group=function.__name__)
        counts = run(group, function, retries=0, dead_letters=topics.dead)
        assert (counts.records, counts.dead_letters) == (1, 1)


def test_a_function_that_cancels_its_own_task_ends_the_application(topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"x"])

    async def cancel(record: Record) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    with pytest.raises(ListenerFailed, match="its task was cancelled"):
        run(topics, cancel)


def test_what_will_not_pass_is_not_tried_again(topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"good", b"bad"])

    def refuse(record: Record) -> None:
        if record.value == b"bad":
            raise ValueError("never")

    counts = run(topics, refuse, retry_on=OSError, dead_letters=topics.dead)
    assert values(topics.servers, topics.dead) == [b"bad"]
    assert (counts.retries, counts.dead_letters) == (0, 1)


def test_what_cannot_be_deserialized_is_laid_aside_as_it_came(topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"1", b"one", b"2"])
    seen = []
    counts = run(
        topics,
        lambda record: seen.append(record.value),
        value_deserializer=int,
        retries=0,
        dead_letters=topics.dead,
    )
    assert seen == [1, 2]
    assert values(topics.servers, topics.dead) == [b"one"]
    assert counts.dead_letters == 1


def test_a_record_whose_output_the_cluster_refuses_is_laid_aside(topics: Topics) -> None:
    sent = numbers(10)
    fill(topics.servers, topics.source, sent)

    def enlarge(record: Record, out: Transaction) -> None:
        size = 20_000_000 if record.value == sent[4] else 10
        out.send(topics.target, key=record.value, value=b"x" * size)

    counts = run(topics, enlarge, retries=1, dead_letters=topics.dead, **QUICK)
    assert values(topics.servers, topics.dead) == [sent[4]]
    keys = sorted(each.key or b"" for each in committed(topics.servers, topics.target))
    assert keys == [each for each in sent if each != sent[4]]
    assert (counts.records, counts.dead_letters) == (9, 1)


def test_without_a_place_for_letters_the_application_stops_at_the_record(topics: Topics) -> None:
    sent = numbers(10)
    fill(topics.servers, topics.source, sent)
    with pytest.raises(ListenerFailed) as caught:
        run(topics, failing(topics, {sent[6]: 99}), retries=1, **QUICK)
    place = TopicPartition(topics.source, 0)
    assert f"listener it: the record at {place} offset 6 failed 2 times" in str(caught.value)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert values(topics.servers, topics.target) == sent[:6]
    assert group_offsets(topics.servers, topics.group) == {place: 6}


def test_whoever_waits_for_a_listener_that_failed_is_told(topics: Topics) -> None:
    app = App(topics.servers)

    @app.listener(topics.source, group=topics.group, retries=0)
    def fail(record: Record) -> None:
        raise ValueError("bad")

    async def scenario() -> None:
        async with app.running():
            await asyncio.to_thread(fill, topics.servers, topics.source, [b"x"])
            await asyncio.Event().wait()

    with pytest.raises(ListenerFailed, match="ValueError: bad"):
        asyncio.run(scenario())


def test_other_listeners_finish_what_they_are_at_when_one_fails(topics: Topics) -> None:
    app = App(topics.servers)
    at_work, failed = threading.Event(), threading.Event()

    @app.listener(topics.source, group=f"{topics.group}-1")
    @app.transactional
    def slow(record: Record, out: Transaction) -> None:
        at_work.set()
        assert failed.wait(60)
        out.send(topics.target, value=record.value)

    @app.listener(topics.source, group=f"{topics.group}-2", retries=0)
    def fail(record: Record) -> None:
        assert at_work.wait(60)
        failed.set()
        raise ValueError("bad")

    fill(topics.servers, topics.source, [b"x"])
    with pytest.raises(ListenerFailed, match="listener fail: "):
        app.run_until_idle()
    assert values(topics.servers, topics.target) == [b"x"]


def test_while_one_partition_rests_the_other_goes_on(topics: Topics) -> None:
    fill(topics.servers, topics.source, [b"bad"], 0)
    fill(topics.servers, topics.source, numbers(20), 1)
    done: list[bytes] = []

    def work(record: Record) -> None:
        # It fails until everything of the other partition is done.
        if record.partition == 0 and len(done) < 20:
            raise ValueError("not yet")
        done.append(record.value)

    run(topics, work, retries=1_000_000, records_max=2, **QUICK)
    assert sorted(done) == [*numbers(20), b"bad"]
    assert done[-1] == b"bad"


# What is said of it

WARNING, ERROR = logging.WARNING, logging.ERROR


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (each.levelno, each.getMessage()) for each in caplog.records if each.name == "semel.app"
    ]


def test_each_retry_and_each_letter_is_logged_with_its_cause(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    fill(topics.servers, topics.source, [b"good", b"bad", b"once"])
    function = failing(topics, {b"bad": 99, b"once": 1})
    run(topics, function, retries=2, dead_letters=topics.dead, **QUICK)
    bad, once = (f"listener it: the record at {topics.source}-0 offset {n} failed" for n in (1, 2))
    why = "ConnectionError: b'bad' did not work"
    assert told(caplog) == [
        (WARNING, f"{bad}, attempt 1 of 3, and is tried again: {why}"),
        (WARNING, f"{bad}, attempt 2 of 3, and is tried again: {why}"),
        (ERROR, f"{bad} 3 times and was laid aside in {topics.dead}: {why}"),
        (
            WARNING,
            f"{once}, attempt 1 of 3, and is tried again: ConnectionError: b'once' did not work",
        ),
    ]


def test_a_batch_in_which_a_record_is_at_fault_is_logged_with_its_cause(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    sent = numbers(8)
    fill(topics.servers, topics.source, sent)

    def refuse(records: list[Record]) -> None:
        if any(record.value == sent[5] for record in records):
            raise ValueError("bad")

    run(topics, refuse, batch=True, retries=0, dead_letters=topics.dead, **QUICK)
    *halves, (level, last) = told(caplog)
    assert halves
    assert all(
        re.fullmatch(
            r"listener it: a batch of \d records failed and is tried in smaller parts: "
            r"ValueError: bad",
            line,
        )
        for _, line in halves
    )
    assert (level, "offset 5 failed once and was laid aside" in last) == (ERROR, True)


def test_what_the_cluster_refuses_is_logged_with_its_refusal(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    fill(topics.servers, topics.source, [b"large"])

    def enlarge(record: Record, out: Transaction) -> None:
        out.send(topics.target, value=b"x" * 20_000_000)

    run(topics, enlarge, retries=1, dead_letters=topics.dead, **QUICK)
    retry, letter = (line for _, line in told(caplog))
    assert "attempt 1 of 2, and is tried again: MustAbort: " in retry
    assert "is larger than" in retry
    assert f"failed 2 times and was laid aside in {topics.dead}: MustAbort: " in letter
