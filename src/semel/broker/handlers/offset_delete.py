"""OffsetDelete (api key 47), version 0."""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError, TopicAuthorizationFailed, UnknownTopicOrPartition
from semel.groups.commands import DeleteOffsets, DeleteOffsetsReply
from semel.types import GroupId, TopicPartition
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from semel.wire.rights import DELETE_GROUP, READ_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def offset_delete(broker: "Broker", request: OffsetDeleteRequest, call: Call) -> Answer:
    try:
        call.require(DELETE_GROUP, request.group_id)
        allowed = {topic.name for topic in request.topics if call.may(READ_TOPIC, topic.name)}
        lane = broker.coordinators.of_group(request.group_id)
        catalogue = broker.lanes.catalogue_for_coordinators
        known = tuple(
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            if topic.name in allowed
            for partition in topic.partitions
            if catalogue.has_partition(topic.name, partition.partition_index)
        )
        command = DeleteOffsets(GroupId(request.group_id), known)
        reply = lane.waiting_room.ask_for(command, DeleteOffsetsReply)
    except RequestError as error:
        return Answer(OffsetDeleteResponse(error_code=error.code))
    if reply.error_code != 0:
        return Answer(OffsetDeleteResponse(error_code=reply.error_code))
    refusals = {
        topic.name: (UnknownTopicOrPartition if topic.name in allowed else TopicAuthorizationFailed)
        for topic in request.topics
    }
    codes = {outcome.partition: outcome.error_code for outcome in reply.partitions}
    topics = [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(
                    index,
                    codes.get(TopicPartition(topic.name, index), refusals[topic.name].code),
                )
                for index in dict.fromkeys(each.partition_index for each in topic.partitions)
            ],
        )
        for topic in request.topics
    ]
    return Answer(OffsetDeleteResponse(topics=topics))
