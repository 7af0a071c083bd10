"""WriteTxnMarkers (api key 27), versions 1-2.

v2  the transaction version of the marker (KIP-1228)

Sent by coordinators, and by operators who abort a hanging transaction. The coordinator here
writes its own markers, so what comes from outside may only abort: if the transaction is known,
all of it, so that it is not torn; if it is open in a partition alone, there. What another lane
coordinates is ended by that alone.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTransactionState,
    JournalFull,
    RequestError,
)
from semel.lane.transactions import AbortHanging, Transact
from semel.transactions.commands import Abort
from semel.transactions.ending import check_coordinator
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


def write_txn_markers(broker: "Broker", request: WriteTxnMarkersRequest, call: Call) -> Answer:
    write = _write if call.may_see(ALTER_CLUSTER) or call.may(CLUSTER_ACTION) else _refuse
    results = [
        WritableTxnMarkerResult(
            marker.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    topic.name,
                    [
                        WritableTxnMarkerPartitionResult(
                            index, write(broker, marker, topic.name, index)
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    return Answer(WriteTxnMarkersResponse(results))


def _refuse(broker: "Broker", marker: WritableTxnMarker, topic: str, index: int) -> int:
    return ClusterAuthorizationFailed.code


def _write(broker: "Broker", marker: WritableTxnMarker, topic: str, index: int) -> int:
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
            return 0
        if epoch < open_since.producer_epoch:
            raise InvalidProducerEpoch(f"epoch {epoch} is older than {open_since.producer_epoch}")
        if marker.transaction_result:
            raise InvalidTransactionState("only its own producer may commit a transaction")
        if lane.view.joined(producer_id) is not None:
            # The lane asks for its outcome, and ends it by nothing else.
            raise InvalidTransactionState("its coordinator, in another lane, has to end it")
        current = lane.view.transaction_of(producer_id)
        if current is not None and current.is_open:
            lane.submit(Transact(current.transactional_id, Abort()))
        else:
            lane.submit(AbortHanging(partition, producer_id, epoch, coordinator_epoch))
    except RequestError as error:
        return error.code
    except JournalFull:
        return CoordinatorNotAvailable.code
    return 0
