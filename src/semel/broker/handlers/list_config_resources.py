"""ListConfigResources (api key 74), versions 0-1.

v0  subscriptions of client metrics alone, which there are none of
v1  of every kind, or of those that are asked for (KIP-1142)
"""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call
from semel.broker.config_resources import ResourceType
from semel.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    UnsupportedVersion,
)
from semel.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from semel.wire.rights import DESCRIBE_CLUSTER_CONFIGS

if TYPE_CHECKING:
    from semel.broker.broker import Broker

KINDS_SINCE = 1
KNOWN = frozenset(kind.value for kind in ResourceType)
TOPICS_AT_ONCE: Final = 512
"""Listed before others have their turn."""


async def list_config_resources(
    broker: "Broker", request: ListConfigResourcesRequest, call: Call
) -> Answer:
    if not call.may(DESCRIBE_CLUSTER_CONFIGS):
        return _refusal()
    wanted = frozenset(request.resource_types) or KNOWN
    if call.version < KINDS_SINCE:
        wanted = frozenset({ResourceType.CLIENT_METRICS.value})
    if not wanted <= KNOWN:
        return Answer(ListConfigResourcesResponse(error_code=UnsupportedVersion.code))
    found = []
    if ResourceType.TOPIC.value in wanted:
        if not broker.lanes.knows_topics:
            return Answer(ListConfigResourcesResponse(error_code=CoordinatorNotAvailable.code))
        for count, topic in enumerate(broker.lanes.catalogue.walk(), 1):
            if count % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
            found.append(ConfigResource(topic.name, ResourceType.TOPIC.value))
    if ResourceType.BROKER.value in wanted:
        found.append(ConfigResource(str(broker.config.node_id), ResourceType.BROKER.value))
    # It may have been taken from the client meanwhile.
    if not call.may(DESCRIBE_CLUSTER_CONFIGS):
        return _refusal()
    return Answer(ListConfigResourcesResponse(config_resources=found))


def _refusal() -> Answer:
    return Answer(ListConfigResourcesResponse(error_code=ClusterAuthorizationFailed.code))
