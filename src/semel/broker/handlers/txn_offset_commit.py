"""TxnOffsetCommit (api key 28), versions 0-6.

v3  flexible encoding, and fencing by the group's generation (KIP-447)
v5  TV2: the group joins the transaction with this request
v6  topics by id, and a member of a group that does not exist is told so (KIP-1319)

The offsets are pending until the transaction ends. Answered once written: the commit makes them
durable. If the group is coordinated in another lane than the transaction, that lane joins it.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from semel.broker.answer import Answer, Call
from semel.broker.asked_offsets import answers, by_id, known_offsets, readable, refused
from semel.broker.transactional import (
    as_version_of,
    dialect,
    is_epoch_durable,
    refuse_if_late,
)
from semel.errors import (
    CoordinatorNotAvailable,
    FrameTooLarge,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    JournalFull,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from semel.groups.commands import CommitOffsets, CommitReply, OffsetToCommit
from semel.lane.group_commands import CommitOffsetsInTransaction
from semel.lane.participating import CommitOffsetsJoined, Joining, MustJoin, MustWait
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
from semel.wire.rights import READ_GROUP, READ_TOPIC, WRITE_ID

if TYPE_CHECKING:
    from semel.broker.broker import Broker


IDS_SINCE = 6


def txn_offset_commit(
    broker: "Broker", request: TxnOffsetCommitRequest, call: Call
) -> Answer | Coroutine[Any, Any, Answer]:
    producer_id = ProducerId(request.producer_id)
    epoch = ProducerEpoch(request.producer_epoch)
    known: tuple[OffsetToCommit, ...] | None = None
    unknown: list[TxnOffsetCommitRequestTopic] = []
    allowed: frozenset[str] = frozenset()
    try:
        call.require(WRITE_ID, request.transactional_id)
        call.require(READ_GROUP, request.group_id)
        refuse_if_late(broker, call, request.transactional_id, producer_id, epoch)
        catalogue = broker.lanes.catalogue_for_coordinators
        if call.version >= IDS_SINCE:
            request.topics, unknown = by_id(catalogue, request.topics, call)
        allowed = readable(request.topics, call)
        known = known_offsets(catalogue, request.topics, allowed)
        if request.topics and not allowed:
            return _answer(broker, request, {}, unknown, allowed)
        committing = _Committing(broker, request, call, known)
        try:
            codes = committing.try_at_once()
        except (MustJoin, MustWait):
            return _answer_later(broker, request, committing, known, unknown, allowed)
    except RequestError as error:
        codes = refused(request.topics, known, error)
    return _answer(broker, request, codes, unknown, allowed)


async def _answer_later(
    broker: "Broker",
    request: TxnOffsetCommitRequest,
    committing: "_Committing",
    known: tuple[OffsetToCommit, ...],
    unknown: list[TxnOffsetCommitRequestTopic],
    allowed: frozenset[str],
) -> Answer:
    try:
        codes = await committing.join_and_write()
    except RequestError as error:
        codes = refused(request.topics, known, error)
    return _answer(broker, request, codes, unknown, allowed)


def _answer(
    broker: "Broker",
    request: TxnOffsetCommitRequest,
    codes: dict[TopicPartition, int],
    unknown: list[TxnOffsetCommitRequestTopic],
    allowed: frozenset[str],
) -> Answer:
    """`unknown` are topics that were named by ids which there are not."""
    topics = [
        TxnOffsetCommitResponseTopic(
            name, [TxnOffsetCommitResponsePartition(*each) for each in partitions], topic.topic_id
        )
        for topic, (name, partitions) in zip(
            request.topics, answers(request.topics, codes, allowed), strict=True
        )
    ]
    topics += map(_unknown, unknown)
    is_refused = any(each.error_code for topic in topics for each in topic.partitions)
    response = TxnOffsetCommitResponse(topics=topics)
    is_early = not is_refused and is_epoch_durable(broker, request.transactional_id)
    return Answer(response, durable=not is_early)


def _unknown(topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
    partitions = [
        TxnOffsetCommitResponsePartition(each.partition_index, UnknownTopicId.code)
        for each in topic.partitions
    ]
    return TxnOffsetCommitResponseTopic("", partitions, topic.topic_id)


class _Committing:
    """One request; its group may be coordinated in another lane than its transaction."""

    def __init__(
        self,
        broker: "Broker",
        request: TxnOffsetCommitRequest,
        call: Call,
        offsets: tuple[OffsetToCommit, ...],
    ) -> None:
        if not request.group_id:
            raise InvalidGroupId("a group needs a name")
        self._broker = broker
        self._call = call
        self._request = request
        self._name = TransactionalId(request.transactional_id)
        self._offsets = offsets
        catalogue = broker.lanes.catalogue_for_coordinators
        self._topic_ids = {each.topic: catalogue.named(each.topic).topic_id for each in offsets}
        self._command = CommitOffsets(
            GroupId(request.group_id),
            request.generation_id,
            MemberId(request.member_id),
            request.group_instance_id,
            offsets,
            in_transaction=True,
        )

    def try_at_once(self) -> dict[TopicPartition, int]:
        """Raises MustJoin or MustWait if the coordinator has to be asked first, and refusals."""
        broker, call = self._broker, self._call
        with _refusals(broker, call):
            index = broker.coordinators.partition_of_group(self._request.group_id)
            number = broker.coordinators.lane_of_transactional_id(self._name)
            lane = broker.coordinators.of_group(self._request.group_id)
            if call.version >= IDS_SINCE and self._request.generation_id >= 0:
                lane.view.check_group(self._command.group_id)
            written = self._written(index)
            broker.topics.acquaint(lane, self._offsets)
            if lane.number == number:
                broker.coordinators.of_transactional_id(self._name)
                command = CommitOffsetsInTransaction(self._name, written, self._command)
                return _codes(lane.submit(command))
            joins = broker.across.joins(lane)
            return _codes(joins.try_at_once(call, self._joining(), self._joined(written)))

    async def join_and_write(self) -> dict[TopicPartition, int]:
        """Raises refusals."""
        broker, call = self._broker, self._call
        with _refusals(broker, call):
            index = broker.coordinators.partition_of_group(self._request.group_id)
            lane = broker.coordinators.of_group(self._request.group_id)
            joins = broker.across.joins(lane)
            joined = self._joined(self._written(index))
            return _codes(await joins.write(call, self._joining(), joined))

    def _written(self, index: int) -> WriteOffsets:
        request = self._request
        return WriteOffsets(
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            index,
            dialect(self._call),
        )

    def _joining(self) -> Joining:
        request = self._request
        epoch = ProducerEpoch(request.producer_epoch)
        return Joining(self._name, ProducerId(request.producer_id), epoch)

    def _joined(self, written: WriteOffsets) -> Callable[[Joining], CommitOffsetsJoined]:
        def command_of(joining: Joining) -> CommitOffsetsJoined:
            # Asked each time: it may have been taken from the client while this waited, and topics
            # may have been deleted.
            self._check_may()
            command = self._command._replace(offsets=self._of_topics_that_are())
            return CommitOffsetsJoined(joining, written, command)

        return command_of

    def _of_topics_that_are(self) -> tuple[OffsetToCommit, ...]:
        """Without those of topics that are gone, in whose place there may be others by now. Raises
        the refusal if none are left."""
        catalogue = self._broker.lanes.catalogue_for_coordinators
        gone = {
            name
            for name, topic_id in self._topic_ids.items()
            if (topic := catalogue.get(name)) is None or topic.topic_id != topic_id
        }
        if not gone:
            return self._offsets
        left = tuple(each for each in self._offsets if each.topic not in gone)
        if not left:
            raise UnknownTopicOrPartition(f"{sorted(gone)} were deleted")
        return left

    def _check_may(self) -> None:
        """Raises the refusal."""
        call = self._call
        if call.is_unrestricted:
            return
        call.require(WRITE_ID, self._name)
        call.require(READ_GROUP, self._request.group_id)
        for topic in dict.fromkeys(each.topic for each in self._offsets):
            call.require(READ_TOPIC, topic)


def _codes(reply: CommitReply) -> dict[TopicPartition, int]:
    return {outcome.partition: outcome.error_code for outcome in reply.partitions}


@contextmanager
def _refusals(broker: "Broker", call: Call) -> Iterator[None]:
    """In the words of the version that was asked for."""
    try:
        yield
    except FrameTooLarge as error:
        raise InvalidCommitOffsetSize(str(error)) from error
    except JournalFull as error:
        raise CoordinatorNotAvailable(str(error)) from error
    except NotLeaderOrFollower as error:
        raise NotCoordinator(str(error)) from error
    except RequestError as error:
        raise broker.metrics.counted(as_version_of(call, error)) from error
