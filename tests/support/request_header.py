"""The header of a request as the side reads it that a test plays: the broker's."""

import struct
from typing import NamedTuple

from semel.types import Buffer
from semel.wire.apis import BY_KEY, Api

_FIXED = struct.Struct(">hhih")


class Header(NamedTuple):
    api: Api
    version: int
    correlation_id: int
    client_id: str


def read_header(request: Buffer) -> tuple[Header, int]:
    """The header, which has a client id and no tags, and the position of the body."""
    key, version, correlation_id, size = _FIXED.unpack_from(request)
    position = _FIXED.size + size
    client_id = bytes(request[_FIXED.size : position]).decode()
    api = BY_KEY[key]
    if version >= api.flexible_version_min:
        assert request[position] == 0
        position += 1
    return Header(api, version, correlation_id, client_id), position
