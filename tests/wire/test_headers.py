"""Headers, against kio's."""

import io
from struct import pack

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from semel.errors import ProtocolError
from semel.wire.apis import APIS, BY_KEY, Api
from semel.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from support.kio_values import kio_class

PRODUCE = BY_KEY[0]
API_VERSIONS = BY_KEY[18]


def kio_header(api: Api, version: int, client_id: str | None) -> bytes:
    kio = kio_class(api.module, version, "request").__header_schema__
    assert kio in (KioHeaderV1, KioHeaderV2)
    output = io.BytesIO()
    entity_writer(kio)(
        output,
        kio(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=7,
            client_id=client_id,
        ),
    )
    return output.getvalue()


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("client_id", [None, "", "clïent"])
def test_a_request_header_is_kafkas_in_every_version(api: Api, client_id: str | None) -> None:
    for version in range(api.version_min, api.version_max + 1):
        expected = kio_header(api, version, client_id)
        header = RequestHeader(api, version, 7, client_id)
        assert encode_request_header(header) == expected
        assert decode_request_header(b"?" + expected + b"body", 1) == (header, 1 + len(expected))


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_response_header_is_flexible_where_kafkas_is(api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        kio = kio_class(api.module, version, "response").__header_schema__
        expected = pack(">i", 9) + (b"\0" if kio.__flexible__ else b"")
        assert encode_response_header(9, api, version) == expected
        assert decode_response_header(b"?" + expected, 1, api, version) == (9, 1 + len(expected))


def test_the_reply_to_api_versions_can_be_read_by_a_client_of_any_age() -> None:
    assert encode_response_header(9, API_VERSIONS, 4) == pack(">i", 9)
    assert encode_response_header(9, API_VERSIONS, 99) == pack(">i", 9)


def test_tags_of_a_header_are_skipped() -> None:
    header = RequestHeader(PRODUCE, 9, 7, "me")
    tagged = encode_request_header(header)[:-1] + b"\x02\x00\x03abc\x81\x01\x00"
    assert decode_request_header(tagged) == (header, len(tagged))


@pytest.mark.parametrize("version", [3, 9])
def test_a_request_header_cut_anywhere_is_refused(version: int) -> None:
    whole = encode_request_header(RequestHeader(PRODUCE, version, 7, "clïent"))
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_request_header(whole[:size])


@pytest.mark.parametrize(
    "header",
    [
        pack(">hhih", 32000, 0, 1, -1),
        pack(">hhih", -1, 0, 1, -1),
        pack(">hhih", 0, 3, 1, -2),
        pack(">hhih", 0, 3, 1, 2) + b"\xff\xfe",
        pack(">hhih", 0, 9, 1, -1) + b"\xff\xff\xff\xff\xff\xff",
        pack(">hhih", 0, 9, 1, -1) + b"\x01\x00\x05abc",
    ],
    ids=["unknown api", "negative api", "negative length", "not UTF-8", "varint", "tag too long"],
)
def test_a_broken_request_header_is_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(header)


@pytest.mark.parametrize("header", [b"", b"\0\0\0", pack(">i", 1), pack(">i", 1) + b"\x01\x00\x05"])
def test_a_broken_response_header_is_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response_header(header, 0, PRODUCE, 9)
