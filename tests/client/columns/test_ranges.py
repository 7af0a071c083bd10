"""Ranges of a partition: where they end, what they leave out, and what they do when it is gone."""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from client.sending import send
from semel.client.admin import topics
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation
from semel.client.columns.ranges import RecordsLost, fetch_regions
from semel.client.connecting.address import parse_bootstrap_servers
from semel.errors import RequestTimedOut
from semel.records.records import Record
from semel.testing import Broker
from semel.testing import Cluster as Nodes
from semel.types import TopicPartition
from semel.wire.messages import delete_records

T = TypeVar("T")
READ_S_MAX = 60.0


def with_cluster(
    broker: Broker, scenario: Callable[[Cluster], Awaitable[T]], timeout_ms: int = 30_000
) -> T:
    async def connected() -> T:
        servers = parse_bootstrap_servers(broker.bootstrap_servers)
        async with Cluster(servers, timeout_ms=timeout_ms) as cluster:
            return await scenario(cluster)

    return asyncio.run(connected())


async def filled(broker: Broker, cluster: Cluster, topic: str, count: int) -> TopicPartition:
    await topics.create(cluster, [topic], partition_count=1)
    records = [Record(None, b"%d" % i, i) for i in range(count)]
    await send(broker.bootstrap_servers, topic, records, batch_size_max=400)
    return TopicPartition(topic, 0)


async def offsets_in(
    cluster: Cluster,
    place: TopicPartition,
    start: int,
    end: int,
    *,
    accepts_loss: bool = False,
    begins_with_log: bool = False,
) -> list[int]:
    found: list[int] = []
    async for region in fetch_regions(
        cluster,
        place,
        start,
        end,
        fetch_size_max=1000,
        accepts_loss=accepts_loss,
        begins_with_log=begins_with_log,
    ):
        found += region.decode().column("offset").to_pylist()
    return found


async def remove_before(cluster: Cluster, place: TopicPartition, offset: int) -> None:
    leader_id = (await cluster.leaders_of([place]))[place]
    partition = delete_records.DeleteRecordsPartition(place.partition, offset)
    topic = delete_records.DeleteRecordsTopic(place.topic, [partition])
    request = delete_records.DeleteRecordsRequest([topic], cluster.timeout_ms)
    reply = await cluster.call(leader_id, delete_records, request)
    assert reply.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize(("start", "end"), [(0, 100), (3, 97), (50, 51), (7, 7), (99, 100)])
def test_a_range_is_what_lies_between_its_offsets(
    semel_broker: Broker, start: int, end: int
) -> None:
    async def scenario(cluster: Cluster) -> list[int]:
        place = await filled(semel_broker, cluster, f"range-{start}-{end}", 100)
        return await offsets_in(cluster, place, start, end)

    assert with_cluster(semel_broker, scenario) == list(range(start, end))


def test_regions_tell_where_the_range_goes_on(semel_broker: Broker) -> None:
    async def scenario(cluster: Cluster) -> None:
        place = await filled(semel_broker, cluster, "regions", 100)
        position = 0
        async for region in fetch_regions(cluster, place, 0, 100, fetch_size_max=1000):
            assert region.start_offset == position
            position = region.next_offset
        assert position == 100

    with_cluster(semel_broker, scenario)


def test_a_range_is_read_on_elsewhere_when_its_leader_is_frozen(semel_cluster: Nodes) -> None:
    """There is time for it to be over, which is not what ends the wait for the frozen node."""
    partition = TopicPartition("frozen", 0)
    servers = parse_bootstrap_servers(semel_cluster.bootstrap_servers)

    async def scenario() -> list[int]:
        async with Cluster(servers, timeout_ms=10**9, request_timeout_ms=1_000) as cluster:
            await topics.create(cluster, ["frozen"], partition_count=1)
            records = [Record(None, b"%d" % i, i) for i in range(1_000)]
            bootstrap = semel_cluster.bootstrap_servers
            await send(bootstrap, "frozen", records, batch_size_max=400)
            found: list[int] = []
            async for region in fetch_regions(cluster, partition, 0, 1_000, fetch_size_max=400):
                if not found:
                    leader = await asyncio.to_thread(lambda: semel_cluster.leader)
                    semel_cluster.freeze(leader)
                found += region.decode().column("offset").to_pylist()
            return found

    async def in_time() -> list[int]:
        async with asyncio.timeout(READ_S_MAX):
            return await scenario()

    assert asyncio.run(in_time()) == list(range(1_000))


