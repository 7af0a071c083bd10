"""The headers before every request (v1, v2) and every response (v0, v1)."""

from struct import Struct
from typing import NamedTuple

from semel.errors import ProtocolError
from semel.types import Buffer
from semel.wire.apis import Api, lookup
from semel.wire.primitives import DECODING_ERRORS, Malformed, protocol_error, skip_tags

_REQUEST = Struct(">hhih")
_CORRELATION = Struct(">i")
NO_TAGS = b"\0"


class RequestHeader(NamedTuple):
    api: Api
    version: int
    """Of the request, not of the header; it may be one that the API does not have."""
    correlation_id: int
    client_id: str | None


def decode_request_header(buffer: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """The header and the position of the body behind it.

    The client id has the same form in all header versions: one is read before
    it is known whether the broker understands what follows.
    """
    try:
        return _decode_request_header(buffer, position)
    except DECODING_ERRORS as error:
        raise protocol_error("request header", 2, position, error) from error


def _decode_request_header(buffer: Buffer, position: int) -> tuple[RequestHeader, int]:
    key, version, correlation_id, size = _REQUEST.unpack_from(buffer, position)
    api = lookup(key)
    if api is None:
        raise ProtocolError(f"request header, byte {position}: api key {key} is not known")
    position += _REQUEST.size
    client_id = None
    if size >= 0:
        end = position + size
        client_id = str(buffer[position:end], "utf-8")
        position = end
    elif size != -1:
        raise Malformed("client_id has a negative length")
    if version >= api.flexible_version_min:
        position = position + 1 if buffer[position] == 0 else skip_tags(buffer, position)
    if position > len(buffer):
        raise Malformed("the header is cut short")
    return RequestHeader(api, version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    api, version, correlation_id, client_id = header
    text = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(text)
    tags = NO_TAGS if api.request_header_version(version) == 2 else b""
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


def encode_response_header(correlation_id: int, api: Api, version: int) -> bytes:
    tags = NO_TAGS if api.response_header_version(version) else b""
    return _CORRELATION.pack(correlation_id) + tags
