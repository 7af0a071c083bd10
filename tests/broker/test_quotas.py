"""Who uses more than a quota is answered at once, and then not read from for as long as it says."""

import asyncio
from typing import Any

import pytest

from semel.access.quotas import EVERY_OTHER, Entity
from semel.broker.broker import Broker
from semel.lane.quotas import AlterQuotas
from semel.records.records import Record, encode_batch
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.fetch import FetchRequest, FetchTopic
from semel.wire.messages.metadata import MetadataRequest
from support.handled import CONFIG, Machine, call, on_a
from support.raw_client import encoded, fetch_request, produce_request, request_frame
from support.seeded_loop import elapse
from support.wired_client import WiredClient

EVERYBODY = Entity(EVERY_OTHER)
CLIENT = Entity(client_id="x")
"""Of the requests of these tests."""
BATCH = encode_batch([Record(None, bytes(1_000), 1_000)])
REQUEST = produce_request("t", BATCH)
SIZE = len(request_frame("produce", 9, encoded("produce", 9, REQUEST))) - 4


async def set_quota(broker: Broker, entity: Entity, **values: float | None) -> None:
    broker.lanes.controller.submit(AlterQuotas(entity, values))
    broker.quotas_changed(entity)


async def create_topic(broker: Broker) -> None:
    request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    (topic,) = (await call(broker, "create_topics", 7, request)).topics
    assert topic.error_code == 0


async def produced(client: WiredClient) -> int:
    """For how long the client has to wait then, in milliseconds."""
    response = await client.call("produce", 9, REQUEST)
    assert response.responses[0].partition_responses[0].error_code == 0
    return int(response.throttle_time_ms)


def now_s() -> float:
    return asyncio.get_running_loop().time()


