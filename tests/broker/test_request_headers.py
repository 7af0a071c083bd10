"""Headers as the broker reads and writes them, against kio's."""

from struct import pack
from typing import Any

import pytest

from semel.broker.answer import Call
from semel.broker.dispatch import with_head
from semel.testing import Broker
from semel.wire.apis import APIS, BY_KEY, Api
from semel.wire.headers import RequestHeader, encode_request_header
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.sync_group import SyncGroupRequest
from support.handled import Peer
from support.kio_values import kio_class
from support.raw_client import BY_MODULE, RawClient, decoded_reply, encoded, produce_request

PRODUCE = BY_KEY[0]
API_VERSIONS = BY_KEY[18]


def frame(header: bytes, version: int = 9) -> bytes:
    """A request behind this header, with its size in front."""
    request = header + encoded("produce", version, produce_request("t", b"no batch"))
    return pack(">i", len(request)) + request


def header_size(api: Api, version: int) -> int:
    """Of a reply that says nothing else."""
    say_nothing = Api(api.key, api.name, api.module, (0, 99), api.flexible_version_min)
    say_nothing.encode_response = lambda response, version: [b""]
    asked = Call(say_nothing, version, 9, None, Peer())
    parts, size = with_head(asked, say_nothing.encode_response(object(), version))
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
def test_a_request_is_read_behind_its_header(
    broker: Broker, version: int, client_id: str | None
) -> None:
    with RawClient(broker) as client:
        header = encode_request_header(RequestHeader(PRODUCE, version, 7, client_id))
        client.send(frame(header, version))
        assert read_topic(client, version) == "t"


def test_tags_of_a_header_are_skipped(broker: Broker) -> None:
    with RawClient(broker) as client:
        header = encode_request_header(RequestHeader(PRODUCE, 9, 7, "me"))[:-1]
        client.send(frame(header + b"\x02\x00\x03abc\x81\x01\x00"))
        assert read_topic(client, 9) == "t"


@pytest.mark.parametrize("version", [3, 9])
def test_a_request_cut_anywhere_in_its_header_is_refused(broker: Broker, version: int) -> None:
    whole = encode_request_header(RequestHeader(PRODUCE, version, 7, "clïent"))
    for size in range(len(whole) + 1):
        with RawClient(broker) as client:
            client.send(pack(">i", size) + whole[:size])
            assert client.is_closed_by_broker


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
def test_a_broken_header_is_refused(broker: Broker, header: bytes) -> None:
    with RawClient(broker) as client:
        client.send(pack(">i", len(header)) + header)
        assert client.is_closed_by_broker


def read_topic(client: RawClient, version: int) -> str:
    """The topic in the answer to the request with correlation id 7."""
    reply = client.receive()
    assert reply is not None
    assert reply[:4] == pack(">i", 7)
    (topic,) = decoded_reply("produce", version, reply).responses
    return str(topic.name)


def test_a_group_can_be_led_by_a_client_whose_id_is_long_and_no_text(broker: Broker) -> None:
    client_id = b"\xff" * 11_000 + b"leader"

    def ask(client: RawClient, module: str, request: Any) -> Any:
        api = BY_MODULE[module]
        header = pack(">hhih", api.key, 3, 7, len(client_id)) + client_id
        body = header + encoded(module, 3, request)
        client.send(pack(">i", len(body)) + body)
        reply = client.receive()
        assert reply is not None, "the broker closed the connection"
        return decoded_reply(module, 3, reply)

    joining = JoinGroupRequest(
        "led", 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    with RawClient(broker) as client:
        joined = ask(client, "join_group", joining)
        assert joined.member_id.startswith("leader-")
        syncing = SyncGroupRequest("led", joined.generation_id, joined.member_id)
        assert ask(client, "sync_group", syncing).error_code == 0
