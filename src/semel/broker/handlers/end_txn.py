"""EndTxn (api key 26), versions 0-5.

v2  a fenced producer is told PRODUCER_FENCED; v3  flexible encoding
v5  the reply carries the producer id and epoch of the next transaction (KIP-890)

One frame holds the decision, the markers of every partition, the offsets that became final and
the completion. The reply leaves when that is durable: then it is readable, and the next
transaction may begin.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.transactional import asks_by_aborting, dialect, refuse_if_late, take
from semel.errors import RequestError
from semel.transactions.commands import End
from semel.types import ProducerEpoch, ProducerId, TransactionalId
from semel.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def end_txn(broker: "Broker", request: EndTxnRequest, call: Call) -> Answer:
    producer_id = ProducerId(request.producer_id)
    epoch = ProducerEpoch(request.producer_epoch)
    refuse_if_late(broker, call, request.transactional_id, producer_id, epoch)
    command = End(producer_id, epoch, request.committed, dialect(call))
    command = command._replace(asks_by_aborting=asks_by_aborting(call, command))
    try:
        lane = broker.coordinators.of_transactional_id(TransactionalId(request.transactional_id))
        decision = take(broker, call, request.transactional_id, command)
    except RequestError as error:
        return Answer(EndTxnResponse(error_code=error.code))
    if decision.values:
        broker.metrics.transaction_ended(lane.mark(), committed=request.committed)
    return Answer(
        EndTxnResponse(producer_id=decision.producer_id, producer_epoch=decision.producer_epoch)
    )
