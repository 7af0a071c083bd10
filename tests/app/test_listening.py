"""Listeners against a broker: what they read comes out once, and their groups stand behind it."""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from semel import App, Outbox, Record, Transaction
from semel.app.running import RunningApp
from semel.types import TopicPartition
from support.app_topics import Topics, group_offsets, numbers, spread
from support.looking import until
from support.topics import committed, fill, values


def declared(
    topics: Topics, function: Callable[..., Any], *, is_transactional: bool = True, **options: Any
) -> App:
    """An application with this one listener."""
    app = App(topics.servers)
    if is_transactional:
        function = app.transactional(function)
    app.listener(topics.source, group=topics.group, **options)(function)
    return app


def copying(topics: Topics) -> Callable[[Record, Outbox], None]:
    def copy(record: Record, out: Outbox) -> None:
        out.send(topics.target, key=record.key, value=record.value, partition=record.partition)

    return copy


def copying_on_the_loop(topics: Topics) -> Callable[[Record, Outbox], Any]:
    async def copy(record: Record, out: Outbox) -> None:
        await asyncio.sleep(0)
        copying(topics)(record, out)

    return copy


@pytest.mark.parametrize("is_transactional", [True, False], ids=["transactional", "plain"])
@pytest.mark.parametrize("make", [copying, copying_on_the_loop], ids=["def", "async-def"])
def test_every_record_is_worked_on_once_and_in_order(
    topics: Topics, make: Callable[[Topics], Callable[..., Any]], is_transactional: bool
) -> None:
    sent = numbers(500)
    spread(topics.servers, topics.source, sent)
    app = declared(topics, make(topics), is_transactional=is_transactional)
    (counts,) = app.run_until_idle().values()
    written = committed(topics.servers, topics.target)
    for partition in range(2):
        mine = [each.value for each in written if each.partition == partition]
        assert mine == sent[partition::2]
    assert counts.records == 500
    assert (counts.transactions_committed > 0) == is_transactional
    assert (counts.retries, counts.dead_letters, counts.transactions_aborted) == (0, 0, 0)


def test_the_group_stands_behind_what_was_done_and_goes_on_there(topics: Topics) -> None:
    app = declared(topics, copying(topics))
    fill(topics.servers, topics.source, numbers(10), 0)
    app.run_until_idle()
    assert group_offsets(topics.servers, topics.group) == {TopicPartition(topics.source, 0): 10}
    fill(topics.servers, topics.source, numbers(5, start=10), 0)
    (counts,) = app.run_until_idle().values()
    assert counts.records == 5
    assert values(topics.servers, topics.target) == numbers(15)


def test_a_list_of_records_makes_one_transaction(topics: Topics) -> None:
    sizes = []

    def add(batch: list[Record], out: Transaction) -> None:
        sizes.append(len(batch))
        out.send(topics.target, value=str(sum(int(record.value) for record in batch)))

    spread(topics.servers, topics.source, numbers(100))
    app = declared(topics, add, batch=True, records_max=40)
    (counts,) = app.run_until_idle().values()
    assert sum(map(int, values(topics.servers, topics.target))) == sum(range(100))
    assert sum(sizes) == 100
    assert max(sizes) <= 40
    assert counts.transactions_committed == len(sizes) == len(values(topics.servers, topics.target))


def test_a_transaction_has_no_more_records_than_it_may(topics: Topics) -> None:
    spread(topics.servers, topics.source, numbers(100))
    (counts,) = declared(topics, copying(topics), records_max=3).run_until_idle().values()
    assert counts.transactions_committed >= 34


def test_an_arrow_batch_is_worked_on_as_a_whole(topics: Topics) -> None:
    def copy(batch: pa.RecordBatch, out: Transaction) -> None:
        for row in batch.select(["value", "partition"]).to_pylist():
            out.send(topics.target, value=row["value"], partition=row["partition"])

    spread(topics.servers, topics.source, numbers(300))
    (counts,) = declared(topics, copy).run_until_idle().values()
    assert values(topics.servers, topics.target) == numbers(300)
    assert counts.records == 300


def test_one_listener_feeds_another(topics: Topics) -> None:
    app = App(topics.servers)

    @app.listener(topics.source, group=topics.group)
    @app.transactional
    def double(record: Record, out: Transaction) -> None:
        out.send(topics.target, value=str(2 * int(record.value)))

    @app.listener(topics.target, group=f"{topics.group}-2")
    @app.transactional
    def negate(record: Record, out: Transaction) -> None:
        out.send(topics.dead, value=str(-int(record.value)))

    spread(topics.servers, topics.source, numbers(50))
    counts = app.run_until_idle()
    assert {name: each.records for name, each in counts.items()} == {"double": 50, "negate": 50}
    assert (
        sorted(map(int, values(topics.servers, topics.dead))) == [-2 * n for n in range(50)][::-1]
    )


def test_members_of_one_listener_share_its_partitions(topics: Topics) -> None:
    spread(topics.servers, topics.source, numbers(200))
    app = declared(topics, copying(topics), concurrency=2)
    (counts,) = app.run_until_idle().values()
    assert counts.records == 200
    assert values(topics.servers, topics.target) == numbers(200)


def test_keys_headers_times_and_partitions_are_written_as_sent(topics: Topics) -> None:
    def send(record: Record, out: Transaction) -> None:
        out.send(
            topics.target,
            {"n": int(record.value)},
            key="k",
            headers={"h": "1"},
            partition=1,
            timestamp_ms=123,
        )

    app = App(topics.servers, value_serializer=lambda value: json.dumps(value).encode())
    app.listener(topics.source, group=topics.group)(app.transactional(send))
    fill(topics.servers, topics.source, [b"7"])
    app.run_until_idle()
    (written,) = committed(topics.servers, topics.target)
    assert (written.partition, written.key, written.value) == (1, b"k", b'{"n": 7}')
    assert written.headers == (("h", b"1"),)


def test_records_that_come_while_it_runs_are_worked_on(topics: Topics) -> None:
    app = declared(topics, copying(topics))

    async def scenario() -> None:
        async with app.running() as run:
            for start in (0, 10, 20):
                await asyncio.to_thread(
                    spread, topics.servers, topics.source, numbers(10, start=start)
                )
                await run.idle()
                written = await asyncio.to_thread(values, topics.servers, topics.target)
                assert written == numbers(start + 10)

    asyncio.run(scenario())


def test_a_failing_block_is_told_as_it_is(topics: Topics) -> None:
    app = declared(topics, copying(topics))

    async def scenario() -> None:
        async with app.running():
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(scenario())


async def trouble_of(app: App, servers: str) -> str:
    """The first trouble that the only listener has."""
    async with app.running(servers) as run:
        await until(lambda: _trouble(run) is not None)
        return _trouble(run) or ""


def _trouble(run: RunningApp) -> str | None:
    (counts,) = run.counts().values()
    return counts.trouble


def test_a_topic_that_is_missing_is_told(topics: Topics) -> None:
    app = App(topics.servers)
    app.listener(f"{topics.source}-missing", group=topics.group)(lambda record: None)
    told = asyncio.run(trouble_of(app, topics.servers))
    assert told == f"topic {topics.source}-missing does not exist"


def test_a_cluster_that_is_away_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        app = App()
        app.listener("any", group="any")(lambda record: None)
        told = asyncio.run(trouble_of(app, address))
    assert address in told
