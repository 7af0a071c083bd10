"""A listener that is paused works on nothing, and stays in its group with its partitions."""

import asyncio

import pyarrow as pa
import pytest

from semel import App, Record, Transaction
from semel.app.pauses import Pauses
from semel.app.progress import ListenerState
from semel.client.consuming.settings import ConsumerOptions
from semel.errors import ConfigError
from support.app_topics import Topics, group_offsets, numbers, spread
from support.looking import until
from support.topics import values

ATTENTIVE: ConsumerOptions = {"heartbeat_interval_ms": 50}


def copying(topics: Topics, app: App) -> list[bytes]:
    seen: list[bytes] = []

    @app.listener(topics.source, group=topics.group, records_max=5, **ATTENTIVE)
    @app.transactional
    def copy(record: Record, out: Transaction) -> None:
        seen.append(record.value or b"")
        out.send(topics.target, value=record.value)
        if len(seen) == 10:
            app.pause("copy")

    return seen


def test_a_listener_pauses_itself_and_goes_on_when_it_is_resumed(topics: Topics) -> None:
    sent = numbers(100)
    spread(topics.servers, topics.source, sent)
    app = App(topics.servers)
    seen = copying(topics, app)

    async def scenario() -> None:
        async with app.running() as run:
            await until(lambda: run.counts()["copy"].state is ListenerState.PAUSED)
            # What is in work is finished: a cycle, and no more.
            paused_at = len(seen)
            assert 10 <= paused_at <= 15
            assert run.counts()["copy"].records == paused_at
            await run.idle()
            assert len(seen) == paused_at
            await until(lambda: run.counts()["copy"].lag == 100 - paused_at)
            app.resume()
            await run.idle()

    asyncio.run(scenario())
    assert sorted(seen) == sent
    assert values(topics.servers, topics.target) == sent
    assert sum(group_offsets(topics.servers, topics.group).values()) == 100


def test_a_pause_outlasts_a_rebalance_and_holds_for_partitions_that_come(topics: Topics) -> None:
    sent = numbers(20)
    first, second = App(topics.servers), App(topics.servers)
    copied = copying(topics, first)
    copying(topics, second)
    first.pause()
    second.pause("copy")
    assert first.paused == {"copy"}

    async def scenario() -> None:
        async with first.running() as run:
            async with second.running() as other:
                await until(lambda: len(other.counts()["copy"].partitions) == 1)
                await until(lambda: len(run.counts()["copy"].partitions) == 1)
                await asyncio.to_thread(spread, topics.servers, topics.source, sent)
                await until(lambda: other.counts()["copy"].lag == 10)
            await until(lambda: len(run.counts()["copy"].partitions) == 2)
            await until(lambda: run.counts()["copy"].lag == 20)
            assert run.counts()["copy"].state is ListenerState.PAUSED
            assert copied == []
            await asyncio.to_thread(first.resume, "copy")
            await until(lambda: len(copied) == 10)
            first.resume("copy")
            await run.idle()

    asyncio.run(scenario())
    assert values(topics.servers, topics.target) == sent


def test_a_listener_of_columns_pauses_too(topics: Topics) -> None:
    spread(topics.servers, topics.source, numbers(10))
    app, counts = App(topics.servers), []

    @app.listener(topics.source, group=topics.group, batch="arrow")
    def count(batch: pa.RecordBatch) -> None:
        counts.append(batch.num_rows)

    app.pause("count")

    async def scenario() -> None:
        async with app.running() as run:
            await until(lambda: run.counts()["count"].lag == 10)
            assert counts == []
            app.resume("count")
            await run.idle()

    asyncio.run(scenario())
    assert sum(counts) == 10


def test_what_is_no_listener_cannot_be_paused() -> None:
    app = App()
    with pytest.raises(ConfigError, match="there is no listener 'copi'"):
        app.pause("copi")


def test_a_change_is_told_to_those_who_watch_only() -> None:
    pauses, told = Pauses(), []
    pauses.add(frozenset({"a"}))
    with pauses.watched(lambda: told.append(pauses.paused)):
        pauses.add(frozenset({"b"}))
        pauses.remove(frozenset({"a"}))
    pauses.remove(frozenset({"b"}))
    assert told == [{"a", "b"}, {"b"}]
    assert "b" not in pauses