def test_what_retention_removed_is_said_or_passed_over(semel_broker: Broker) -> None:
    async def scenario(cluster: Cluster) -> None:
        place = await filled(semel_broker, cluster, "removed", 100)
        await remove_before(cluster, place, 40)
        with pytest.raises(RecordsLost, match="offset 10 is not in removed-0, which has 40 to 100"):
            await offsets_in(cluster, place, 10, 100)
        assert await offsets_in(cluster, place, 10, 100, accepts_loss=True) == list(range(40, 100))

    with_cluster(semel_broker, scenario)


def test_a_range_that_begins_with_the_log_begins_where_that_does_by_then(
    semel_broker: Broker,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        place = await filled(semel_broker, cluster, "moved", 1_000)
        await remove_before(cluster, place, 40)
        found = await offsets_in(cluster, place, 0, 1_000, begins_with_log=True)
        assert found == list(range(40, 1_000))
        regions = fetch_regions(cluster, place, 0, 1_000, fetch_size_max=400, begins_with_log=True)
        first = await anext(regions)
        assert first.start_offset == 40
        await remove_before(cluster, place, 990)
        with pytest.raises(RecordsLost):
            # One fetch was under way.
            [region async for region in regions]

    with_cluster(semel_broker, scenario)


def test_an_offset_that_the_log_never_reached_is_said_or_passed_over(semel_broker: Broker) -> None:
    async def scenario(cluster: Cluster) -> None:
        place = await filled(semel_broker, cluster, "beyond", 10)
        with pytest.raises(RecordsLost, match="cut or remade") as lost:
            await offsets_in(cluster, place, 50, 60)
        copy = pickle.loads(pickle.dumps(lost.value))
        assert (copy.partition, copy.offset, copy.beginning, copy.end) == (place, 50, 0, 10)
        assert str(copy) == str(lost.value)
        assert await offsets_in(cluster, place, 50, 60, accepts_loss=True) == []

    with_cluster(semel_broker, scenario)


def test_a_range_that_is_never_filled_ends_in_an_error(semel_broker: Broker) -> None:
    async def scenario(cluster: Cluster) -> None:
        place = await filled(semel_broker, cluster, "short", 5)
        with pytest.raises(RequestTimedOut, match="nothing is to be read at offset 5"):
            await offsets_in(cluster, place, 0, 6)

    with_cluster(semel_broker, scenario, timeout_ms=1_000)


def test_a_range_goes_on_over_a_killed_broker(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as broker:

        async def scenario(cluster: Cluster) -> list[int]:
            place = await filled(broker, cluster, "kills", 100)
            found: list[int] = []
            async for region in fetch_regions(cluster, place, 0, 100, fetch_size_max=1000):
                found += region.decode().column("offset").to_pylist()
                broker.kill()
                broker.start()
            return found

        assert with_cluster(broker, scenario) == list(range(100))


def test_isolation_is_the_readers_choice(semel_broker: Broker) -> None:
    async def scenario(cluster: Cluster) -> list[int]:
        place = await filled(semel_broker, cluster, "isolation", 10)
        found: list[int] = []
        async for region in fetch_regions(
            cluster, place, 0, 10, isolation=Isolation.READ_UNCOMMITTED
        ):
            found += region.decode(["offset"]).column("offset").to_pylist()
        return found

    assert with_cluster(semel_broker, scenario) == list(range(10))
