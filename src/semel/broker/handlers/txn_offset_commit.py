"""TxnOffsetCommit (api key 28), versions 0-6.

v3  flexible encoding, and fencing by the group's generation (KIP-447)
v5  TV2: the group joins the transaction with this request
v6  topics by id, and a member of a group that does not exist is told so (KIP-1319)

The offsets are pending until the transaction ends. Answered once written: the commit makes them
durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.asked_offsets import answers, by_id, known_offsets, refused
from semel.broker.transactional import as_version_of, check_lane, dialect, refuse_if_late
from semel.errors import (
    CoordinatorNotAvailable,
    FrameTooLarge,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    JournalFull,
    RequestError,
    UnknownTopicId,
)
from semel.groups.commands import CommitOffsets, OffsetToCommit
from semel.lane.group_commands import CommitOffsetsInTransaction
from semel.transactions.commands import WriteOffsets
from semel.types import (
    GroupId,
    MemberId,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


IDS_SINCE = 6


def txn_offset_commit(broker: "Broker", request: TxnOffsetCommitRequest, call: Call) -> Answer:
    producer_id = ProducerId(request.producer_id)
    epoch = ProducerEpoch(request.producer_epoch)
    refuse_if_late(broker, call, request.transactional_id, producer_id, epoch)
    known: tuple[OffsetToCommit, ...] | None = None
    unknown: list[TxnOffsetCommitRequestTopic] = []
    try:
        catalogue = broker.lanes.catalogue_for_coordinators
        if call.version >= IDS_SINCE:
            request.topics, unknown = by_id(catalogue, request.topics)
        known = known_offsets(catalogue, request.topics)
        codes = _commit(broker, request, call, known)
    except RequestError as error:
        codes = refused(request.topics, known, error)
    topics = [
        TxnOffsetCommitResponseTopic(
            name, [TxnOffsetCommitResponsePartition(*each) for each in partitions], topic.topic_id
        )
        for topic, (name, partitions) in zip(
            request.topics, answers(request.topics, codes), strict=True
        )
    ]
    topics += map(_unknown, unknown)
    is_refused = any(each.error_code for topic in topics for each in topic.partitions)
    response = TxnOffsetCommitResponse(topics=topics)
    return Answer(response, durable=is_refused)


def _unknown(topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
    partitions = [
        TxnOffsetCommitResponsePartition(each.partition_index, UnknownTopicId.code)
        for each in topic.partitions
    ]
    return TxnOffsetCommitResponseTopic("", partitions, topic.topic_id)


def _commit(
    broker: "Broker",
    request: TxnOffsetCommitRequest,
    call: Call,
    offsets: tuple[OffsetToCommit, ...],
) -> dict[TopicPartition, int]:
    if not request.group_id:
        raise InvalidGroupId("a group needs a name")
    command = CommitOffsets(
        GroupId(request.group_id),
        request.generation_id,
        MemberId(request.member_id),
        request.group_instance_id,
        offsets,
        in_transaction=True,
    )
    try:
        index = broker.coordinators.partition_of_group(request.group_id)
        name = TransactionalId(request.transactional_id)
        lane = broker.coordinators.of_transactional_id(name)
        group = f"group {request.group_id!r}"
        check_lane(lane, broker.coordinators.of_group(request.group_id).number, group)
        joining = WriteOffsets(
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            index,
            dialect(call),
        )
        if call.version >= IDS_SINCE and request.generation_id >= 0:
            broker.coordinators.of_group(request.group_id).view.check_group(command.group_id)
        broker.topics.acquaint(lane, offsets)
        reply = lane.submit(CommitOffsetsInTransaction(name, joining, command))
    except FrameTooLarge as error:
        raise InvalidCommitOffsetSize(str(error)) from error
    except JournalFull as error:
        raise CoordinatorNotAvailable(str(error)) from error
    except RequestError as error:
        raise broker.metrics.counted(as_version_of(call, error)) from error
    return {outcome.partition: outcome.error_code for outcome in reply.partitions}
