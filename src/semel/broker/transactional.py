"""What handlers of transactional requests share: late requests, refusals as a version says them."""

from typing import TYPE_CHECKING

from semel.broker.answer import Call
from semel.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    JournalFull,
    ProtocolError,
    RequestError,
    UnknownProducerId,
)
from semel.lane.lane import Lane
from semel.lane.transactions import Transact
from semel.transactions.commands import AddOffsets, AddPartitions, Command, Decision
from semel.transactions.dialect import Dialect, dialect_of
from semel.transactions.dialect import as_version as as_of
from semel.types import ProducerEpoch, ProducerId, TransactionalId

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def dialect(call: Call) -> Dialect:
    return dialect_of(call.api.key, call.version)


def as_version(call: Call, error: RequestError) -> RequestError:
    return as_of(error, call.api.key, call.version)


def refuse_if_late(
    broker: "Broker",
    call: Call,
    transactional_id: str,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
) -> None:
    """Close the connection of a TV1 request that its client has given up on.

    Only requests that would be taken are looked at: others are refused for what they are.
    """
    if dialect(call) is not Dialect.TV1:
        return
    name = TransactionalId(transactional_id)
    try:
        current = broker.lane_of_transactional_id(name).view.transaction(name)
    except RequestError:
        return
    if current is None or (current.producer_id, current.producer_epoch) != (
        producer_id,
        producer_epoch,
    ):
        return
    if not broker.late_requests.admit(producer_id, producer_epoch, call.api.key, call.peer.number):
        broker.metrics.requests_late += 1
        raise ProtocolError(
            f"{call.api.name} of {transactional_id!r} came on connection {call.peer.number}, "
            f"which its client has replaced"
        )


def check_lane(lane: Lane, number: int, what: str) -> None:
    """What takes part in a transaction must lie in the lane of its coordinator, which alone can
    end it."""
    if number != lane.number:
        raise InvalidRequest(f"{what} lies in another lane than its transaction")


def take(
    broker: "Broker",
    call: Call,
    transactional_id: str,
    command: Command,
) -> Decision:
    """Decide, append and apply. Raises a refusal in the words of the request's version."""
    try:
        name = TransactionalId(transactional_id)
        return broker.lane_of_transactional_id(name).submit(Transact(name, command))
    except RequestError as error:
        raise broker.metrics.counted(as_version(call, error)) from error
    except JournalFull as error:
        raise CoordinatorNotAvailable(str(error)) from error


def join(
    broker: "Broker", call: Call, transactional_id: str, command: AddPartitions | AddOffsets
) -> Decision:
    """As `take`, for the requests with which a TV1 client begins a transaction.

    Told that its epoch is spent, a client aborts and asks for a new one. kafka-python does not
    after these requests, nor librdkafka after AddOffsetsToTxn. Who repeats one of them has heard
    the refusal if it came on the same connection; after a lost reply there is another.
    """
    request = (command.producer_id, command.producer_epoch, call.api.key)
    was_told = call.peer.told_spent == request
    try:
        return take(broker, call, transactional_id, command._replace(was_told=was_told))
    except UnknownProducerId:
        call.peer.told_spent = request
        raise
