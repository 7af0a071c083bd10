"""Headers as the broker reads and writes them, against kio's."""

from struct import pack
from typing import Any

import pytest

from semel.broker.answer import Answer, Call
from semel.broker.connection import Connection
from semel.broker.dispatch import read_request, write_reply
from semel.errors import ProtocolError
from semel.wire.apis import APIS, BY_KEY, Api
from semel.wire.headers import RequestHeader, encode_request_header
from support.handled import Peer
from support.kio_values import kio_class
from support.raw_client import encoded, produce_request

PRODUCE = BY_KEY[0]
API_VERSIONS = BY_KEY[18]


def read(frame: bytes) -> tuple[Call, Any]:
    # Of its connection a header tells nothing, so that any will do.
    call, body, _ = read_request(memoryview(frame), Connection.__new__(Connection))
    return call, body


def header_size(api: Api, version: int) -> int:
    """Of a reply that says nothing else."""
    say_nothing = Api(api.key, api.name, api.module, (0, 99), api.flexible_version_min)
    say_nothing.encode_response = lambda response, version: [b""]
    parts, size = write_reply(Call(say_nothing, version, 9, None, Peer()), Answer(object()))
    (head,) = map(bytes, parts)
    assert size == 0
    assert head[:8] == pack(">ii", len(head) - 4, 9)
    return len(head) - 4


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_header_of_a_reply_is_flexible_where_kafkas_is(api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        kio = kio_class(api.module, version, "response").__header_schema__
        assert header_size(api, version) == (5 if kio.__flexible__ else 4)


def test_29_the_reply_to_api_versions_can_be_read_by_a_client_of_any_age() -> None:
    assert [header_size(API_VERSIONS, version) for version in (0, 3, 4, 99)] == [4] * 4


@pytest.mark.parametrize("client_id", [None, "", "clïent"])
@pytest.mark.parametrize("version", [3, 9])
def test_a_request_is_read_behind_its_header(version: int, client_id: str | None) -> None:
    header = encode_request_header(RequestHeader(PRODUCE, version, 7, client_id))
    call, body = read(header + encoded("produce", version, produce_request("t", b"batch")))
    assert (call.api, call.version, call.correlation_id) == (PRODUCE, version, 7)
    assert call.client_id == (client_id or "")
    assert body.topic_data[0].name == "t"


def test_tags_of_a_header_are_skipped() -> None:
    header = encode_request_header(RequestHeader(PRODUCE, 9, 7, "me"))[:-1]
    tags = b"\x02\x00\x03abc\x81\x01\x00"
    _, body = read(header + tags + encoded("produce", 9, produce_request("t", b"batch")))
    assert body.topic_data[0].name == "t"


@pytest.mark.parametrize("version", [3, 9])
def test_a_request_cut_anywhere_in_its_header_is_refused(version: int) -> None:
    whole = encode_request_header(RequestHeader(PRODUCE, version, 7, "clïent"))
    for size in range(len(whole) + 1):
        with pytest.raises(ProtocolError):
            read(whole[:size])


@pytest.mark.parametrize(
    "header",
    [
        pack(">hhih", 32000, 0, 1, -1),
        pack(">hhih", -1, 0, 1, -1),
        pack(">hhih", 0, 9, 1, -1) + b"\xff\xff\xff\xff\xff\xff",
        pack(">hhih", 0, 9, 1, -1) + b"\x01\x00\x05abc",
    ],
    ids=["unknown api", "negative api", "varint", "tag too long"],
)
def test_a_broken_header_is_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(header)
