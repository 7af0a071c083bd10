"""Asks the leader on behalf of a client that any node may be asked by: who stands by cannot answer,
and some clients would ask nobody else. The leader hears who asks, and decides what that client may.
"""

from typing import TYPE_CHECKING, Any, Final

from semel.access.principal import Caller, Principal
from semel.access.rights import Rights
from semel.broker.answer import Answer, Call
from semel.broker.dispatch import route
from semel.cluster.channel import NodeAway
from semel.cluster.messages import AnyAnswer, Forwarded, ForwardedReply, Refused
from semel.cluster.session import Session
from semel.errors import CoordinatorLoadInProgress, NotLeaderOrFollower, ProtocolError
from semel.lane.lane import Lane, Mark
from semel.lane.leader import LedBy
from semel.types import Position
from semel.wire.primitives import DECODING_ERRORS

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.sign_in import SignIn

FORWARDED: Final = "semel-forwarded"
"""The client id of such a request. It is not forwarded once more: two who take each other for the
leader would never end."""
PATIENCE_S: Final = 5.0
REPLY_SIZE_MAX: Final = 15 << 20
KEYS: Final = frozenset({3, 22, 30, 31, 33, 44, 55, 75})
"""Of the APIs that are asked so."""


def leader_to_ask(broker: "Broker", call: Call) -> LedBy | None:
    """None if this node leads, or must answer by itself."""
    return None if call.client_id == FORWARDED else broker.elsewhere.led_by


async def forwarded(
    broker: "Broker", leader: LedBy, call: Call, request: Any, version: int | None = None
) -> Any:
    """The leader's response, in the version of the call, or this one. Raises
    CoordinatorLoadInProgress if there is none."""
    api = call.api
    version = call.version if version is None else version
    body = b"".join(bytes(part) for part in api.encode_request(request, version))
    principal, listener, host = call.caller
    found = broker.nodes.found_by(leader, call) or leader
    address = found.host, found.port
    said = Forwarded(api.key, version, body, str(principal), listener, host, address)
    try:
        response = await _asked(broker, leader, said)
        decoded, _ = api.decode_response(response, 0, version)
    except (NodeAway, ValueError, *DECODING_ERRORS) as error:
        raise CoordinatorLoadInProgress(
            f"node {leader.node_id}, which leads, does not answer: {error}"
        ) from error
    return decoded


async def _asked(broker: "Broker", leader: LedBy, said: Forwarded) -> bytes:
    """Raises NodeAway."""
    lines = broker.peers.lines
    if lines is None:
        raise NodeAway("there is no way to it")
    answer = await lines.ask((leader.host, leader.port), said, PATIENCE_S)
    if not isinstance(answer, ForwardedReply):
        raise NodeAway(str(answer))
    return answer.response


class _Asker:
    """What the leader knows of the connection of a client that asked another node."""

    number = 0
    software = ""
    told_spent: tuple[int, int, int] | None = None
    put_off_count = 0
    was_sent_away = False
    session: Session | None = None
    sign_in: "SignIn | None" = None

    def __init__(self, caller: Caller, rights: Rights, listener: tuple[str, int]) -> None:
        self.caller = caller
        self.rights = rights
        self.client_host = f"/{caller.host}"
        self.listener = listener


async def answer_forwarded(broker: "Broker", asked: Forwarded) -> AnyAnswer:
    """As the server answers: what it was decided on is durable, and nobody else leads, before it
    leaves."""
    if asked.api_key not in KEYS:
        return Refused(f"requests of api key {asked.api_key} are not forwarded")
    api, decode, handler = route(asked.api_key)
    if not api.version_min <= asked.version <= api.version_max:
        return Refused(f"{api.name} v{asked.version} is not served here")
    try:
        body, _ = decode(asked.request, 0, asked.version)
        caller = Caller(Principal.parse(asked.principal), asked.listener, asked.host)
    except (ProtocolError, ValueError, *DECODING_ERRORS) as error:
        return Refused(f"this was not understood: {error}")
    peer = _Asker(caller, broker.access.rights_of(caller), asked.address)
    call = Call(api, asked.version, 0, FORWARDED.encode(), peer)
    ends = {lane: lane.end for lane in broker.lanes.led}
    call.ends = ends if broker.is_shared else None
    if broker.across.is_used and broker.server is not None and broker.server.hear_others:
        broker.server.hear_others()
    try:
        handled = handler(broker, body, call)
        answer = handled if isinstance(handled, Answer) else await handled
        broker.metrics.requests[api.key] += 1
        marks = [*broker.lanes.marks()] if answer.marks is None else [*answer.marks]
        if answer.marks is None:
            # Those that are being handed over by now.
            marks += [lane.mark() for lane in ends if not lane.is_leading]
        for mark in marks:
            await _until_certain(mark, ends)
    except (ProtocolError, NotLeaderOrFollower) as error:
        return Refused(str(error), is_final=False)
    response = b"".join(map(bytes, api.encode_response(answer.response, asked.version)))
    if len(response) > REPLY_SIZE_MAX:
        return Refused(f"the answer has {len(response)} bytes, too many for one")
    return ForwardedReply(response)


async def _until_certain(mark: Mark, ends: dict[Lane, Position]) -> None:
    """Raises NotLeaderOrFollower if that is never so."""
    lane, since = mark.lane, ends.get(mark.lane)
    await lane.until(lambda release: lane.when_certain(mark.position, since, release))
