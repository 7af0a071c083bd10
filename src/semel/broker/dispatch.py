"""From the bytes of a request to its handler, and from the answer to the bytes of a reply."""

import struct
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from semel.broker.answer import Answer, Call, Handled
from semel.errors import ProtocolError, UnsupportedVersion
from semel.types import Buffer
from semel.wire import apis
from semel.wire.primitives import skip_tags

if TYPE_CHECKING:
    from semel.broker.broker import Broker

_HEADER = struct.Struct(">hhih")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_UNTAGGED = b"\0"

Handler = Callable[["Broker", Any, Call], Handled]


class Request(NamedTuple):
    api: apis.Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Any


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


def read_request(frame: memoryview) -> tuple[Request, Handler]:
    """Decode a request whole. Raises ProtocolError if that cannot be done."""
    if len(frame) < _HEADER.size:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header")
    key, version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
    api, decode, handler = route(key)
    if not api.knows(version):
        if key != apis.API_VERSIONS_KEY:
            raise ProtocolError(f"{api.name} v{version} is not served")
        # The client does not know yet what is served; it is told in the one
        # version that every client can read.
        return Request(api, 0, correlation_id, None, UnsupportedVersion()), handler
    position = _HEADER.size
    client_id = None
    if client_id_size > 0:
        end = position + client_id_size
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
        position = end
    if version >= api.flexible_version_min:
        position = _after_tags(frame, position)
    body, end = decode(frame, position, version)
    if end != len(frame):
        raise ProtocolError(f"{api.name} v{version}: {len(frame) - end} bytes too many")
    return Request(api, version, correlation_id, client_id, body), handler


def _after_tags(frame: memoryview, position: int) -> int:
    try:
        if frame[position] == 0:
            return position + 1
        return skip_tags(frame, position)
    except Exception as error:
        raise ProtocolError(f"the request header is cut at byte {position}") from error


def write_reply(request: Request, answer: Answer) -> list[Buffer]:
    """The reply with its size and header in front, in as few parts as it has."""
    api, version = request.api, request.version
    parts = api.encode_response(answer.response, version)
    tags = _UNTAGGED if api.response_header_version(version) else b""
    size = 4 + len(tags) + sum(map(len, parts))
    head = _SIZE_AND_CORRELATION.pack(size, request.correlation_id) + tags
    parts[0] = head + parts[0]
    return parts
