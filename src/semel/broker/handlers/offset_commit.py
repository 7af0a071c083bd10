"""OffsetCommit (api key 8), versions 2-8.

v2-4  retention time; v6  leader epoch; v7  static members; v8  flexible encoding

Answered when the offsets are durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.asked_offsets import answers, known_offsets, refused
from semel.errors import CoordinatorNotAvailable, JournalFull, RequestError
from semel.groups.commands import CommitOffsets, CommitReply, OffsetToCommit
from semel.types import GroupId, MemberId, TopicPartition
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def offset_commit(broker: "Broker", request: OffsetCommitRequest, call: Call) -> Answer:
    known: tuple[OffsetToCommit, ...] | None = None
    codes: dict[TopicPartition, int]
    try:
        lane = broker.lane_of_group(request.group_id)
        known = known_offsets(broker.catalogue_for_coordinators, request.topics)
        command = CommitOffsets(
            GroupId(request.group_id),
            request.generation_id_or_member_epoch,
            MemberId(request.member_id),
            request.group_instance_id,
            known,
            request.retention_time_ms,
        )
        broker.acquaint(lane, known)
        reply = lane.waiting_room.ask_for(command, CommitReply)
        codes = {outcome.partition: outcome.error_code for outcome in reply.partitions}
    except RequestError as error:
        codes = refused(request.topics, known, error)
    except JournalFull as error:
        codes = refused(request.topics, known, CoordinatorNotAvailable(str(error)))
    return Answer(
        OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name, [OffsetCommitResponsePartition(*each) for each in partitions]
                )
                for name, partitions in answers(request.topics, codes)
            ]
        )
    )
