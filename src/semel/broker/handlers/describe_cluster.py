"""DescribeCluster (api key 60), versions 0-1."""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_cluster(broker: "Broker", request: DescribeClusterRequest, call: Call) -> Answer:
    host, port = broker.address_for(call)
    node_id = broker.config.node_id
    return Answer(
        DescribeClusterResponse(
            endpoint_type=request.endpoint_type,
            cluster_id=broker.cluster_id,
            controller_id=broker.controller_id,
            brokers=[DescribeClusterBroker(node_id, host, port)],
        )
    )
