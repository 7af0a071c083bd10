"""What was asked of a store, and what it costs."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from semel.errors import ConfigError
from semel.store.counting import S3_STANDARD, Counting, PriceList, Usage
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.seam import ObjectExists, ObjectMissing
from semel.types import Buffer
from support.stores import faulty


async def zeros(count: int) -> AsyncIterator[Buffer]:
    for _ in range(count):
        yield bytes(2**20)


def test_every_request_is_counted_whatever_came_of_it() -> None:
    async def scenario() -> None:
        store = Counting(MemoryStore(Bucket()))
        await store.create("a/1", [b"12", b"345"])
        with pytest.raises(ObjectExists):
            await store.create("a/1", [b"1"])
        await store.get("a/1")
        await store.get_range("a/1", 1, 2)
        with pytest.raises(ObjectMissing):
            await store.get("a/2")
        before = store.usage.copy()
        await store.list("a/")
        await store.delete(["a/1", "a/2"])
        await store.close()
        assert store.usage == Usage(2, 3, 1, 2, bytes_written=6, bytes_read=7)
        assert store.usage.since(before) == Usage(lists=1, deletes=2)

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40])
def test_parts_are_counted_as_the_server_sees_them(count: int) -> None:
    async def scenario() -> None:
        async with faulty() as (server, bare):
            store = Counting(bare)
            await store.create_large("vol/1", zeros(count))
            assert store.usage == Usage(server.counts["PUT"], bytes_written=count * 2**20)

    asyncio.run(scenario())


def test_pages_are_counted_as_the_server_sees_them() -> None:
    async def scenario() -> None:
        async with faulty() as (server, bare):
            server.bucket.objects = {f"some/where/a/{number:05}": b"" for number in range(2_500)}
            store = Counting(bare)
            assert len(await store.list("a/")) == 2_500
            assert store.usage == Usage(lists=server.counts["LIST"])

    asyncio.run(scenario())


def test_a_busy_lane_costs_what_the_list_says() -> None:
    minute = Usage(puts=1_000, gets=60)
    assert S3_STANDARD.month_usd(minute, 60.0) == pytest.approx(216 + 1.04, abs=0.01)
    assert S3_STANDARD.month_usd(Usage(), 60.0, stored_bytes=10**12) == pytest.approx(23)


def test_prices_are_set_by_name() -> None:
    prices = PriceList.parse("put=0.01 gb_read=0.5")
    assert prices == PriceList("as set", put=0.01, gb_read=0.5)
    with pytest.raises(ConfigError, match="prices have no 'post'"):
        PriceList.parse("post=1")
    with pytest.raises(ConfigError, match="'put=x' is not a number"):
        PriceList.parse("put=x")
