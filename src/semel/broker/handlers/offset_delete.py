"""OffsetDelete (api key 47), version 0."""

from collections import defaultdict
from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.groups.commands import DeleteOffsets, DeleteOffsetsReply
from semel.types import GroupId, TopicPartition
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def offset_delete(broker: "Broker", request: OffsetDeleteRequest, call: Call) -> Answer:
    partitions = tuple(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    try:
        reply = broker.lane_of_group(request.group_id).waiting_room.ask_for(
            DeleteOffsets(GroupId(request.group_id), partitions), DeleteOffsetsReply
        )
    except RequestError as error:
        return Answer(OffsetDeleteResponse(error_code=error.code))
    by_topic: defaultdict[str, list[OffsetDeleteResponsePartition]] = defaultdict(list)
    for outcome in reply.partitions:
        by_topic[outcome.partition.topic].append(
            OffsetDeleteResponsePartition(outcome.partition.partition, outcome.error_code)
        )
    return Answer(
        OffsetDeleteResponse(
            error_code=reply.error_code,
            topics=[
                OffsetDeleteResponseTopic(topic, results) for topic, results in by_topic.items()
            ],
        )
    )
