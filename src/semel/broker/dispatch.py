"""From the bytes of a request to its handler, and from the answer to the bytes of a reply."""

import asyncio
import struct
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from semel.broker.answer import Answer, Call, Handled
from semel.errors import ProtocolError, UnsupportedVersion
from semel.types import Buffer
from semel.wire import apis
from semel.wire.primitives import DECODING_ERRORS, skip_tags

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.connection import Connection

_HEADER: Final = struct.Struct(">hhih")
_HEADER_SIZE: Final = _HEADER.size
_unpack_header: Final = _HEADER.unpack_from
_pack_head: Final = struct.Struct(">ii").pack
"""Size and correlation id…"""
_pack_flexible_head: Final = struct.Struct(">iib").pack
"""…and no tags."""

Handler = Callable[["Broker", Any, Call], Handled]
Reader = Callable[[bytes, "Connection"], tuple[Call, Any, Handler]]


class Route(NamedTuple):
    api: apis.Api
    decode: Callable[[Buffer, int, int], tuple[Any, int]]
    handler: Handler


_routes: dict[int, Route] = {}


def route(key: int) -> Route:
    """The way to a served API; its messages and its handler are imported when first used."""
    known = _routes.get(key)
    if known is None:
        api = apis.lookup(key)
        if api is None or not api.served:
            raise ProtocolError(f"api key {key} is not served")
        module = import_module(f"semel.broker.handlers.{api.module}")
        known = _routes[key] = Route(api, api.decode_request, getattr(module, api.module))
    return known


def read_request(frame: bytes, connection: "Connection") -> tuple[Call, Any, Handler]:
    """Decode a request whole. Raises ProtocolError if that cannot be done."""
    if len(frame) < _HEADER_SIZE:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header")
    key, version, correlation_id, client_id_size = _unpack_header(frame)
    api, decode, handler = _routes.get(key) or route(key)
    if not api.version_min <= version <= api.version_max:
        if key != apis.API_VERSIONS_KEY:
            raise ProtocolError(f"{api.name} v{version} is not served")
        # The client does not know yet what is served; it is told in the one
        # version that every client can read.
        return Call(api, 0, correlation_id, None, connection), UnsupportedVersion(), handler
    position = _HEADER_SIZE
    client_id = None
    if client_id_size > 0:
        position += client_id_size
        client_id = frame[_HEADER_SIZE:position]
    if version >= api.flexible_version_min:
        if position < len(frame) and not frame[position]:
            position += 1
        else:
            position = _after_tags(frame, position)
    # Bytes behind the message are ignored, as Kafka does: librdkafka leaves three behind a
    # Metadata request for all topics.
    body, _ = decode(frame, position, version)
    return Call(api, version, correlation_id, client_id, connection), body, handler


def _after_tags(frame: bytes, position: int) -> int:
    try:
        return skip_tags(frame, position)
    except DECODING_ERRORS as error:
        raise ProtocolError(f"the request header is cut at byte {position}") from error


async def encode_in_steps(call: Call, answer: Answer) -> list[Buffer]:
    """The response of an API whose responses may be so large that others would wait."""
    encoding = call.api.encode_response_in_steps(answer.response, call.version)
    while True:
        try:
            next(encoding)
        except StopIteration as encoded:
            return encoded.value  # type: ignore[no-any-return]  # As all exceptions have it.
        await asyncio.sleep(0)


def with_head(call: Call, parts: list[Buffer]) -> tuple[list[Buffer], int]:
    """The reply with its size and header in front, in as few parts as it has, and its bytes."""
    first = parts[0]
    size = len(first) if len(parts) == 1 else sum(map(len, parts))
    if call.version >= call.api.flexible_reply_min:
        parts[0] = _pack_flexible_head(size + 5, call.correlation_id, 0) + first
    else:
        parts[0] = _pack_head(size + 4, call.correlation_id) + first
    return parts, size