@on_a(Machine)
async def test_a_producer_is_told_how_long_it_waits_and_is_not_read_from_meanwhile(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        await set_quota(broker, CLIENT, producer_byte_rate=float(SIZE))
        client = WiredClient(broker)
        # As much as ten seconds may bring is taken at once.
        assert [await produced(client) for _ in range(10)] == [0] * 10
        began_s = now_s()
        assert await produced(client) == pytest.approx(1_000, abs=50)
        assert not client.is_read_from()
        client.send_request("api_versions", 3, ApiVersionsRequest("x", "1"))
        await elapse(0.9)
        assert (client.is_read_from(), client.replies()) == (False, [])
        await client.receive()
        assert client.is_read_from()
        assert now_s() - began_s == pytest.approx(1.0, abs=0.05)


@on_a(Machine)
async def test_what_was_sent_behind_it_is_not_decided_before(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        await set_quota(broker, CLIENT, producer_byte_rate=1.0)
        client = WiredClient(broker)
        frame = request_frame("produce", 9, encoded("produce", 9, REQUEST))
        client.send(frame * 3)
        await client.receive()
        await elapse(SIZE - 20)
        assert client.replies() == []
        (lane,) = broker.lanes.led
        assert lane.view.partition("t", 0).log_end_offset == 1


@on_a(Machine)
async def test_without_acks_there_is_no_reply_and_the_same_wait(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        await set_quota(broker, CLIENT, producer_byte_rate=100.0)
        client = WiredClient(broker)
        client.send_request("produce", 9, produce_request("t", BATCH, acks=0))
        assert not client.is_read_from()
        await elapse(1 + SIZE / 100)
        assert client.is_read_from()


@on_a(Machine)
async def test_quotas_of_a_user_are_shared_by_its_connections_and_others_are_not_held_up(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        await set_quota(broker, Entity("ANONYMOUS"), producer_byte_rate=float(SIZE))
        await set_quota(broker, CLIENT, producer_byte_rate=1.0)
        one, other = WiredClient(broker), WiredClient(broker)
        assert [await produced(one) for _ in range(10)] == [0] * 10
        assert await produced(other) == pytest.approx(1_000, abs=50)
        # It has not asked for anything since.
        assert one.is_read_from()
        await set_quota(broker, Entity("ANONYMOUS"), producer_byte_rate=None)
        assert await produced(one) == pytest.approx((SIZE - 10) * 1_000, abs=1_000)


@on_a(Machine)
async def test_a_fetch_is_answered_with_no_more_than_fits_the_windows(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        client = WiredClient(broker)
        for _ in range(20):
            await produced(client)
        size = len(BATCH)
        await set_quota(broker, CLIENT, consumer_byte_rate=float(size // 4))

        async def fetched(offset: int) -> tuple[int, int]:
            response = await client.call("fetch", 11, fetch_request("t", offset))
            records = response.responses[0].partitions[0].records
            return len(bytes(records)), response.throttle_time_ms

        assert await fetched(0) == (2 * size, 0)
        taken, throttle_ms = await fetched(2)
        assert taken == 2 * size
        # What sixteen seconds may bring, and ten are given at once.
        assert throttle_ms == pytest.approx(6_000, abs=100)
        assert not client.is_read_from()


@on_a(Machine)
async def test_a_fetch_that_waits_counts_when_it_is_answered(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        await set_quota(broker, CLIENT, consumer_byte_rate=10.0)
        writer, reader = WiredClient(broker), WiredClient(broker)
        reader.send_request("fetch", 11, fetch_request("t", 0, max_wait_ms=30_000))
        await elapse(5)
        assert reader.is_read_from()
        await produced(writer)
        await reader.receive()
        assert not reader.is_read_from()
        reader.leave()
        await elapse(1)
        assert broker.connection_count == 1


@on_a(Machine)
async def test_who_leaves_while_it_is_to_wait_leaves_nothing_behind(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        await set_quota(broker, CLIENT, producer_byte_rate=1.0)
        client = WiredClient(broker)
        await produced(client)
        loop: Any = asyncio.get_running_loop()
        waiting = {handle for handle in loop._scheduled if not handle.cancelled()}
        client.leave()
        still = {handle for handle in loop._scheduled if not handle.cancelled()}
        assert len(waiting - still) == 1


@on_a(Machine)
async def test_the_share_of_the_loop_is_counted_in_time_that_was_worked(machine: Machine) -> None:
    async with machine.broker() as broker:
        spent_ns = 0

        def worked() -> int:
            nonlocal spent_ns
            # So long takes whatever lies between two looks at this clock.
            spent_ns += 5_000_000
            return spent_ns

        broker.metering.spent_ns = worked
        await set_quota(broker, CLIENT, request_percentage=1.0)
        client = WiredClient(broker)
        waits_ms = []
        for _ in range(30):
            response = await client.call("metadata", 8, MetadataRequest([]))
            waits_ms.append(response.throttle_time_ms)
        # Ten seconds of one percent are 100 ms.
        assert waits_ms[:5] == [0] * 5
        assert all(0 < wait_ms <= 1_000 for wait_ms in waits_ms[20:])
        await set_quota(broker, CLIENT, request_percentage=None)
        assert (await client.call("metadata", 8, MetadataRequest([]))).throttle_time_ms == 0


@on_a(Machine)
async def test_waiting_is_no_work(machine: Machine) -> None:
    async with machine.broker() as broker:
        await create_topic(broker)
        broker.metering.spent_ns = lambda: int(now_s() * 1e9)
        await set_quota(broker, CLIENT, request_percentage=0.1)
        client = WiredClient(broker)
        for _ in range(5):
            request = fetch_request("t", 0, max_wait_ms=10_000)
            assert (await client.call("fetch", 11, request)).throttle_time_ms == 0


@on_a(Machine)
async def test_without_quotas_nothing_of_this_is_on_the_way(machine: Machine) -> None:
    async with machine.broker() as broker:
        client, later = WiredClient(broker), None

        def is_counted(each: WiredClient) -> bool:
            connection = each.connection
            return connection._dispatch != connection._server.dispatch

        assert not is_counted(client)
        await set_quota(broker, Entity(ip="10.0.0.1"), connection_creation_rate=5.0)
        assert not is_counted(client)
        await set_quota(broker, CLIENT, request_percentage=0.5)
        later = WiredClient(broker)
        assert is_counted(client)
        assert is_counted(later)
        await set_quota(broker, CLIENT, request_percentage=None)
        assert not is_counted(client)
        assert not is_counted(later)


@on_a(Machine)
async def test_an_address_that_connects_too_often_is_not_let_in(machine: Machine) -> None:
    async with machine.broker() as broker:
        await set_quota(broker, Entity(ip="10.0.0.1"), connection_creation_rate=2.0)

        def let_in(host: str) -> bool:
            client = WiredClient(broker, host)
            return not client.is_cut_off

        assert [let_in("10.0.0.1") for _ in range(30)] == [True] * 20 + [False] * 10
        assert let_in("10.0.0.2")
        assert not let_in("::ffff:10.0.0.1")
        await elapse(12)
        # Those that were not let in do not count.
        assert [let_in("10.0.0.1") for _ in range(21)] == [True] * 20 + [False]


@on_a(Machine)
async def test_quotas_count_again_after_a_kill(machine: Machine) -> None:
    async with machine.broker() as broker:
        await set_quota(broker, EVERYBODY, producer_byte_rate=1.0)
        await broker.lanes.controller.until_durable()
    machine.device.kill()
    async with machine.broker() as broker:
        assert broker.metering.limits_clients
        await create_topic(broker)
        assert await produced(WiredClient(broker)) > 0


@on_a(Machine)
async def test_clients_that_name_themselves_anew_each_time_take_no_memory(machine: Machine) -> None:
    from semel.broker.metering import COUNTED_MAX

    async with machine.broker() as broker:
        await set_quota(broker, Entity(client_id=EVERY_OTHER), consumer_byte_rate=1.0)
        await set_quota(broker, Entity("ANONYMOUS"), producer_byte_rate=1e9)
        metering = broker.metering
        client = WiredClient(broker)
        for number in range(COUNTED_MAX + 100):
            body = encoded("fetch", 11, FetchRequest(topics=[FetchTopic("t")]))
            frame = request_frame("fetch", 11, body)
            name = b"%08d" % number
            header = frame[4:12] + len(name).to_bytes(2, "big") + name
            content = header + frame[4 + 8 + 3 :]
            client.send(len(content).to_bytes(4, "big") + content)
        assert COUNTED_MAX // 2 <= len(metering._rates) <= COUNTED_MAX
        assert len(metering._limits) <= COUNTED_MAX
        counted = {share.user for _, share in metering._rates}
        assert "ANONYMOUS" in counted


def test_settings_of_the_windows_are_kafkas() -> None:
    assert (CONFIG.quota_window_num, CONFIG.quota_window_size_seconds) == (11, 1)
