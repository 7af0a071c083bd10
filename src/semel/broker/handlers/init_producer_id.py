"""InitProducerId (api key 22), versions 0-6.

v2  flexible encoding; v3  the client may name the producer id and epoch it has (KIP-360)
v4  a fenced producer is told PRODUCER_FENCED; v5  TRANSACTION_ABORTABLE may be told (KIP-890)
v6  two-phase commit (KIP-939): refused, as by a Kafka that has it switched off

Without a transactional id: a producer id that was never given before. With one: the next epoch,
after what an older incarnation left open has been rolled back in the same frame. A node that
stands by asks the leader for the first, and refuses the second.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.broker.transactional import take
from semel.errors import (
    CoordinatorNotAvailable,
    JournalFull,
    RequestError,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from semel.lane.leader import LedBy
from semel.lane.producing import TakeProducerId
from semel.transactions.commands import InitProducer
from semel.types import ProducerEpoch, ProducerId, TransactionalId
from semel.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def init_producer_id(broker: "Broker", request: InitProducerIdRequest, call: Call) -> Handled:
    if request.transactional_id is None and not broker.lanes.led:
        leader = leader_to_ask(broker, call)
        if leader is not None:
            return _ask(leader, request, call)
    try:
        producer_id, epoch = _initialise(broker, request, call)
    except RequestError as error:
        return Answer(InitProducerIdResponse(error_code=error.code, producer_epoch=-1))
    return Answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


async def _ask(leader: LedBy, request: InitProducerIdRequest, call: Call) -> Answer:
    """Without an id any node may be asked, and librdkafka asks one alone."""
    try:
        response = await forwarded(leader, call.api, call.version, request)
    except RequestError as error:
        response = InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return Answer(response, NO_MARKS)


def _initialise(
    broker: "Broker", request: InitProducerIdRequest, call: Call
) -> tuple[ProducerId, int]:
    transactional_id = request.transactional_id
    try:
        if transactional_id is None:
            return broker.lanes.any.submit(TakeProducerId()), 0
    except JournalFull as error:
        raise CoordinatorNotAvailable(str(error)) from error
    if request.enable2_pc:
        raise TransactionalIdAuthorizationFailed("there is no two-phase commit")
    if request.keep_prepared_txn:
        raise UnsupportedVersion("there is no two-phase commit, so that nothing is prepared")
    command = InitProducer(
        TransactionalId(transactional_id),
        request.transaction_timeout_ms,
        ProducerId(request.producer_id),
        ProducerEpoch(request.producer_epoch),
    )
    decision = take(broker, call, transactional_id, command)
    return decision.producer_id, decision.producer_epoch
