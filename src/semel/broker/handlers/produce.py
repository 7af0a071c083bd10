"""Produce (api key 0), versions 3-13.

v8   errors carry a message; v9  flexible encoding
v10  who asks a node that does not lead is told who does (KIP-951)
v12  TV2: partitions join the transaction with their first batch (KIP-890)
v13  topics by id (KIP-516): what was meant for a topic that is gone goes to no other of its name

All batches of a request are decided and appended in one step. acks=all is answered when they are
durable, acks=1 when the kernel has them, acks=0 never. A retry is answered with the offset of its
original, and waits for it as the original does; one older than what is remembered is looked up
in the log. A batch of a transaction is answered when the
kernel has it, since the commit will make it durable. A compacted topic refuses records without key.
"""

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.broker.answer import NO_MARKS, Answer, Call, Handled, WithoutTask
from semel.broker.asked_topics import topic_with_id
from semel.broker.incoming import Missed, accepted, find_topic, look_at, no_room, refused
from semel.broker.topic_counts import NO_COUNTS
from semel.broker.transactional_produce import ProducingInTransaction
from semel.errors import (
    CorruptJournal,
    CorruptMessage,
    InvalidRequiredAcks,
    JournalFull,
    NotLeaderOrFollower,
    ProtocolError,
    RequestError,
    StorageError,
    UnknownTopicId,
)
from semel.lane.lane import Lane
from semel.lane.producing import ENTRY_SIZE, Incoming, NotRemembered, Produce
from semel.lane.view import PartitionView
from semel.records.batch import NO_TIMESTAMP_MS
from semel.types import Offset
from semel.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.wire.rights import WRITE_ID, WRITE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
ACKS_ONE: Final = 1
NO_OFFSET: Final = Offset(-1)
IDS_SINCE: Final = 13
LEADERS_SINCE: Final = 10


def produce(broker: "Broker", request: ProduceRequest, call: Call) -> Handled:
    acks = request.acks
    if acks not in (ACKS_ALL, ACKS_NONE, ACKS_ONE):
        refusal = InvalidRequiredAcks(f"acks={acks}: must be -1, 0 or 1")
        return Answer(_refuse_all(request, refusal), NO_MARKS)
    if call.peer.was_sent_away and broker.lanes.led:
        # What was refused before it on this connection is to come again before it. A producer that
        # is not known yet would begin with this batch, and the one before would find no place.
        raise ProtocolError("produce on a connection that was opened when another node led")
    if request.transactional_id is not None and not call.may(WRITE_ID, request.transactional_id):
        refusal_of_id = call.refusal(WRITE_ID, request.transactional_id)
        response = _refuse_all(request, refusal_of_id)
        return Answer(response, NO_MARKS) if acks != ACKS_NONE else _unanswered(response)
    turned_away: list[TopicProduceResponse] = []
    if call.version >= IDS_SINCE or not _may_write_all(request, call):
        turned_away = _turn_away(broker, request, call)
    if request.transactional_id is None:
        writing = _Writing(broker)
        response = writing.write_all(request)
        refusal_, missed = writing.refusal, writing.missed
        if refusal_ is None and not turned_away and acks != ACKS_NONE:
            answer = Answer(response)
            answer.durable = acks == ACKS_ALL
            return answer
        # A refusal may come from what is not yet durable, and must not outlive it.
        durable = acks == ACKS_ALL or refusal_ is not None
        return _answer(
            broker, call, acks, _Outcome(response, refusal_, missed, turned_away), durable
        )
    producing = ProducingInTransaction(broker, request, call)
    if not producing.decide():
        return WithoutTask(_answer_rest(broker, call, acks, producing, turned_away))
    return _answer_transactional(broker, call, acks, producing, turned_away)


class _Outcome(NamedTuple):
    response: ProduceResponse
    refusal: RequestError | None
    missed: list[Missed]
    turned_away: list[TopicProduceResponse]
    """Topics that are not known by their ids, or that the client may not write to."""


async def _answer_rest(
    broker: "Broker",
    call: Call,
    acks: int,
    producing: ProducingInTransaction,
    turned_away: list[TopicProduceResponse],
) -> Answer:
    await producing.decide_rest()
    handled = _answer_transactional(broker, call, acks, producing, turned_away)
    if isinstance(handled, Answer):
        return handled
    # To read may take a task.
    await asyncio.sleep(0)
    return await handled


