"""FindCoordinator (api key 10), versions 0-6.

v1  kinds of keys; v3  flexible encoding; v4  several keys at once
v5  an error of transactions, which none of these answers needs (KIP-890)
v6  share groups (KIP-932): there are none, so that their kind of key is refused

One broker coordinates every group and every transactional id: this one, or the one that it knows
to lead.
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
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from semel.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

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
            if key_type == GROUP:
                if not key:
                    raise InvalidGroupId("a group needs a name")
                if broker.lanes.leads_catalogue:
                    broker.coordinators.internal_topic(OFFSETS_TOPIC)
                if broker.elsewhere.led_by is None:
                    broker.coordinators.of_group(key)
            elif key_type == TRANSACTION:
                if not key:
                    raise InvalidRequest("a transactional id cannot be empty")
                if broker.lanes.leads_catalogue:
                    broker.coordinators.internal_topic(TRANSACTIONS_TOPIC)
                if broker.elsewhere.led_by is None:
                    broker.coordinators.of_transactional_id(key)
            else:
                raise InvalidRequest(f"there is no coordinator for keys of kind {key_type}")
        except (JournalFull, NotCoordinator) as error:
            raise CoordinatorNotAvailable(str(error)) from error
    except RequestError as error:
        return Coordinator(key, -1, "", -1, error.code, str(error) or None)
    node_id, host, port = broker.nodes.coordinator_for(call)
    return Coordinator(key, node_id, host, port)
