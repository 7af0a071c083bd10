"""What was asked of a store, and what it costs."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from semel.errors import ConfigError
from semel.store.counting import Counting, Usage
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.prices import S3_PRICES, PriceList
from semel.store.seam import ObjectExists, ObjectMissing, StoreAway, StoreRefused
from semel.testing.fault_server import Fault
from semel.types import Buffer
from support import seeded_loop
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
    prices = PriceList.parse(S3_PRICES)
    minute = Usage(puts=1_000, gets=60)
    assert prices.month_usd(minute, 60.0) == pytest.approx(216 + 1.04, abs=0.01)
    assert prices.month_usd(Usage(), 60.0, stored_bytes=10**12) == pytest.approx(23)
    assert prices.month_usd(Usage(), 0.0) == 0


def test_prices_are_set_by_name() -> None:
    prices = PriceList.parse("put=0.01 gb_read=0.5")
    assert prices == PriceList(put=0.01, gb_read=0.5)
    with pytest.raises(ConfigError, match="prices have no 'post'"):
        PriceList.parse("post=1")
    with pytest.raises(ConfigError, match="'put=x' is not a number"):
        PriceList.parse("put=x")
    for amount in ("-1", "nan", "inf"):
        with pytest.raises(ConfigError, match="no amount"):
            PriceList.parse(f"put={amount}")


def test_errors_are_counted_by_kind_and_only_answers_are_timed() -> None:
    async def scenario() -> None:
        async with faulty() as (server, bare):
            store = Counting(bare)
            server.plan(Fault.SLOW_DOWN, "PUT")
            server.plan(Fault.ERROR_BEFORE, "PUT")
            server.plan(Fault.FORBIDDEN, "GET")
            server.plan(Fault.HANG_BEFORE, "LIST")
            for _ in range(2):
                with pytest.raises(StoreAway):
                    await store.create("a/1", [b"1"])
            with pytest.raises(StoreRefused):
                await store.get("a/1")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await store.list("a/")
            await store.create("a/1", [b"1"])
            with pytest.raises(ObjectExists):
                await store.create("a/1", [b"1"])
            assert store.errors == {
                ("put", "throttled"): 1,
                ("put", "away"): 1,
                ("get", "refused"): 1,
                ("list", "unanswered"): 1,
            }
            assert {verb: sum(each.counts) for verb, each in store.latencies.items()} == {
                "put": 2,
                "get": 0,
                "list": 0,
                "delete": 0,
            }

    asyncio.run(scenario())


def test_what_is_asked_of_late_is_what_was_asked_in_about_a_minute() -> None:
    async def scenario() -> None:
        store = Counting(MemoryStore(Bucket()))
        assert store.recent() == (Usage(), 0.0)
        for number in range(100):
            await store.create(f"a/{number:03}", [b"12"])
        store.start()
        for _ in range(200):
            await store.list("a/")
            await seeded_loop.elapse(1.0)
        usage, elapsed_s = store.recent()
        assert usage.puts == 0
        assert 60 <= elapsed_s <= 70
        assert usage.lists == pytest.approx(elapsed_s, abs=1)

    seeded_loop.run(Random(0), scenario())
