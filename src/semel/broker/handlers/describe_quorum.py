"""DescribeQuorum (api key 55), versions 0-2.

v1  when a replica was heard of; v2  messages with errors, where the voters listen

Tools take a cluster that does not answer for one with a ZooKeeper. What Kafka keeps in
`__cluster_metadata` lies in lane 0 here, and who leads that decides alone: it is the only voter.
Offsets are positions in its journal. Who stands by lets the leader answer.
"""

from typing import TYPE_CHECKING, Final

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.errors import NotLeaderOrFollower, RequestError, UnknownTopicOrPartition
from semel.lane.leader import LedBy
from semel.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from semel.wire.rights import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker

METADATA_TOPIC: Final = "__cluster_metadata"
LISTENER: Final = "PLAINTEXT"
NO_EPOCH: Final = -1
NO_DIRECTORY: Final = bytes(16)


def describe_quorum(broker: "Broker", request: DescribeQuorumRequest, call: Call) -> Handled:
    if not call.may(DESCRIBE_CLUSTER):
        return Answer(_refused_all(call.refusal(DESCRIBE_CLUSTER)), NO_MARKS)
    if not broker.lanes.leads_catalogue:
        leader = leader_to_ask(broker, call)
        if leader is not None:
            return _ask(broker, leader, request, call)
    topics = [
        TopicData(
            topic.topic_name,
            [
                _partition(broker, topic.topic_name, each.partition_index)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    nodes = []
    if broker.lanes.leads_catalogue:
        nodes = [Node(broker.config.node_id, [Listener(LISTENER, *broker.nodes.address_for(call))])]
    return Answer(DescribeQuorumResponse(topics=topics, nodes=nodes))


def _refused_all(error: RequestError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=str(error))


async def _ask(
    broker: "Broker", leader: LedBy, request: DescribeQuorumRequest, call: Call
) -> Answer:
    try:
        response = await forwarded(broker, leader, call, request)
    except RequestError as error:
        response = _refused_all(error)
    return Answer(response, NO_MARKS)


def _partition(broker: "Broker", topic: str, index: int) -> PartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        return _refused(
            broker, index, UnknownTopicOrPartition(f"the only one is {METADATA_TOPIC}-0")
        )
    if not broker.lanes.leads_catalogue:
        return _refused(broker, index, NotLeaderOrFollower("the topics are led elsewhere"))
    lane = broker.lanes.controller
    # The answer leaves when all of this is durable.
    end = lane.mark().position
    voter = ReplicaState(
        replica_id=broker.config.node_id,
        replica_directory_id=NO_DIRECTORY,
        log_end_offset=end,
        last_caught_up_timestamp=lane.view.wall_ms(),
    )
    return PartitionData(
        partition_index=index,
        leader_id=broker.config.node_id,
        leader_epoch=lane.view.epoch,
        high_watermark=end,
        current_voters=[voter],
    )


def _refused(broker: "Broker", index: int, error: RequestError) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error.code,
        error_message=str(error),
        leader_id=broker.nodes.controller_id,
        leader_epoch=NO_EPOCH,
    )
