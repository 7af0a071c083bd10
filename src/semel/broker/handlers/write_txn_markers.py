"""WriteTxnMarkers (api key 27), versions 1-2.

v2  the transaction version of the marker (KIP-1228)

Sent by coordinators, and by operators who abort a hanging transaction. The coordinator here
writes its own markers, so what comes from outside may only abort: if the transaction is known,
all of it, so that it is not torn; if it is open in a partition alone, there.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import (
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTransactionState,
    JournalFull,
    RequestError,
)
from semel.lane.changes import partition_of
from semel.lane.transaction_steps import abort_hanging, take_transaction_step
from semel.transactions.commands import Abort
from semel.transactions.verification import check_coordinator
from semel.types import ProducerEpoch, ProducerId
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def write_txn_markers(broker: "Broker", request: WriteTxnMarkersRequest, call: Call) -> Answer:
    results = [
        WritableTxnMarkerResult(
            marker.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    topic.name,
                    [
                        WritableTxnMarkerPartitionResult(
                            index, _write(broker, marker, topic.name, index)
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    return Answer(WriteTxnMarkersResponse(results), broker.lane.journal.end)


def _write(broker: "Broker", marker: WritableTxnMarker, topic: str, index: int) -> int:
    lane = broker.lane
    producer_id = ProducerId(marker.producer_id)
    epoch = ProducerEpoch(marker.producer_epoch)
    try:
        partition = partition_of(lane, topic, index)
        check_coordinator(marker.coordinator_epoch, lane.state.term)
        if partition.transactions.first_offset(producer_id) is None:
            # A marker would end nothing. It may be that of another partition of a transaction
            # that the marker before has just aborted whole.
            return 0
        producer = partition.producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(f"epoch {epoch} is older than {producer.epoch}")
        if marker.transaction_result:
            raise InvalidTransactionState("only its own producer may commit a transaction")
        current = lane.state.transactions.of_producer(producer_id)
        if current is not None and current.is_open:
            take_transaction_step(lane, current.transactional_id, Abort())
        else:
            abort_hanging(lane, partition, producer_id, epoch)
    except RequestError as error:
        return error.code
    except JournalFull:
        return CoordinatorNotAvailable.code
    return 0
