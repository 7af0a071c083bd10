"""Connections: replies in the order of the requests, waits that end, limits that hold."""

import struct

import pytest

from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.metadata import MetadataRequest
from support.raw_client import (
    RawClient,
    decoded_reply,
    encoded,
    fetch_request,
    fetched_values,
    produce_request,
    produce_values,
    request_frame,
)

VERSIONS = encoded("api_versions", 3, ApiVersionsRequest("x", "1"))


def fetch_frame(topic: str, offset: int, max_wait_ms: int, correlation_id: int = 1) -> bytes:
    request = fetch_request(topic, offset, max_wait_ms=max_wait_ms)
    return request_frame("fetch", 11, encoded("fetch", 11, request), correlation_id)


def correlation_id(reply: bytes | None) -> int:
    assert reply is not None
    return int(struct.unpack_from(">i", reply)[0])


def test_a_fetch_waits_for_a_record_and_no_longer(broker: Broker) -> None:
    with RawClient(broker) as writer, RawClient(broker) as reader:
        writer.create_topic("waiting")
        reader.send(fetch_frame("waiting", 0, max_wait_ms=60_000))
        produce_values(writer, "waiting", [b"at last"])
        reply = reader.receive()
        assert reply is not None
        assert b"at last" in reply


def test_a_fetch_for_which_nothing_comes_is_answered_empty(broker: Broker) -> None:
    with RawClient(broker) as reader:
        reader.send(fetch_frame("t", 1, max_wait_ms=50))
        reply = reader.receive()
        assert reply is not None
        (topic,) = decoded_reply("fetch", 11, reply).responses
        assert not topic.partitions[0].records


def test_a_fetch_hears_of_the_end_of_its_topic(broker: Broker) -> None:
    with RawClient(broker) as admin, RawClient(broker) as reader:
        admin.create_topic("doomed")
        reader.send(fetch_frame("doomed", 0, max_wait_ms=60_000))
        wanted = DeleteTopicsRequest([DeleteTopicState("doomed")])
        (deleted,) = admin.call("delete_topics", 6, wanted).responses
        assert deleted.error_code == 0
        reply = reader.receive()
        assert reply is not None
        (topic,) = decoded_reply("fetch", 11, reply).responses
        assert topic.partitions[0].error_code == 3


def test_what_stands_behind_a_waiting_fetch_is_answered_after_it(broker: Broker) -> None:
    with RawClient(broker) as writer, RawClient(broker) as reader:
        writer.create_topic("order")
        reader.send(
            fetch_frame("order", 0, 60_000, correlation_id=1)
            + request_frame("api_versions", 3, VERSIONS, correlation_id=2)
            + fetch_frame("order", 1, 60_000, correlation_id=3)
            + request_frame("api_versions", 3, VERSIONS, correlation_id=4)
        )
        produce_values(writer, "order", [b"one"])
        assert [correlation_id(reader.receive()) for _ in range(2)] == [1, 2]
        produce_values(writer, "order", [b"two"])
        assert [correlation_id(reader.receive()) for _ in range(2)] == [3, 4]


def test_pipelined_writes_are_answered_in_order_and_stored_in_order(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.create_topic("pipelined")
        frames = []
        for number in range(300):
            batch = encode_batch([Record(None, b"%d" % number)])
            acks = (-1, 1)[number % 2]
            body = encoded("produce", 9, produce_request("pipelined", batch, acks=acks))
            frames.append(request_frame("produce", 9, body, number))
        client.send(b"".join(frames))
        assert [correlation_id(client.receive()) for _ in range(300)] == list(range(300))
        assert fetched_values(client, "pipelined") == [b"%d" % number for number in range(300)]


def test_a_client_that_goes_while_it_waits_is_forgotten(broker: Broker) -> None:
    with RawClient(broker) as writer:
        writer.create_topic("left")
        for _ in range(50):
            with RawClient(broker) as reader:
                reader.send(fetch_frame("left", 0, max_wait_ms=60_000))
        produce_values(writer, "left", [b"nobody waits"])
        assert fetched_values(writer, "left") == [b"nobody waits"]


def test_connections_over_the_limit_are_closed_and_the_others_live() -> None:
    with (
        Broker(settings={"max.connections": 2}) as small,
        RawClient(small) as first,
        RawClient(small) as second,
    ):
        first.create_topic("t")
        assert second.end_offset("t") == 0
        with RawClient(small) as third:
            assert third.is_closed_by_broker
        assert first.end_offset("t") == 0


def test_a_silent_connection_is_closed_and_a_waiting_one_is_not() -> None:
    with (
        Broker(settings={"connections.max.idle.ms": 1_000}) as impatient,
        RawClient(impatient) as waiting,
        RawClient(impatient) as silent,
    ):
        waiting.create_topic("t")
        waiting.send(fetch_frame("t", 0, max_wait_ms=3_000))
        assert silent.is_closed_by_broker
        assert waiting.receive() is not None


@pytest.mark.parametrize("advertised", ["broker.example:1234", "[::1]:99"])
def test_clients_are_told_the_advertised_address(advertised: str) -> None:
    with (
        Broker(arguments=["--advertise", advertised]) as broker,
        RawClient(broker) as client,
    ):
        (node,) = client.call("metadata", 12, MetadataRequest(None)).brokers
        host = node.host if ":" not in node.host else f"[{node.host}]"
        assert f"{host}:{node.port}" == advertised
