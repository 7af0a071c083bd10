"""Bytes that are no request: the connection is closed, others are served, nothing is written."""

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from semel.testing import Broker
from semel.wire.apis import APIS, Api
from semel.wire.messages.api_versions import ApiVersionsRequest
from support.kio_values import kio_bytes, kio_class, random_value
from support.raw_client import (
    RawClient,
    decoded_reply,
    encoded,
    fetched_values,
    metric,
    produce_request,
    request_frame,
    resident_bytes,
)

UNSUPPORTED_VERSION = 35


@pytest.fixture
def unchanged(broker: Broker) -> Iterator[None]:
    """Not a frame is appended while the test runs, and what was there can be read."""
    with RawClient(broker) as client:
        before = metric(broker, "semel_journal_frames")
        yield
        assert metric(broker, "semel_journal_frames") == before
        assert fetched_values(client, "t") == [b"first"]


REFUSED = {
    "a negative size": struct.pack(">i", -1),
    "no size at all": struct.pack(">i", 0),
    "more than is taken": struct.pack(">i", 100 * 2**20 + 1),
    "the largest size": struct.pack(">i", 2**31 - 1) + b"\0" * 100,
    "less than a header": struct.pack(">ih", 2, 18),
    "an unknown api": request_frame("api_versions", 0, b"", key=9_999),
    "a negative api": request_frame("api_versions", 0, b"", key=-1),
    "an api that is not served": request_frame("sasl_handshake", 0, b"\0" * 20),
    "a version that is not served": request_frame("metadata", 99, b"\0" * 20),
    "a negative version": request_frame("metadata", -1, b"\0" * 20),
    "produce in a version of old": request_frame("produce", 2, b"\0" * 20),
    "a client id that is not there": struct.pack(">ihhih", 10, 18, 0, 1, 1000),
    "a body that is cut": request_frame("metadata", 1, b"\0\0\0\5"),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS handshake": bytes.fromhex("160301020001000001fc0303") + bytes(512),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_request_closes_the_connection(broker: Broker, raw: bytes) -> None:
    with RawClient(broker) as client:
        client.send(raw)
        assert client.is_closed_by_broker


def test_api_versions_in_an_unknown_version_is_answered_in_version_0(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.send(request_frame("api_versions", 99, b"\1\2\3", correlation_id=77))
        reply = client.receive()
        assert reply is not None
        assert struct.unpack_from(">i", reply) == (77,)
        response = decoded_reply("api_versions", 0, reply)
        assert response.error_code == UNSUPPORTED_VERSION
        served = {key.api_key: key.max_version for key in response.api_keys}
        assert served[18] == 4
        # The connection lives on, for the client to ask again.
        assert client.call("api_versions", 4, ApiVersionsRequest("x", "1")).error_code == 0


@pytest.mark.usefixtures("unchanged")
def test_a_request_that_is_never_finished_holds_up_nobody(broker: Broker) -> None:
    frame = request_frame("produce", 9, encoded("produce", 9, produce_request("t", b"x" * 5_000)))
    with ExitStack() as stack:
        for size in (1, 3, 4, 5, 100, len(frame) - 1):
            stack.enter_context(RawClient(broker)).send(frame[:size])
        with RawClient(broker) as other:
            assert fetched_values(other, "t") == [b"first"]


@pytest.mark.usefixtures("unchanged")
def test_a_request_may_come_byte_by_byte(broker: Broker) -> None:
    body = encoded("api_versions", 3, ApiVersionsRequest("slow", "1"))
    with RawClient(broker) as slow, RawClient(broker) as other:
        for byte in request_frame("api_versions", 3, body):
            slow.send(bytes((byte,)))
            assert fetched_values(other, "t") == [b"first"]
        reply = slow.receive()
        assert reply is not None
        assert decoded_reply("api_versions", 3, reply).error_code == 0


def test_requests_sent_at_once_are_answered_in_order(broker: Broker) -> None:
    body = encoded("api_versions", 3, ApiVersionsRequest("x", "1"))
    with RawClient(broker) as client:
        client.send(
            b"".join(request_frame("api_versions", 3, body, number) for number in range(1_000))
        )
        for number in range(1_000):
            reply = client.receive()
            assert reply is not None
            assert struct.unpack_from(">i", reply) == (number,)


def test_random_frames_leave_the_broker_in_peace(broker: Broker) -> None:
    rng = Random("frames")
    size_before = resident_bytes(broker)
    for _ in range(300):
        with RawClient(broker) as client:
            payload = rng.randbytes(rng.choice((1, 8, 10, 60, 500, 5_000)))
            client.send(struct.pack(">i", len(payload)) + payload)
            client.shut_down()
    with RawClient(broker) as client:
        assert fetched_values(client, "t") == [b"first"]
    assert resident_bytes(broker) < size_before + 20 * 2**20


SERVED = [api for api in APIS if api.served]


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_mutated_requests_are_answered_or_closed(broker: Broker, api: Api) -> None:
    rng = Random(f"mutated {api.name}")
    size_before = resident_bytes(broker)
    for version in range(api.version_min, api.version_max + 1):
        for _ in range(6):
            body = bytearray(
                kio_bytes(random_value(kio_class(api.module, version, "request"), rng))
            )
            for _ in range(rng.randrange(4)):
                if body:
                    value = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                    body[rng.randrange(len(body))] = value
            with RawClient(broker) as client:
                client.send(request_frame(api.module, version, bytes(body)))
                client.shut_down()
    with RawClient(broker) as client:
        assert fetched_values(client, "t") == [b"first"]
    assert resident_bytes(broker) < size_before + 20 * 2**20
