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
    decode_response_header,
    encode_request_header,
)
from support.kio_values import kio_class

PRODUCE = BY_KEY[0]


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


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_response_header_is_flexible_where_kafkas_is(api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        kio = kio_class(api.module, version, "response").__header_schema__
        expected = pack(">i", 9) + (b"\0" if kio.__flexible__ else b"")
        assert decode_response_header(b"?" + expected, 1, api, version) == (9, 1 + len(expected))


@pytest.mark.parametrize("header", [b"", b"\0\0\0", pack(">i", 1), pack(">i", 1) + b"\x01\x00\x05"])
def test_a_broken_response_header_is_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response_header(header, 0, PRODUCE, 9)