def _answer_transactional(
    broker: "Broker",
    call: Call,
    acks: int,
    producing: ProducingInTransaction,
    turned_away: list[TopicProduceResponse],
) -> Handled:
    response = producing.response()
    outcome = _Outcome(response, producing.refusal, producing.missed, turned_away)
    is_early = producing.refusal is None and producing.is_epoch_durable
    return _answer(broker, call, acks, outcome, durable=not is_early)


def _answer(broker: "Broker", call: Call, acks: int, outcome: _Outcome, durable: bool) -> Handled:
    response, refusal, missed, turned_away = outcome
    if turned_away:
        response.responses += turned_away
        refusal = refusal or UnknownTopicId()
        durable = True
    if refusal is not None:
        _send_away(broker, response, call)
    if missed:
        return _look_up(broker, Answer(response, broker.lanes.marks()), missed, acks)
    if acks != ACKS_NONE:
        return Answer(response, durable=durable)
    return Answer(None) if refusal is None else _unanswered(response)


def _send_away(broker: "Broker", response: ProduceResponse, call: Call) -> None:
    """Tell who leads, if another node does."""
    endpoints: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code == NotLeaderOrFollower.code:
                lane = broker.lanes.number_of(topic.name, each.index)
                led_by = None if lane is None else broker.nodes.leader_of(lane, call)
                if led_by is None or broker.is_shared:
                    # It may be led here when the next request comes.
                    call.peer.was_sent_away = True
                if led_by is not None and call.version >= LEADERS_SINCE:
                    each.current_leader = LeaderIdAndEpoch(led_by.node_id, led_by.epoch)
                    endpoints[led_by.node_id] = NodeEndpoint(
                        led_by.node_id, led_by.host, led_by.port
                    )
    response.node_endpoints = list(endpoints.values())


def _may_write_all(request: ProduceRequest, call: Call) -> bool:
    """Whether that is known already: each request comes this way."""
    if call.is_unrestricted:
        return True
    known = call.remembered(WRITE_TOPIC)
    for topic in request.topic_data:  # noqa: SIM110 - a generator less for each request.
        if not known.get(topic.name):
            return False
    return True


def _turn_away(broker: "Broker", request: ProduceRequest, call: Call) -> list[TopicProduceResponse]:
    """Let the request go on as if it had named its topics, and only those that its client may write
    to; the answers for the others."""
    known: list[TopicProduceData] = []
    turned_away: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        try:
            if call.version >= IDS_SINCE:
                topic.name = topic_with_id(broker, topic.topic_id, WRITE_TOPIC, call).name
            else:
                call.require(WRITE_TOPIC, topic.name)
        except RequestError as refusal:
            partitions = [refused(data, refusal) for data in topic.partition_data]
            broker.metrics.batches_refused += len(partitions)
            turned_away.append(TopicProduceResponse(topic.name, partitions, topic.topic_id))
        else:
            known.append(topic)
    request.topic_data = known
    return turned_away


def _unanswered(response: ProduceResponse) -> Answer:
    """Closing the connection is all that a client hears who asked for no reply."""
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                reason = each.error_message or f"error code {each.error_code}"
                raise ProtocolError(f"produce with acks=0 refused: {reason}")
    return Answer(None)


async def _look_up(broker: "Broker", answer: Answer, missed: list[Missed], acks: int) -> Answer:
    """Turn refusals into the answers of the originals that the log still has."""
    for response, incoming, error in missed:
        try:
            lane, _ = broker.lanes.of(incoming.partition.topic_partition)
            offset = await lane.log.find_original(
                incoming.partition, incoming.header, incoming.fingerprint, error
            )
            lane.check_leads()
        except RequestError as refusal:
            response.error_code = refusal.code
            response.error_message = str(refusal)
            continue
        except (CorruptJournal, CorruptMessage, OSError) as damage:
            # Whether it was stored cannot be told; the producer may ask again.
            broker.found_unreadable(incoming.partition.topic_partition, damage)
            response.error_code = StorageError.code
            response.error_message = str(damage)
            continue
        if offset is not None:
            broker.metrics.batches_duplicate += 1
            found = accepted(incoming, offset)
            response.error_code, response.error_message = 0, None
            response.base_offset = found.base_offset
            response.log_start_offset = found.log_start_offset
    return answer if acks != ACKS_NONE else _unanswered(answer.response)


