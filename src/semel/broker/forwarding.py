"""Asks the leader on behalf of a client that any node may be asked by: who stands by cannot answer,
and some clients would ask nobody else.
"""

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Final

from semel.broker.answer import Call
from semel.errors import CoordinatorLoadInProgress
from semel.lane.leader import LedBy
from semel.wire.apis import Api
from semel.wire.primitives import DECODING_ERRORS

if TYPE_CHECKING:
    from semel.broker.broker import Broker

FORWARDED: Final = "semel-forwarded"
"""The client id of such a request. It is not forwarded once more: two who take each other for the
leader would never end."""
PATIENCE_S: Final = 5.0
REPLY_SIZE_MAX: Final = 1 << 26
_HEADER: Final = struct.Struct(">ihhih")
_SIZE: Final = struct.Struct(">i")


def leader_to_ask(broker: "Broker", call: Call) -> LedBy | None:
    """None if this node leads, or must answer by itself."""
    return None if call.client_id == FORWARDED else broker.elsewhere.led_by


async def forwarded(leader: LedBy, api: Api, version: int, request: Any) -> Any:
    """The leader's response. Raises CoordinatorLoadInProgress if there is none."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _ask(leader, api, version, request)
    except (OSError, EOFError, ValueError, *DECODING_ERRORS) as error:
        raise CoordinatorLoadInProgress(
            f"node {leader.node_id}, which leads, does not answer: {error}"
        ) from error


async def _ask(leader: LedBy, api: Api, version: int, request: Any) -> Any:
    name = FORWARDED.encode()
    body = b"".join(bytes(part) for part in api.encode_request(request, version))
    tags = b"\0" if version >= api.flexible_version_min else b""
    size = _HEADER.size - _SIZE.size + len(name) + len(tags) + len(body)
    reader, writer = await asyncio.open_connection(leader.host, leader.port)
    try:
        writer.write(_HEADER.pack(size, api.key, version, 1, len(name)) + name + tags + body)
        (reply_size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if not 0 <= reply_size <= REPLY_SIZE_MAX:
            raise ValueError(f"a reply of {reply_size} bytes")
        reply = await reader.readexactly(reply_size)
    finally:
        writer.close()
    start = 5 if api.response_header_version(version) else 4
    response, _ = api.decode_response(reply, start, version)
    return response
