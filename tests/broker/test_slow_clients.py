"""Clients that do not read, or send without end: memory stays bounded, the others are served."""

import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from semel.records.records import Record, encode_batch
from semel.testing import Broker
from support.raw_client import (
    METRICS,
    RawClient,
    encoded,
    fetch_request,
    fetched_values,
    metric,
    peak_resident_bytes,
    produce,
    produce_values,
    request_frame,
    resident_bytes,
)

MIB = 2**20
SETTINGS = {
    "queued.max.response.bytes": 16 * MIB,
    "queued.max.request.bytes": 16 * MIB,
    "connections.max.idle.ms": 1_000,
    "fetch.max.bytes": 8 * MIB,
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS, arguments=METRICS) as broker:
        with RawClient(broker) as client:
            client.create_topic("small")
            produce_values(client, "small", [b"here"])
            client.create_topic("large")
            batch = encode_batch([Record(None, bytes(MIB // 2))])
            for _ in range(40):
                assert produce(client, "large", batch).error_code == 0
        yield broker


def large_fetch(*, max_wait_ms: int = 0, min_bytes: int = 1) -> bytes:
    request = fetch_request("large", 0, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    return request_frame("fetch", 11, encoded("fetch", 11, request))


def is_served(broker: Broker) -> bool:
    with RawClient(broker) as client:
        return fetched_values(client, "small") == [b"here"]


def send_all(client: RawClient, raw: bytes) -> threading.Thread:
    """Send in a thread, as the broker may stop reading or close."""

    def send() -> None:
        with suppress(OSError):
            client.send(raw)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def test_many_who_never_read_take_a_bounded_share(broker: Broker) -> None:
    before = resident_bytes(broker)
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(RawClient(broker)).send(large_fetch() * 10)
            assert is_served(broker)
        assert peak_resident_bytes(broker) < before + 120 * MIB


def test_one_who_pipelines_long_polls_is_answered_one_after_the_other(broker: Broker) -> None:
    before = resident_bytes(broker)
    with RawClient(broker) as client:
        client.send(large_fetch(max_wait_ms=60_000, min_bytes=2**31 - 1) * 256)
        for _ in range(20):
            assert is_served(broker)
        assert peak_resident_bytes(broker) < before + 60 * MIB


def test_a_slow_reader_gets_everything_in_the_end(broker: Broker) -> None:
    with RawClient(broker) as slow:
        slow.send(large_fetch() * 20)
        assert is_served(broker)
        for _ in range(20):
            reply = slow.receive()
            assert reply is not None
            assert len(reply) > MIB // 2


def test_requests_that_are_never_finished_do_not_add_up(broker: Broker) -> None:
    before = resident_bytes(broker)
    unfinished = struct.pack(">i", 90 * MIB) + bytes(20 * MIB)
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker)) for _ in range(12)]
        threads = [send_all(client, unfinished) for client in clients]
        for _ in range(20):
            assert is_served(broker)
        for thread in threads:
            thread.join()
        assert peak_resident_bytes(broker) < before + 60 * MIB


def test_a_client_that_stops_reading_is_let_go(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.send(large_fetch() * 50)
        while metric(broker, "semel_connections") > 0:
            assert is_served(broker)
