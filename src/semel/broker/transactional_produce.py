"""Produce inside a transaction: the coordinator is asked first, then each partition.

Under TV2 a partition joins the transaction in the frame of its first batch. Under TV1 it must
have been added before. If it lies in another lane than the coordinator, that is asked before.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from semel.broker.answer import Call
from semel.broker.incoming import Missed, accepted, find_topic, look_at, no_room, refused
from semel.broker.topic_counts import NO_COUNTS
from semel.broker.transactional import (
    as_version_of,
    dialect,
    is_epoch_durable,
    refuse_if_late,
)
from semel.errors import (
    InvalidRequest,
    InvalidTransactionState,
    JournalFull,
    RequestError,
)
from semel.lane.lane import Lane
from semel.lane.participating import Joining, MustJoin, MustWait, ProduceJoined
from semel.lane.producing import (
    ENTRY_SIZE,
    Incoming,
    NotRemembered,
    Produced,
    ProduceInTransaction,
)
from semel.lane.view import TopicView
from semel.records.batch import NO_TIMESTAMP_MS, TRANSACTIONAL
from semel.types import Offset, TransactionalId
from semel.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from semel.wire.rights import WRITE_ID, WRITE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker

Result = Offset | RequestError

Key = tuple[str, int]
"""A partition by its topic and its number, also without having made a name of both."""


class ProducingInTransaction:
    """One request: what came in, and what became of it by partition."""

    __slots__ = (
        "_appended_at_ms",
        "_broker",
        "_call",
        "_incoming",
        "_lanes",
        "_request",
        "_results",
        "_transactional_id",
        "_undecided",
        "missed",
        "refusal",
    )

    def __init__(self, broker: "Broker", request: ProduceRequest, call: Call) -> None:
        self._broker = broker
        self._request = request
        self._transactional_id = TransactionalId(request.transactional_id or "")
        self._call = call
        self._incoming: dict[Key, Incoming] = {}
        self._lanes: dict[Key, Lane] = {}
        """Of the same."""
        self._results: dict[Key, Result] = {}
        self._appended_at_ms: dict[Key, int] = {}
        self._undecided: list[tuple[Lane, list[Incoming]]] = []
        """What has to wait for its coordinator, in another lane."""
        self.refusal: RequestError | None = None
        """One of those in the response, if there are any."""
        self.missed: list[Missed] = []
        """What the log must tell."""

    def decide(self) -> bool:
        """All that can be decided at once; whether that is all there is."""
        for topic in self._request.topic_data:
            try:
                found = find_topic(self._broker, topic.name)
            except RequestError as error:
                for data in topic.partition_data:
                    self._refuse((topic.name, data.index), error)
                continue
            for data in topic.partition_data:
                self._look_at(found, data)
        self._submit_all()
        return not self._undecided

    async def decide_rest(self) -> None:
        """What stands behind this request on its connection is decided after it."""
        for lane, incoming in self._undecided:
            joining, command_of = self._joining(incoming), self._command(incoming)
            try:
                joins = self._broker.across.joins(lane)
                produced = await joins.write(self._call, joining, command_of)
            except JournalFull as error:
                self._refuse_all(incoming, no_room(error))
            except RequestError as error:
                self._refuse_all(incoming, error)
            else:
                self._take(incoming, produced)

    def _look_at(self, topic: TopicView, data: PartitionProduceData) -> None:
        try:
            lane, incoming = look_at(self._broker, topic, data)
            key = incoming.partition.topic_partition
            if key in self._incoming or key in self._results:
                raise InvalidRequest(f"{key} is named more than once in one request")
            if not incoming.header.attributes & TRANSACTIONAL:
                raise InvalidTransactionState("a plain batch came with a transactional id")
            self._incoming[key] = incoming
            self._lanes[key] = lane
        except RequestError as error:
            named = topic.name, data.index
            self._incoming.pop(named, None)
            self._refuse(named, error)

    def _submit_all(self) -> None:
        """Those of one lane that fit into one frame together."""
        if not self._incoming:
            return
        first = next(iter(self._incoming.values())).header
        producer = first.producer_id, first.producer_epoch
        refuse_if_late(self._broker, self._call, self._transactional_id, *producer)
        coordinator = self._broker.coordinators.lane_of_transactional_id(self._transactional_id)
        together: list[Incoming] = []
        lane: Lane | None = None
        size = 0
        for key, incoming in self._incoming.items():
            size += ENTRY_SIZE + len(incoming.batch)
            its_lane = self._lanes[key]
            if together and (its_lane is not lane or size > self._broker.frame_size_max):
                assert lane is not None
                self._submit(lane, together, coordinator)
                together = []
                size = ENTRY_SIZE + len(incoming.batch)
            lane = its_lane
            together.append(incoming)
        assert lane is not None
        self._submit(lane, together, coordinator)

    def _submit(self, lane: Lane, incoming: list[Incoming], coordinator: int) -> None:
        try:
            if lane.number == coordinator:
                # It may not be ready yet.
                self._broker.coordinators.of_transactional_id(self._transactional_id)
                name, its_dialect = self._transactional_id, dialect(self._call)
                produced = lane.submit(ProduceInTransaction(name, its_dialect, incoming))
            else:
                joining = self._joining(incoming)
                joins = self._broker.across.joins(lane)
                produced = joins.try_at_once(self._call, joining, self._command(incoming))
        except (MustJoin, MustWait):
            self._undecided.append((lane, incoming))
        except JournalFull as error:
            self._refuse_all(incoming, no_room(error))
        except RequestError as error:
            self._refuse_all(incoming, error)
        else:
            self._take(incoming, produced)

    def _joining(self, incoming: list[Incoming]) -> Joining:
        first = incoming[0].header
        return Joining(self._transactional_id, first.producer_id, first.producer_epoch)

    @property
    def is_epoch_durable(self) -> bool:
        return is_epoch_durable(self._broker, self._transactional_id)

    def _command(self, incoming: list[Incoming]) -> Callable[[Joining], ProduceJoined]:
        its_dialect = dialect(self._call)

        def command_of(joining: Joining) -> ProduceJoined:
            # Asked each time: it may have been taken from the client while this waited.
            self._check_may(incoming)
            return ProduceJoined(joining, its_dialect, incoming)

        return command_of

    def _check_may(self, incoming: list[Incoming]) -> None:
        """Raises the refusal."""
        call = self._call
        if call.is_unrestricted:
            return
        call.require(WRITE_ID, self._transactional_id)
        for topic in dict.fromkeys(each.partition.topic_partition.topic for each in incoming):
            call.require(WRITE_TOPIC, topic)

    def _take(self, incoming: list[Incoming], produced: Produced) -> None:
        metrics = self._broker.metrics
        duplicates = produced.duplicates
        if duplicates:
            metrics.batches_duplicate += len(duplicates)
        counted = ""
        counts = NO_COUNTS
        for each, result in zip(incoming, produced.results, strict=True):
            key = each.partition.topic_partition
            if not isinstance(result, int):
                self._refuse(key, result)
                continue
            self._results[key] = result
            # When the original of a retry was appended is not remembered.
            if duplicates and each in duplicates:
                continue
            self._appended_at_ms[key] = produced.appended_at_ms
            topic = key.topic
            if topic != counted:
                counted = topic
                counts = metrics.of_topic(topic)
            size, record_count = len(each.batch), each.header.record_count
            counts.bytes_in += size
            counts.records_in += record_count
            metrics.bytes_in += size
            metrics.records_in += record_count

    def response(self) -> ProduceResponse:
        return ProduceResponse(
            [
                TopicProduceResponse(
                    topic.name,
                    [self._response(topic.name, data) for data in topic.partition_data],
                    topic.topic_id,
                )
                for topic in self._request.topic_data
            ]
        )

    def _response(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        key = topic, data.index
        result = self._results[key]
        if not isinstance(result, int):
            response = refused(data, result)
            if isinstance(result, NotRemembered):
                self.missed.append((response, self._incoming[key], result))
            return response
        appended_at_ms = self._appended_at_ms.get(key, NO_TIMESTAMP_MS)
        return accepted(self._incoming[key], result, appended_at_ms)

    def _refuse_all(self, incoming: list[Incoming], error: RequestError) -> None:
        for each in incoming:
            self._refuse(each.partition.topic_partition, error)

    def _refuse(self, key: Key, error: RequestError) -> None:
        self.refusal = self._broker.metrics.counted(as_version_of(self._call, error))
        self._results[key] = self.refusal
        self._broker.metrics.batches_refused += 1
