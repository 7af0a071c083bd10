"""One request to one node, past all that clients do by themselves."""

import socket
import struct
from typing import Any, Final

from semel.wire.apis import APIS, Api
from semel.wire.primitives import DECODING_ERRORS

_HEADER: Final = struct.Struct(">ihhih")
_SIZE: Final = struct.Struct(">i")
_CORRELATION_ID: Final = 1
_NO_CLIENT_ID: Final = -1
_BY_NAME: Final[dict[str, Api]] = {api.name: api for api in APIS}


class NoAnswer(Exception):
    """It closed the connection, or said nothing in time."""


def ask(address: tuple[str, int], name: str, version: int, request: Any, timeout_s: float) -> Any:
    """The response to this request, by Kafka's name of it. Raises NoAnswer."""
    api = _BY_NAME[name]
    tags = b"\0" if api.request_header_version(version) == 2 else b""
    body = b"".join(bytes(part) for part in api.encode_request(request, version))
    size = _HEADER.size - _SIZE.size + len(tags) + len(body)
    header = _HEADER.pack(size, api.key, version, _CORRELATION_ID, _NO_CLIENT_ID)
    try:
        with (
            socket.create_connection(address, timeout_s) as connection,
            connection.makefile("rb") as replies,
        ):
            connection.sendall(header + tags + body)
            (reply_size,) = _SIZE.unpack(replies.read(_SIZE.size))
            reply = replies.read(reply_size)
        start = 5 if api.response_header_version(version) else 4
        response, _ = api.decode_response(reply, start, version)
    except (OSError, *DECODING_ERRORS) as error:
        raise NoAnswer(f"{address[0]}:{address[1]}: {error}") from error
    return response
