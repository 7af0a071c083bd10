"""What handlers of transactional requests share: late requests, refusals as a version says them.

A TV1 client has one epoch for many transactions, so a request that was held up on the way can
hit a later transaction than its own. Its client sent it before it opened the connection that it
uses now. So, per producer id, epoch and kind of request, a request is late if it stands on a
connection that was accepted before the newest one seen; it is refused by closing its connection.

Memory suffices: connections die with the process. TV2 needs none of this, and must not have it,
since there one producer may write over many connections.
"""

from typing import TYPE_CHECKING, Final

from semel.broker.answer import Call
from semel.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    JournalFull,
    ProtocolError,
    RequestError,
    UnknownProducerId,
)
from semel.lane.transactions import Transact
from semel.transactions.commands import AddOffsets, AddPartitions, Command, Decision
from semel.transactions.dialect import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    Dialect,
    as_version,
    dialect_of,
)
from semel.transactions.transaction import Status, Transaction
from semel.types import ProducerEpoch, ProducerId, TransactionalId

if TYPE_CHECKING:
    from semel.broker.broker import Broker

LIBRDKAFKA_VERSION: Final = 0
"""Of AddOffsetsToTxn, which other clients that live are past."""
END_TXN_VERSION_OF_LIBRDKAFKA: Final = 1
PUT_OFF_MAX: Final = 2
"""So often librdkafka asks again, after 0.1 s and 0.2 s: meanwhile its AddPartitionsToTxn comes, of
which it learns to ask for a new epoch."""

SEEN_MIN: Final = 1_024
"""Entries that are kept without asking whether they are still of use."""


class LateRequests:
    """Ask `admit` only for requests of the dialect TV1 whose producer id and epoch are current.

    Others are refused for what they are, and must not be able to fill this memory.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[ProducerId, int], tuple[ProducerEpoch, int]] = {}
        self._connections: set[int] = set()
        self._sweep_at = SEEN_MIN
        self._taken_at = -1

    def __len__(self) -> int:
        return len(self._newest)

    def opened(self, connection_number: int) -> None:
        """Connections are numbered in the order in which they were accepted."""
        self._connections.add(connection_number)

    def closed(self, connection_number: int) -> None:
        self._connections.discard(connection_number)

    def took_over(self, connection_number: int) -> None:
        """Another may have led meanwhile, and have seen newer connections than the newest here:
        whatever stands on one that was accepted by now is late."""
        self._taken_at = connection_number

    def admit(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        api_key: int,
        connection_number: int,
    ) -> bool:
        """Whether the request may be decided; False if its connection is to be closed."""
        if connection_number <= self._taken_at:
            return False
        key = (producer_id, api_key)
        seen = self._newest.get(key)
        if seen is None:
            if len(self._newest) >= self._sweep_at:
                self._sweep()
        elif seen[0] == producer_epoch:
            if connection_number <= seen[1]:
                return connection_number == seen[1]
        elif seen[0] > producer_epoch:
            return True  # Of an epoch that is over; the decision about it says so.
        self._newest[key] = (producer_epoch, connection_number)
        return True

    def _sweep(self) -> None:
        """Drop what no open connection is older than: nothing can come too late for it.

        That the newest connection has closed is no reason to forget it. An older one may still
        be open here, and the request it carries is the very one that must not pass.
        """
        oldest = min(self._connections, default=None)
        self._newest = {
            key: seen
            for key, seen in self._newest.items()
            if oldest is not None and seen[1] > oldest
        }
        self._sweep_at = max(SEEN_MIN, 2 * len(self._newest))


def dialect(call: Call) -> Dialect:
    return dialect_of(call.api.key, call.version)


def as_version_of(call: Call, error: RequestError) -> RequestError:
    return as_version(error, call.api.key, call.version)


def refuse_late(
    broker: "Broker", call: Call, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> None:
    """As `refuse_if_late`, where these are known to be current."""
    if dialect(call) is not Dialect.TV1:
        return
    if not broker.late_requests.admit(producer_id, producer_epoch, call.api.key, call.peer.number):
        broker.metrics.requests_late += 1
        raise ProtocolError(
            f"{call.api.name} of producer {producer_id} came on connection {call.peer.number}, "
            f"which its client has replaced"
        )


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
        current = broker.coordinators.of_transactional_id(name).view.transaction(name)
    except RequestError:
        return
    if current is None or (current.producer_id, current.producer_epoch) != (
        producer_id,
        producer_epoch,
    ):
        return
    refuse_late(broker, call, producer_id, producer_epoch)


def prepared_in(broker: "Broker", transactional_id: TransactionalId) -> Transaction | None:
    """The transaction whose commit waits for other lanes, if that is so."""
    try:
        lane = broker.coordinators.of_transactional_id(transactional_id)
    except RequestError:
        return None
    current = lane.view.transaction(transactional_id)
    is_waiting = current is not None and current.status is Status.PREPARE_COMMIT
    return current if is_waiting else None


def take(
    broker: "Broker",
    call: Call,
    transactional_id: str,
    command: Command,
) -> Decision:
    """Decide, append and apply. Raises a refusal in the words of the request's version."""
    try:
        name = TransactionalId(transactional_id)
        return broker.coordinators.of_transactional_id(name).submit(Transact(name, command))
    except RequestError as error:
        raise broker.metrics.counted(as_version_of(call, error)) from error
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
    peer, key = call.peer, call.api.key
    request = (command.producer_id, command.producer_epoch, key)
    joined = (command.producer_id, command.producer_epoch, ADD_PARTITIONS_TO_TXN)
    may_put_off = (
        key == ADD_OFFSETS_TO_TXN
        and call.version == LIBRDKAFKA_VERSION
        and peer.told_spent != joined
        and peer.put_off_count < PUT_OFF_MAX
    )
    was_told = peer.told_spent == request and not may_put_off
    try:
        return take(broker, call, transactional_id, command._replace(was_told=was_told))
    except UnknownProducerId as lost:
        if may_put_off:
            peer.put_off_count += 1
            raise ConcurrentTransactions(*lost.args) from lost
        peer.told_spent, peer.put_off_count = request, 0
        raise


def is_epoch_durable(broker: "Broker", transactional_id: str) -> bool:
    """Only then may what it writes be answered before it is durable. Of a coordinator elsewhere it
    is told by the key that it has given."""
    name = TransactionalId(transactional_id)
    try:
        lane = broker.coordinators.of_transactional_id(name)
    except RequestError:
        return True
    return lane.is_epoch_durable(name)


def asks_by_aborting(call: Call, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
    """Whether the client that aborts will ask for a new epoch if that is refused, and has to:
    librdkafka after AddOffsetsToTxn. It is refused once."""
    peer = call.peer
    told = (producer_id, producer_epoch, ADD_OFFSETS_TO_TXN)
    if call.version > END_TXN_VERSION_OF_LIBRDKAFKA or peer.told_spent != told:
        return False
    peer.told_spent = None
    return True
