"""EndTxn (api key 26), versions 0-5.

v2  a fenced producer is told PRODUCER_FENCED; v3  flexible encoding
v5  the reply carries the producer id and epoch of the next transaction (KIP-890)

One frame holds the decision, the markers of every partition, the offsets that became final and
the completion. The reply leaves when that is durable: then it is readable, and the next
transaction may begin. If other lanes take part, a commit is decided when all of them have said that
they are sure to have what was written there, and the reply need not wait for more.
"""

import asyncio
from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call, Handled, WithoutTask
from semel.broker.transactional import (
    as_version_of,
    asks_by_aborting,
    dialect,
    prepared_in,
    refuse_if_late,
    take,
)
from semel.errors import (
    ConcurrentTransactions,
    RequestError,
    TransactionalIdAuthorizationFailed,
)
from semel.lane.lane import Lane
from semel.transactions.commands import End
from semel.transactions.ending import voted_down
from semel.transactions.transaction import Transaction
from semel.types import NO_PRODUCER_ID, ProducerEpoch, ProducerId, TransactionalId
from semel.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.wire.rights import WRITE_ID

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def end_txn(broker: "Broker", request: EndTxnRequest, call: Call) -> Handled:
    producer_id = ProducerId(request.producer_id)
    epoch = ProducerEpoch(request.producer_epoch)
    if not call.may(WRITE_ID, request.transactional_id):
        return Answer(EndTxnResponse(error_code=TransactionalIdAuthorizationFailed.code))
    refuse_if_late(broker, call, request.transactional_id, producer_id, epoch)
    commit = request.committed
    asks = not commit and asks_by_aborting(call, producer_id, epoch)
    command = End(producer_id, epoch, commit, dialect(call), asks)
    name = TransactionalId(request.transactional_id)
    try:
        lane = broker.coordinators.of_transactional_id(name)
        decision = take(broker, call, name, command)
    except ConcurrentTransactions as error:
        current = prepared_in(broker, name)
        if current is not None:
            return WithoutTask(_repeat(broker, request, call, current))
        return Answer(EndTxnResponse(error_code=error.code))
    except RequestError as error:
        return Answer(EndTxnResponse(error_code=error.code))
    if decision.values and decision.values[-1].is_prepared:
        return WithoutTask(_commit(broker, call, lane, decision.values[-1]))
    if decision.values and request.committed:
        broker.metrics.transaction_committed(lane.mark())
    elif decision.values:
        broker.metrics.transaction_aborted()
    return Answer(
        EndTxnResponse(producer_id=decision.producer_id, producer_epoch=decision.producer_epoch)
    )


async def _commit(broker: "Broker", call: Call, lane: Lane, prepared: Transaction) -> Answer:
    began_s = asyncio.get_running_loop().time()
    try:
        committed = await broker.across.commits(lane).decide_and_tell(prepared, is_repeated=False)
        if not committed:
            raise as_version_of(call, voted_down(prepared))
    except RequestError as error:
        broker.metrics.counted(error)
        return Answer(EndTxnResponse(error_code=error.code))
    broker.metrics.transactions_committed += 1
    broker.metrics.commit_decided(began_s)
    # As this commit leaves it: an incarnation that has begun since has an epoch of its own.
    producer_id, epoch = prepared.producer_id, prepared.producer_epoch
    if prepared.next_producer_id != NO_PRODUCER_ID:
        # The epochs of the producer id have run out.
        producer_id, epoch = prepared.next_producer_id, ProducerEpoch(0)
    # No crash can take it back, durable or not.
    return Answer(EndTxnResponse(producer_id=producer_id, producer_epoch=epoch), NO_MARKS)


async def _repeat(
    broker: "Broker", request: EndTxnRequest, call: Call, prepared: Transaction
) -> Answer:
    """It was asked for before, and is being decided."""
    try:
        lane = broker.coordinators.of_transactional_id(prepared.transactional_id)
        await broker.across.commits(lane).decide_and_tell(prepared, is_repeated=True)
    except RequestError as error:
        return Answer(EndTxnResponse(error_code=error.code))
    handled = end_txn(broker, request, call)
    return handled if isinstance(handled, Answer) else await handled
