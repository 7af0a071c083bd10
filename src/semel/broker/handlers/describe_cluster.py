"""DescribeCluster (api key 60), versions 0-2.

v1  brokers or controllers may be asked for: a broker tells of brokers (KIP-919)
v2  fenced brokers may be asked for (KIP-1073): the only one is not
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NOT_ASKED_FOR, Answer, Call
from semel.broker.authorized_operations import cluster_operations
from semel.errors import MismatchedEndpointType, RequestError, UnsupportedEndpointType
from semel.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


BROKERS, CONTROLLERS = 1, 2


def describe_cluster(broker: "Broker", request: DescribeClusterRequest, call: Call) -> Answer:
    if request.endpoint_type == CONTROLLERS:
        return _refused(MismatchedEndpointType("this is a broker; controllers are asked for"))
    if request.endpoint_type != BROKERS:
        return _refused(UnsupportedEndpointType(f"endpoints of type {request.endpoint_type}"))
    return Answer(
        DescribeClusterResponse(
            endpoint_type=BROKERS,
            cluster_id=broker.cluster_id,
            controller_id=broker.nodes.controller_id,
            brokers=[DescribeClusterBroker(*node) for node in broker.nodes.live_for(call)],
            cluster_authorized_operations=(
                cluster_operations(call)
                if request.include_cluster_authorized_operations
                else NOT_ASKED_FOR
            ),
        )
    )


def _refused(error: RequestError) -> Answer:
    return Answer(DescribeClusterResponse(error_code=error.code, error_message=str(error)))
