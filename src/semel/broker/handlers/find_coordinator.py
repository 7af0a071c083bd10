"""FindCoordinator (api key 10), versions 0-6.

v1  kinds of keys; v3  flexible encoding; v4  several keys at once
v5  an error of transactions, which none of these answers needs (KIP-890)
v6  share groups (KIP-932): there are none, so that their kind of key is refused

A group or a transactional id is coordinated by whoever leads the lane that its partition lies in:
this broker, or the one that it knows to lead it.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import (
    CoordinatorNotAvailable,
    InvalidGroupId,
    InvalidRequest,
    JournalFull,
    NotCoordinator,
    RequestError,
)
from semel.lane.leader import NodeAddress
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from semel.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from semel.wire.rights import DESCRIBE_GROUP, DESCRIBE_ID

if TYPE_CHECKING:
    from semel.broker.broker import Broker

GROUP, TRANSACTION = 0, 1


def find_coordinator(broker: "Broker", request: FindCoordinatorRequest, call: Call) -> Answer:
    keys = request.coordinator_keys if call.version >= 4 else [request.key]
    found = [_find(broker, request.key_type, key, call) for key in keys]
    if call.version >= 4:
        return Answer(FindCoordinatorResponse(coordinators=found))
    (one,) = found
    return Answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _find(broker: "Broker", key_type: int, key: str, call: Call) -> Coordinator:
    try:
        try:
            found = _coordinator(broker, key_type, key, call)
        except (JournalFull, NotCoordinator) as error:
            raise CoordinatorNotAvailable(str(error)) from error
    except RequestError as error:
        return Coordinator(key, -1, "", -1, error.code, str(error) or None)
    return Coordinator(key, *found)


def _coordinator(broker: "Broker", key_type: int, key: str, call: Call) -> NodeAddress:
    coordinators = broker.coordinators
    if key_type == GROUP:
        call.require(DESCRIBE_GROUP, key)
        if not key:
            raise InvalidGroupId("a group needs a name")
        topic = OFFSETS_TOPIC
    elif key_type == TRANSACTION:
        call.require(DESCRIBE_ID, key)
        if not key:
            raise InvalidRequest("a transactional id cannot be empty")
        topic = TRANSACTIONS_TOPIC
    else:
        raise InvalidRequest(f"there is no coordinator for keys of kind {key_type}")
    if broker.lanes.leads_catalogue:
        coordinators.internal_topic(topic)
    lane = coordinators.lane_of(topic, key)
    if lane in broker.lanes.by_number:
        coordinators.of(topic, key)
    found = broker.nodes.leads(lane, call)
    if found is None:
        raise NotCoordinator(f"nobody is known to coordinate {key!r}")
    return found
