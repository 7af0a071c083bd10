"""A connection without a socket, against a broker that is a few lines of test."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.connecting.connection import Connection, VersionRange
from semel.errors import ProtocolError, UnsupportedVersion
from semel.wire import apis
from semel.wire.framing import FrameCutter, frame
from semel.wire.messages import api_versions, metadata
from support.request_header import read_header


class Peer:
    """Decodes what a client sends and answers with what the test says."""

    def __init__(self) -> None:
        self._cutter = FrameCutter(1 << 20)

    def requests(self, sent: list[Any]) -> list[tuple[apis.Api, int, int, Any]]:
        requests = []
        for one in self._cutter.feed(b"".join(sent)):
            header, position = read_header(one)
            assert header.client_id == "tester"
            request, _ = header.api.decode_request(one, position, header.version)
            requests.append((header.api, header.version, header.correlation_id, request))
        return requests

    def answer(self, api: apis.Api, version: int, correlation_id: int, message: Any) -> bytes:
        header = correlation_id.to_bytes(4, "big")
        if api.response_header_version(version):
            header += b"\0"
        return b"".join(frame(header, api.encode_response(message, version)))


def receive(connection: Connection, received: bytes) -> list[tuple[int, Any]]:
    """What a socket does: fill the room as far as it goes, and say so."""
    replies: list[tuple[int, Any]] = []
    while received:
        room = connection.room()
        size = min(len(room), len(received))
        room[:size] = received[:size]
        replies += connection.advance(size)
        received = received[size:]
    return replies


def negotiated(
    known: dict[int, tuple[int, int]], transaction_version: int | None = None
) -> tuple[Connection, Peer]:
    connection, peer = Connection("tester"), Peer()
    _, sent = connection.request(api_versions, api_versions.ApiVersionsRequest("semel", "1"))
    ((api, version, correlation_id, _),) = peer.requests(sent)
    reply = api_versions.ApiVersionsResponse(
        0, [api_versions.ApiVersion(key, *versions) for key, versions in known.items()]
    )
    if transaction_version is not None:
        reply.finalized_features = [
            api_versions.FinalizedFeatureKey("transaction.version", transaction_version)
        ]
    receive(connection, peer.answer(api, version, correlation_id, reply))
    return connection, peer


def metadata_of(name: str) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(brokers=[], topics=[], cluster_id=name)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=10), st.data())
def test_replies_find_their_requests_however_the_stream_is_cut(
    names: list[str], data: st.DataObject
) -> None:
    connection, peer = negotiated({3: (0, 12), 18: (0, 3)})
    ids, stream = [], b""
    for name in names:
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
        correlation_id, sent = connection.request(metadata, request)
        ids.append(correlation_id)
        ((api, version, seen_id, seen),) = peer.requests(sent)
        assert [topic.name for topic in seen.topics] == [name]
        stream += peer.answer(api, version, seen_id, metadata_of(name))
    received = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += receive(connection, stream[:size])
        stream = stream[size:]
    assert [(one, reply.cluster_id) for one, reply in received] == list(
        zip(ids, names, strict=True)
    )


@pytest.mark.parametrize(
    ("known", "expected"), [((0, 5), 5), ((0, 99), 13), ((12, 20), 13), ((3, 3), 3)]
)
def test_the_highest_version_that_both_know_is_used(known: tuple[int, int], expected: int) -> None:
    connection, peer = negotiated({3: known})
    _, sent = connection.request(metadata, metadata.MetadataRequest(topics=[]))
    ((_, version, _, _),) = peer.requests(sent)
    assert version == expected


@pytest.mark.parametrize("agreed", [None, 0, 1, 2, 3])
def test_37_the_new_dialect_is_spoken_only_where_the_cluster_has_agreed_on_it(
    agreed: int | None,
) -> None:
    """What implementers get wrong: brokers know the versions before the cluster has agreed."""
    connection, _ = negotiated({0: (0, 12), 26: (0, 5), 28: (0, 5)}, agreed)
    spoken = [connection.version_of(key) for key in (0, 26, 28)]
    assert spoken == ([12, 5, 5] if (agreed or 0) >= 2 else [11, 4, 4])


@pytest.mark.parametrize("known", [{3: (14, 20)}, {18: (0, 3)}])
def test_without_a_common_version_the_request_is_refused(known: dict[int, tuple[int, int]]) -> None:
    connection, _ = negotiated(known)
    with pytest.raises(UnsupportedVersion, match="Metadata"):
        connection.request(metadata, metadata.MetadataRequest(topics=[]))


def test_an_old_broker_is_asked_again_in_version_0() -> None:
    connection, peer = Connection("tester"), Peer()
    request = api_versions.ApiVersionsRequest("semel", "1")
    _, sent = connection.request(api_versions, request)
    ((api, version, correlation_id, _),) = peer.requests(sent)
    assert version == 3
    refused = b"".join(frame(correlation_id.to_bytes(4, "big"), [b"\x00\x23", b"whatever"]))
    ((_, reply),) = receive(connection, refused)
    assert reply.error_code == UnsupportedVersion.code
    _, sent = connection.request(api_versions, request)
    ((_, version, correlation_id, _),) = peer.requests(sent)
    assert version == 0
    answer = api_versions.ApiVersionsResponse(0, [api_versions.ApiVersion(3, 1, 4)])
    receive(connection, peer.answer(api, 0, correlation_id, answer))
    assert connection.versions == {3: VersionRange(1, 4)}


def test_a_reply_out_of_turn_ends_the_connection() -> None:
    connection, peer = negotiated({3: (0, 12)})
    for _ in range(2):
        _, sent = connection.request(metadata, metadata.MetadataRequest(topics=[]))
        requests = peer.requests(sent)
    ((api, version, correlation_id, _),) = requests
    with pytest.raises(ProtocolError, match="turn"):
        receive(connection, peer.answer(api, version, correlation_id, metadata_of("x")))


def test_a_reply_to_nothing_ends_the_connection() -> None:
    connection, _ = negotiated({})
    with pytest.raises(ProtocolError):
        receive(connection, b"\x00\x00\x00\x04\x00\x00\x00\x09")


@given(st.binary(min_size=4, max_size=100))
def test_junk_in_a_reply_is_a_protocol_error_or_a_reply(junk: bytes) -> None:
    connection, _ = negotiated({3: (0, 12)})
    correlation_id, _ = connection.request(metadata, metadata.MetadataRequest(topics=[]))
    body = correlation_id.to_bytes(4, "big") + junk
    try:
        ((answered, _),) = receive(connection, len(body).to_bytes(4, "big") + body)
    except ProtocolError:
        return
    assert answered == correlation_id


def test_a_request_without_reply_does_not_wait_for_one() -> None:
    connection, peer = negotiated({3: (0, 12)})
    connection.request(metadata, metadata.MetadataRequest(topics=[]), has_reply=False)
    _, sent = connection.request(metadata, metadata.MetadataRequest(topics=[]))
    ((api, version, correlation_id, _),) = peer.requests(sent)
    ((answered, _),) = receive(
        connection, peer.answer(api, version, correlation_id, metadata_of("x"))
    )
    assert answered == correlation_id
