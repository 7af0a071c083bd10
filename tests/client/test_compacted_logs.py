"""Our readers on logs with gaps, emptied batches and starts that move."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

import semel
from semel import AsyncConsumer, Record
from semel.client.admin.transaction_history import stored_batches
from semel.client.cluster.cluster import Cluster
from semel.client.columns.ranges import RecordsLost
from semel.client.connecting.address import parse_bootstrap_servers
from semel.errors import OffsetOutOfRange
from semel.records.batch import read
from semel.types import TopicPartition
from support import topics
from support.broker_in_thread import BrokerInThread
from support.compacted_log import batch_of
from support.compacted_topic import LOG, PLACE, compacted_topics, delete_before
from support.inside import store

ISOLATIONS = ("read_uncommitted", "read_committed")
Row = tuple[int, bytes | None, bytes | None, int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerInThread]:
    with compacted_topics(tmp_path_factory.mktemp("compacted") / "data") as running:
        yield running


def wanted(isolation: str, start: int = 0, end: int = LOG.end) -> list[Row]:
    visible = LOG.visible(is_committed_only=isolation == "read_committed")
    return [
        (each.offset, each.key, each.value, each.timestamp_ms)
        for each in visible
        if start <= each.offset < end
    ]


def rows_of(table: pa.Table) -> list[Row]:
    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return [
        (offset, key, value, microseconds // 1000)
        for offset, key, value, microseconds in zip(*columns, times, strict=True)
    ]


def fields_of(records: list[Record]) -> list[Row]:
    return [(each.offset, each.key, each.value, each.timestamp_ms) for each in records]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("max_records", [1, 4, 500])
def test_a_consumer_reads_all_there_is_and_stands_at_the_end(
    broker: BrokerInThread, isolation: str, max_records: int
) -> None:
    async def work() -> None:
        options = {"isolation": isolation, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(broker.bootstrap_servers, **options) as consumer:  # type: ignore[arg-type]
            consumer.assign([PLACE])
            records: list[Record] = []
            while await consumer.position(PLACE) < LOG.end:
                records += await consumer.poll(50, max_records)
            assert fields_of(records) == wanted(isolation)
            assert await consumer.lag() == {PLACE: 0}

    asyncio.run(work())


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_so_it_does_as_columns(broker: BrokerInThread, isolation: str) -> None:
    async def work() -> None:
        options = {"isolation": isolation, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(broker.bootstrap_servers, **options) as consumer:  # type: ignore[arg-type]
            consumer.assign([PLACE])
            polled: list[pa.RecordBatch] = []
            while await consumer.position(PLACE) < LOG.end:
                polled.append(await consumer.poll_arrow(50, 4))
            assert rows_of(pa.Table.from_batches(polled)) == wanted(isolation)

    asyncio.run(work())


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_consumer_may_be_set_to_any_offset(broker: BrokerInThread, isolation: str) -> None:
    async def work() -> None:
        # A seek waits for the answer to what was asked before it, which the log's end makes late.
        options = {"isolation": isolation, "fetch_wait_ms_max": 10}
        async with AsyncConsumer(broker.bootstrap_servers, **options) as consumer:  # type: ignore[arg-type]
            consumer.assign([PLACE])
            for offset in range(LOG.start, LOG.end):
                consumer.seek(PLACE, offset)
                records: list[Record] = []
                while not records and await consumer.position(PLACE) < LOG.end:
                    records = await consumer.poll(50)
                expected = wanted(isolation, offset)
                assert fields_of(records) == expected[: len(records)]
                assert bool(records) == bool(expected)

    asyncio.run(work())


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_table_has_what_lies_between_any_two_offsets(
    broker: BrokerInThread, isolation: str
) -> None:
    servers = broker.bootstrap_servers
    table = semel.read("t", bootstrap_servers=servers, isolation=isolation)
    assert rows_of(table) == wanted(isolation)
    for start, end in ((6, 8), (8, 20), (10, 15), (15, 26), (22, 24), (26, 60), (39, 80), (66, 75)):
        table = semel.read(
            "t", bootstrap_servers=servers, start=start, end=end, isolation=isolation
        )
        assert rows_of(table) == wanted(isolation, start, end)


def test_a_table_ends_in_a_gap_before_a_transaction_that_is_open(broker: BrokerInThread) -> None:
    """Nothing comes any more before the transaction ends, which is not for the reader to await."""
    table = semel.read("held-up", bootstrap_servers=broker.bootstrap_servers)
    assert table["offset"].to_pylist() == list(range(10))


def test_a_start_that_moves_up_into_a_gap_loses_what_was_before_it(broker: BrokerInThread) -> None:
    topic = TopicPartition("moving", 0)
    servers = broker.bootstrap_servers
    topics.create(servers, topic.topic)
    batches = [batch_of(0, 9), batch_of(20, 29)]
    broker.do(lambda inside: store(inside, topic, batches, ()))
    delete_before(servers, topic, 15)
    assert semel.read("moving", bootstrap_servers=servers)["offset"].to_pylist() == [*range(20, 30)]
    with pytest.raises(RecordsLost):
        semel.read("moving", bootstrap_servers=servers, start=5)


def test_the_history_of_transactions_is_read_over_gaps(broker: BrokerInThread) -> None:
    async def work() -> None:
        async with Cluster(parse_bootstrap_servers(broker.bootstrap_servers)) as cluster:
            found = [
                batch.header async for batch in stored_batches(cluster, PLACE, LOG.start, LOG.end)
            ]
            assert found == [read(batch) for batch in LOG.batches]

    asyncio.run(work())


def test_so_it_is_from_where_the_log_has_come_to_begin(broker: BrokerInThread) -> None:
    async def work() -> None:
        async with Cluster(parse_bootstrap_servers(broker.bootstrap_servers)) as cluster:
            found = [batch.header async for batch in stored_batches(cluster, PLACE, 0, 25)]
            assert found == [read(batch) for batch in LOG.batches[:2]]
            with pytest.raises(OffsetOutOfRange):
                await anext(stored_batches(cluster, PLACE, 90, 100))

    asyncio.run(work())
