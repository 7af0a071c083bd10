"""InitProducerId (api key 22), versions 0-6.

v2  flexible encoding; v3  the client may name the producer id and epoch it has (KIP-360)
v4  a fenced producer is told PRODUCER_FENCED; v5  TRANSACTION_ABORTABLE may be told (KIP-890)
v6  two-phase commit (KIP-939): refused, as by a Kafka that has it switched off

Without a transactional id: a producer id that was never given before. With one: the next epoch,
after what an older incarnation left open has been rolled back in the same frame, and in all other
lanes that took part. A node that
stands by asks the leader for the first, and refuses the second.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.broker.transactional import prepared_in, take
from semel.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    JournalFull,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestError,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from semel.lane.leader import LedBy
from semel.lane.producing import TakeProducerId
from semel.transactions.commands import InitProducer
from semel.transactions.transaction import Transaction
from semel.types import ProducerEpoch, ProducerId, TransactionalId
from semel.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.wire.rights import IDEMPOTENT_WRITE, WRITE_ID, WRITE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker

PATIENCE_S: Final = 20.0
"""How long other lanes may take to end what is open. Its client asks again then."""


def init_producer_id(broker: "Broker", request: InitProducerIdRequest, call: Call) -> Handled:
    try:
        _check_allowed(request, call)
    except RequestError as error:
        return _refusal(error.code)
    if request.transactional_id is None and not broker.lanes.led:
        leader = leader_to_ask(broker, call)
        if leader is not None:
            return _ask(broker, leader, request, call)
    try:
        if request.transactional_id is not None and broker.lanes.count > 1:
            name = TransactionalId(request.transactional_id)
            if not _is_quiet(broker, name):
                return _initialise_later(broker, name, request, call)
        producer_id, epoch = _initialise(broker, request, call)
    except RequestError as error:
        return Answer(InitProducerIdResponse(error_code=error.code, producer_epoch=-1))
    return Answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


def _check_allowed(request: InitProducerIdRequest, call: Call) -> None:
    """Who may write to any topic may have a producer id. Raises the refusal."""
    if request.transactional_id is not None:
        call.require(WRITE_ID, request.transactional_id)
    elif not call.may_somewhere(WRITE_TOPIC):
        call.require(IDEMPOTENT_WRITE)


async def _ask(
    broker: "Broker", leader: LedBy, request: InitProducerIdRequest, call: Call
) -> Answer:
    """Without an id any node may be asked, and librdkafka asks one alone."""
    try:
        response = await forwarded(broker, leader, call, request)
    except RequestError as error:
        response = InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return Answer(response, NO_MARKS)


def _is_quiet(broker: "Broker", name: TransactionalId) -> bool:
    """Whether nothing that other lanes take part in is open or unconfirmed: then nothing that this
    request ends has to be told them either."""
    view = broker.coordinators.of_transactional_id(name).view
    current = view.transaction(name)
    if current is None:
        return True
    return not current.lanes and not any(map(view.is_unconfirmed, _producer_ids(current)))


def _producer_ids(current: Transaction) -> tuple[ProducerId, ProducerId]:
    """Under which lanes may hold something of it: its epochs may just have run out."""
    return current.producer_id, current.previous_producer_id


async def _initialise_later(
    broker: "Broker", name: TransactionalId, request: InitProducerIdRequest, call: Call
) -> Answer:
    """Answer when no lane holds anything unfinished of this producer: whoever reads the offsets of
    its group then need not ask whether they are stable."""
    try:
        prepared = prepared_in(broker, name)
        lane = broker.coordinators.of_transactional_id(name)
        commits = broker.across.commits(lane)
        if prepared is not None:
            async with asyncio.timeout(PATIENCE_S):
                await commits.decide_and_tell(prepared, is_repeated=True)
        # It may have been taken from the client meanwhile.
        _check_allowed(request, call)
        producer_id, epoch = _initialise(broker, request, call)
        current = lane.view.transaction(name)
        assert current is not None, f"{name!r} was initialised"
        for each in _producer_ids(current):
            if not await commits.until_finished(each, PATIENCE_S):
                raise ConcurrentTransactions(
                    f"not all lanes have confirmed how the last transaction of {name!r} ended"
                )
    except TimeoutError:
        return _refusal(ConcurrentTransactions.code)
    except NotLeaderOrFollower:
        return _refusal(NotCoordinator.code)
    except RequestError as error:
        return _refusal(error.code)
    return Answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


def _refusal(code: int) -> Answer:
    return Answer(InitProducerIdResponse(error_code=code, producer_epoch=-1))


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