class _Writing:
    """One request: its batches go to their lanes, those of one lane together if they fit a frame
    and are of different partitions."""

    __slots__ = ("_broker", "missed", "refusal")

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.refusal: RequestError | None = None
        self.missed: list[Missed] = []

    def write_all(self, request: ProduceRequest) -> ProduceResponse:
        broker = self._broker
        lane: Lane | None = None
        waiting: list[Incoming] = []
        """What goes to that lane next."""
        answers: dict[PartitionView, PartitionProduceResponse] = {}
        """Of those that wait, in their order: what becomes of them is written here."""
        size = 0
        responses: list[TopicProduceResponse] = []
        for topic in request.topic_data:
            partitions: list[PartitionProduceResponse] = []
            responses.append(TopicProduceResponse(topic.name, partitions, topic.topic_id))
            try:
                found = find_topic(broker, topic.name)
            except RequestError as error:
                partitions += [self._refused(data, error) for data in topic.partition_data]
                continue
            for data in topic.partition_data:
                try:
                    its_lane, incoming = look_at(broker, found, data)
                except RequestError as error:
                    partitions.append(self._refused(data, error))
                    continue
                partition = incoming.partition
                size += ENTRY_SIZE + len(incoming.batch)
                if lane is not its_lane or size > broker.frame_size_max or partition in answers:
                    if lane is not None:
                        self._submit(lane, waiting, answers)
                        waiting, answers = [], {}
                        size = ENTRY_SIZE + len(incoming.batch)
                    lane = its_lane
                answer = PartitionProduceResponse(
                    data.index, 0, NO_OFFSET, NO_TIMESTAMP_MS, partition.log_start_offset
                )
                waiting.append(incoming)
                answers[partition] = answer
                partitions.append(answer)
        if lane is not None:
            self._submit(lane, waiting, answers)
        return ProduceResponse(responses)

    def _submit(
        self,
        lane: Lane,
        waiting: list[Incoming],
        answers: dict[PartitionView, PartitionProduceResponse],
    ) -> None:
        try:
            produced = lane.submit(Produce(waiting))
        except JournalFull as error:
            full = no_room(error)
            for answer in answers.values():
                self._refuse(answer, full)
            return
        metrics = self._broker.metrics
        results, duplicates = produced.results, produced.duplicates
        if duplicates:
            metrics.batches_duplicate += len(duplicates)
        counted = ""
        counts = NO_COUNTS
        for number, incoming in enumerate(waiting):
            result = results[number]
            answer = answers[incoming.partition]
            if not isinstance(result, int):
                self._refuse(answer, result)
                if isinstance(result, NotRemembered):
                    self.missed.append((answer, incoming, result))
                continue
            answer.base_offset = result
            # When the original of a retry was appended is not remembered.
            if duplicates and incoming in duplicates:
                continue
            if incoming.is_stamped:
                answer.log_append_time_ms = produced.appended_at_ms
            topic = incoming.partition.topic_partition.topic
            if topic != counted:
                counted = topic
                counts = metrics.of_topic(topic)
            size, record_count = len(incoming.batch), incoming.header.record_count
            counts.bytes_in += size
            counts.records_in += record_count
            metrics.bytes_in += size
            metrics.records_in += record_count

    def _refuse(self, answer: PartitionProduceResponse, error: RequestError) -> None:
        answer.error_code = error.code
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        answer.error_message = str(error) or None
        self._count(error)

    def _refused(self, data: PartitionProduceData, error: RequestError) -> PartitionProduceResponse:
        self._count(error)
        return refused(data, error)

    def _count(self, error: RequestError) -> None:
        self.refusal = error
        self._broker.metrics.batches_refused += 1


def _refuse_all(request: ProduceRequest, refusal: RequestError) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                [refused(data, refusal) for data in topic.partition_data],
                topic.topic_id,
            )
            for topic in request.topic_data
        ]
    )
