"""OffsetCommit (api key 8), versions 2-10.

v2-4  retention time; v6  leader epoch; v7  static members; v8  flexible encoding
v9   a member of a group that does not exist is told so (KIP-848)
v10  topics by id (KIP-516)

Answered when the offsets are durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.asked_offsets import answers, by_id, known_offsets, readable, refused
from semel.errors import CoordinatorNotAvailable, JournalFull, RequestError, UnknownTopicId
from semel.groups.commands import CommitOffsets, CommitReply, OffsetToCommit
from semel.types import GroupId, MemberId, TopicPartition
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.wire.rights import READ_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker


GROUPS_SINCE, IDS_SINCE = 9, 10


def offset_commit(broker: "Broker", request: OffsetCommitRequest, call: Call) -> Answer:
    known: tuple[OffsetToCommit, ...] | None = None
    unknown: list[OffsetCommitRequestTopic] = []
    codes: dict[TopicPartition, int]
    allowed: frozenset[str] = frozenset()
    try:
        call.require(READ_GROUP, request.group_id)
        lane = broker.coordinators.of_group(request.group_id)
        catalogue = broker.lanes.catalogue_for_coordinators
        if call.version >= IDS_SINCE:
            request.topics, unknown = by_id(catalogue, request.topics, call)
        allowed = readable(request.topics, call)
        known = known_offsets(catalogue, request.topics, allowed)
        if call.version >= GROUPS_SINCE and request.generation_id_or_member_epoch >= 0:
            lane.view.check_group(GroupId(request.group_id))
        command = CommitOffsets(
            GroupId(request.group_id),
            request.generation_id_or_member_epoch,
            MemberId(request.member_id),
            request.group_instance_id,
            known,
            request.retention_time_ms,
        )
        codes = {}
        if allowed or not request.topics:
            broker.topics.acquaint(lane, known)
            reply = lane.waiting_room.ask_for(command, CommitReply)
            codes = {outcome.partition: outcome.error_code for outcome in reply.partitions}
    except RequestError as error:
        codes = refused(request.topics, known, error)
    except JournalFull as error:
        codes = refused(request.topics, known, CoordinatorNotAvailable(str(error)))
    topics = [
        OffsetCommitResponseTopic(
            name, [OffsetCommitResponsePartition(*each) for each in partitions], topic.topic_id
        )
        for topic, (name, partitions) in zip(
            request.topics, answers(request.topics, codes, allowed), strict=True
        )
    ]
    topics += map(_unknown, unknown)
    return Answer(OffsetCommitResponse(topics=topics))


def _unknown(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(each.partition_index, UnknownTopicId.code)
        for each in topic.partitions
    ]
    return OffsetCommitResponseTopic("", partitions, topic.topic_id)
