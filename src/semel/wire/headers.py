"""The headers before every request (v1, v2) and every response (v0, v1), as a client sees them."""

from struct import Struct
from typing import NamedTuple

from semel.types import Buffer
from semel.wire.apis import Api
from semel.wire.primitives import DECODING_ERRORS, protocol_error, skip_tags

_REQUEST = Struct(">hhih")
_CORRELATION = Struct(">i")
_NO_TAGS = b"\0"


class RequestHeader(NamedTuple):
    api: Api
    version: int
    """Of the request, not of the header; it may be one that the API does not have."""
    correlation_id: int
    client_id: str | None


def encode_request_header(header: RequestHeader) -> bytes:
    api, version, correlation_id, client_id = header
    text = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(text)
    tags = _NO_TAGS if api.request_header_version(version) == 2 else b""
    return _REQUEST.pack(api.key, version, correlation_id, size) + text + tags


def decode_response_header(
    buffer: Buffer, position: int, api: Api, version: int
) -> tuple[int, int]:
    """The correlation id and the position of the body behind the header."""
    header_version = api.response_header_version(version)
    start = position
    try:
        (correlation_id,) = _CORRELATION.unpack_from(buffer, position)
        position += _CORRELATION.size
        if header_version:
            position = skip_tags(buffer, position)
    except DECODING_ERRORS as error:
        raise protocol_error("response header", header_version, start, error) from error
    return correlation_id, position
