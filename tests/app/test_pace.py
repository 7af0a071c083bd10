"""Records that take longer than their group waits: taken for what they are, and not for ever."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.records import failing_at, performed, place, portion, record, rules, sent
from semel import App, Outbox, Record
from semel.app.backlog import Backlog
from semel.app.cycle import CycleOutcome, all_at_once, one_by_one
from semel.app.failure import Failure, ListenerFailed
from semel.app.listener import Listener
from semel.app.outbox import Outgoing
from semel.app.pace import Pace
from semel.app.portion import Portion
from semel.client.admin import groups
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.consuming.settings import ConsumerOptions
from support.app_topics import Topics, group_offsets
from support.topics import committed, fill, values

IMPATIENT: ConsumerOptions = {"max_poll_interval_ms": 300, "heartbeat_interval_ms": 20}
SLOW = b"slow"


def until_the_group_goes_on(topics: Topics) -> None:
    """Without its only member, which leaves when it has been away for too long."""

    async def ask() -> None:
        async with Cluster(parse_bootstrap_servers(topics.servers)) as cluster:
            while (await groups.describe(cluster, topics.group)).members:
                pass

    asyncio.run(ask())


def declared(topics: Topics, *, batch: bool, is_transactional: bool, **options: Any) -> App:
    app = App(topics.servers)

    def work(content: Any, out: Outbox) -> None:
        for each in content if batch else [content]:
            out.send(topics.target, value=each.value)
            if each.value == SLOW:
                until_the_group_goes_on(topics)

    function = app.transactional(work) if is_transactional else work
    app.listener(topics.source, group=topics.group, batch=batch, retries=1, **IMPATIENT, **options)(
        function
    )
    return app


@pytest.mark.parametrize("batch", [False, True], ids=["record", "batch"])
def test_a_record_that_is_too_slow_for_its_group_is_laid_aside(topics: Topics, batch: bool) -> None:
    fill(topics.servers, topics.source, [b"a", b"b", SLOW, b"c"])
    app = declared(topics, batch=batch, is_transactional=True, dead_letters=topics.dead)
    (counts,) = app.run_until_idle().values()
    (letter,) = committed(topics.servers, topics.dead)
    told = {name.removeprefix("semel.dead."): value or b"" for name, value in letter.headers}
    assert letter.value == SLOW
    assert (told["exception"], told["attempts"]) == (b"semel.app.pace.TookTooLong", b"2")
    assert b"max_poll_interval_ms" in told["message"]
    assert values(topics.servers, topics.target) == [b"a", b"b", b"c"]
    assert (counts.records, counts.dead_letters) == (3, 1)


@pytest.mark.parametrize("is_transactional", [True, False], ids=["transactional", "plain"])
def test_without_a_place_for_letters_it_ends_the_application(
    topics: Topics, is_transactional: bool
) -> None:
    fill(topics.servers, topics.source, [b"a", b"b", SLOW, b"c"])
    app = declared(topics, batch=False, is_transactional=is_transactional)
    with pytest.raises(ListenerFailed, match=r"offset 2 failed 2 times, .* max_poll_interval_ms"):
        app.run_until_idle()
    assert group_offsets(topics.servers, topics.group) in ({}, {(topics.source, 0): 2})


def pace(batch: bool) -> Pace:
    return Pace(listener(batch))


def listener(batch: bool) -> Listener:
    app = App()
    app.listener("in", group="g", batch=batch, cycle_ms_max=100, max_poll_interval_ms=1_000)(
        lambda content: None
    )
    (declared,) = app.listeners
    return declared


def one_to(count: int) -> Portion:
    return portion([(0, offset) for offset in range(count)])


def through(last: Record | None) -> CycleOutcome:
    return CycleOutcome(Outbox(), last=last)


@given(st.integers(2, 50), st.floats(0, 10_000))
def test_only_a_call_that_was_surely_too_long_is_blamed(count: int, took_ms: float) -> None:
    last = record(count - 1)
    blamed = pace(batch=False).too_slow(one_to(count), through(last), took_ms)
    # The last of several calls begins in the first 100 ms.
    assert (blamed is last) == (took_ms - 100 > 1_000)
    assert pace(batch=True).too_slow(one_to(count), through(None), took_ms) is None
    alone = pace(batch=True).too_slow(one_to(1), through(None), took_ms)
    assert (alone == record(0)) == (took_ms > 1_000)


@pytest.mark.parametrize("batch", [False, True])
def test_who_is_away_for_too_long_takes_less_until_it_is_one_record(batch: bool) -> None:
    pacing = pace(batch)
    taken = []
    while pacing.count_max > 1:
        taken.append(pacing.count_max)
        pacing.adapt(one_to(pacing.count_max), through(None), 1_001)
    assert taken == [(16 if not batch else 1_000) >> halved for halved in range(len(taken))]
    pacing.adapt(one_to(1), through(None), 1)
    assert pacing.count_max == 2


def test_a_record_that_is_given_up_is_laid_aside_without_a_call() -> None:
    law = rules(0, "dead")
    backlog = Backlog(law.retry_policy)
    failure = Failure(record(6), TimeoutError("slow"), 3)
    backlog.too_slow(failure, is_given_up=True)
    backlog.drop([place(0)])
    steps = one_by_one(
        portion([(0, 5), (0, 6), (1, 6), (0, 7)]),
        law,
        Outbox(),
        backlog.attempts_of,
        lambda: False,
        backlog.given_up,
    )
    outcome = performed(steps, failing_at((0, 6)))
    assert sent(outcome) == ["0-5", "6", "1-6", "0-7"]
    assert (outcome.done, outcome.undone) == ({place(0): 8, place(1): 7}, {})
    letter: Outgoing = outcome.outbox.records[1]
    assert (letter.topic, dict(letter.headers)["semel.dead.attempts"]) == ("dead", b"3")
    backlog.done(outcome.done)
    assert backlog.given_up(place(0), 6) is None


def test_of_a_batch_it_is_laid_aside_before_the_others_are_tried() -> None:
    law = rules(0, "dead")
    backlog = Backlog(law.retry_policy)
    backlog.too_slow(Failure(record(6), TimeoutError("slow"), 3), is_given_up=True)
    steps = all_at_once(
        portion([(0, 6), (1, 6), (0, 7)]), law, Outbox(), backlog.attempts_of, backlog.given_up
    )
    outcome = performed(steps, failing_at())
    assert sent(outcome) == ["6"]
    assert (outcome.done, outcome.undone) == ({place(0): 7}, {place(0): 7, place(1): 6})
