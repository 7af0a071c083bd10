"""WriteTxnMarkers (api key 27), versions 1-2.

v2  the transaction version of the marker (KIP-1228)

Sent by coordinators, and by operators who abort a hanging transaction. The coordinator here
writes its own markers, so what comes from outside may only abort: if the transaction is known,
all of it, so that it is not torn; if it is open in a partition alone, there. What another lane
coordinates is ended by that alone, which is asked to.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from semel.broker.answer import Answer, Call
from semel.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTransactionState,
    JournalFull,
    RequestError,
)
from semel.lane.joined import JoinedTransaction
from semel.lane.transactions import AbortHanging, Transact
from semel.transactions.commands import Abort
from semel.transactions.ending import check_coordinator
from semel.transactions.key import TransactionKey
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.wire.rights import ALTER_CLUSTER, CLUSTER_ACTION

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def write_txn_markers(
    broker: "Broker", request: WriteTxnMarkersRequest, call: Call
) -> Answer | Coroutine[Any, Any, Answer]:
    write = _write if call.may_see(ALTER_CLUSTER) or call.may(CLUSTER_ACTION) else _refuse
    written = [
        _Written(
            marker, TopicPartition(topic.name, index), *write(broker, marker, topic.name, index)
        )
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    if any(each.joined is not None for each in written):
        return _when_ended(broker, request, written)
    return _answer(request, written)


class _Written(NamedTuple):
    marker: WritableTxnMarker
    partition: TopicPartition
    code: int
    joined: JoinedTransaction | None = None
    """What the coordinator in another lane has to end first."""


def _answer(request: WriteTxnMarkersRequest, written: list[_Written]) -> Answer:
    codes = iter(written)
    results = [
        WritableTxnMarkerResult(
            marker.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    topic.name,
                    [
                        WritableTxnMarkerPartitionResult(index, next(codes).code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    return Answer(WriteTxnMarkersResponse(results))


async def _when_ended(
    broker: "Broker", request: WriteTxnMarkersRequest, written: list[_Written]
) -> Answer:
    """All of a transaction, also if several of its partitions were named."""
    codes: dict[TransactionKey, int] = {}
    for each in written:
        if each.joined is not None and each.joined.key not in codes:
            codes[each.joined.key] = await _abort(broker, each, each.joined)
    return _answer(
        request,
        [
            each if each.joined is None else each._replace(code=codes[each.joined.key])
            for each in written
        ],
    )


async def _abort(broker: "Broker", written: _Written, joined: JoinedTransaction) -> int:
    try:
        lane, _ = broker.lanes.of(written.partition)
        await broker.across.joins(lane).abort(joined)
    except RequestError as error:
        return error.code
    return 0


_Code = tuple[int, JoinedTransaction | None]


def _refuse(broker: "Broker", marker: WritableTxnMarker, topic: str, index: int) -> _Code:
    return ClusterAuthorizationFailed.code, None


def _write(broker: "Broker", marker: WritableTxnMarker, topic: str, index: int) -> _Code:
    producer_id = ProducerId(marker.producer_id)
    epoch = ProducerEpoch(marker.producer_epoch)
    coordinator_epoch = Term(marker.coordinator_epoch)
    try:
        partition = TopicPartition(topic, index)
        lane, _ = broker.lanes.of(partition)
        check_coordinator(coordinator_epoch, lane.view.term)
        open_since = lane.view.open_in(partition, producer_id)
        if open_since is None:
            # A marker would end nothing. It may be that of another partition of a transaction
            # that the marker before has just aborted whole.
            return 0, None
        if epoch < open_since.producer_epoch:
            raise InvalidProducerEpoch(f"epoch {epoch} is older than {open_since.producer_epoch}")
        if marker.transaction_result:
            raise InvalidTransactionState("only its own producer may commit a transaction")
        joined = lane.view.joined(producer_id)
        if joined is not None:
            return 0, joined
        current = lane.view.transaction_of(producer_id)
        if current is not None and current.is_open:
            lane.submit(Transact(current.transactional_id, Abort()))
        else:
            lane.submit(AbortHanging(partition, producer_id, epoch, coordinator_epoch))
    except RequestError as error:
        return error.code, None
    except JournalFull:
        return CoordinatorNotAvailable.code, None
    return 0, None
