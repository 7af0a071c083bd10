"""OffsetForLeaderEpoch (api key 23), versions 2-4.

v3  the client's leader epoch; v4  flexible encoding

Tells a client where a term ended here, so that after a power loss it notices that records it
has seen the offsets of are gone.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.types import TopicPartition
from semel.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from semel.wire.rights import CLUSTER_ACTION, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def offset_for_leader_epoch(
    broker: "Broker", request: OffsetForLeaderEpochRequest, call: Call
) -> Answer:
    return Answer(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic.topic,
                    [_look_up(broker, topic.topic, wanted, call) for wanted in topic.partitions],
                )
                for topic in request.topics
            ]
        ),
    )


def _look_up(
    broker: "Broker", topic: str, wanted: OffsetForLeaderPartition, call: Call
) -> EpochEndOffset:
    try:
        if not call.may_see(CLUSTER_ACTION):
            call.require(DESCRIBE_TOPIC, topic)
        lane, partition = broker.lanes.of(TopicPartition(topic, wanted.partition))
        epoch = lane.view.epoch
        lane.view.check_leader_epoch(wanted.current_leader_epoch)
    except RequestError as error:
        return EpochEndOffset(error.code, wanted.partition)
    end = partition.end_of_term(wanted.leader_epoch, epoch)
    return EpochEndOffset(0, wanted.partition, end.term, end.offset)
