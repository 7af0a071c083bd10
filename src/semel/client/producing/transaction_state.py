"""One transactional producer's transactions: what may follow what, and what belongs to this one.

A transaction begins at the broker with its first write: implicitly with Produce where the cluster
has agreed on transaction version 2, else by AddPartitionsToTxn, which each partition waits for.
"""

import enum
from collections.abc import Iterable, Mapping

from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown
from semel.errors import NotInOrder
from semel.types import TopicPartition


class TransactionStatus(enum.Enum):
    UNINITIALISED = "not initialised"
    READY = "ready"
    OPEN = "open"
    DOOMED = "to be aborted"
    COMMITTING = "being committed"
    IN_DOUBT = "committed or not, which is not known"
    ABORTING = "being aborted"
    STOPPED = "stopped for good"


FOLLOWERS: Mapping[TransactionStatus, frozenset[TransactionStatus]] = {
    TransactionStatus.UNINITIALISED: frozenset(
        {TransactionStatus.READY, TransactionStatus.STOPPED}
    ),
    TransactionStatus.READY: frozenset({TransactionStatus.OPEN, TransactionStatus.STOPPED}),
    TransactionStatus.OPEN: frozenset(
        {
            TransactionStatus.COMMITTING,
            TransactionStatus.ABORTING,
            TransactionStatus.DOOMED,
            TransactionStatus.STOPPED,
        }
    ),
    TransactionStatus.DOOMED: frozenset({TransactionStatus.ABORTING, TransactionStatus.STOPPED}),
    TransactionStatus.COMMITTING: frozenset(
        {
            TransactionStatus.READY,
            TransactionStatus.DOOMED,
            TransactionStatus.IN_DOUBT,
            TransactionStatus.STOPPED,
        }
    ),
    # Only asking again whether it is committed is safe: it may be.
    TransactionStatus.IN_DOUBT: frozenset(
        {TransactionStatus.COMMITTING, TransactionStatus.STOPPED}
    ),
    TransactionStatus.ABORTING: frozenset(
        {TransactionStatus.READY, TransactionStatus.ABORTING, TransactionStatus.STOPPED}
    ),
    TransactionStatus.STOPPED: frozenset(),
}


class TransactionState:
    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.status = TransactionStatus.UNINITIALISED
        self.error: Exception | None = None
        """Why it is doomed or stopped."""
        self.is_implicit = False
        """Whether a partition joins by being written to (transaction version 2)."""
        self.can_renew_epoch = True
        """Whether the coordinator gives this producer a new epoch when asked (KIP-360)."""
        self.is_begun = False
        """Whether the broker may know of it."""
        self.is_begin_known = True
        """Whether that is more than a guess, after a call without an answer."""
        self.is_epoch_spent = False
        """Whether a write was refused, so that the next transaction needs another epoch."""
        self.groups: set[str] = set()
        self._joined: set[TopicPartition] = set()
        self._joining: set[TopicPartition] = set()

    def _go(self, status: TransactionStatus) -> None:
        if status not in FOLLOWERS[self.status]:
            if status is self.status is TransactionStatus.OPEN:
                self._refuse("it is open already: commit or abort it before the next one begins")
            self._refuse(f"it is {self.status.value}, so that it cannot be {status.value}")
        self.status = status

    def _refuse(self, reason: str) -> None:
        subject = f"transactional id {self.transactional_id}"
        said = str(self.error)
        sentence = said if said.startswith(f"{subject}: ") else f"{subject}: {said}"
        if self.status is TransactionStatus.STOPPED:
            raise MustStop(sentence) from self.error
        if self.status is TransactionStatus.DOOMED:
            raise MustAbort(sentence) from self.error
        if self.status is TransactionStatus.IN_DOUBT:
            raise OutcomeUnknown(sentence) from self.error
        raise NotInOrder(f"transaction of {self.transactional_id}: {reason}")

    def initialised(self, *, is_implicit: bool, can_renew_epoch: bool) -> None:
        self._go(TransactionStatus.READY)
        self.is_implicit = is_implicit
        self.can_renew_epoch = can_renew_epoch

    def begin(self) -> None:
        self._go(TransactionStatus.OPEN)
        self.error = None
        self.is_begun = False
        self.is_begin_known = True
        self.groups.clear()
        self._joined.clear()
        self._joining.clear()

    def check_open(self) -> None:
        if self.status in (TransactionStatus.UNINITIALISED, TransactionStatus.READY):
            self._refuse("nothing can be written outside of one: begin a transaction first")
        if self.status is not TransactionStatus.OPEN:
            self._refuse(f"nothing can be written while it is {self.status.value}")

    @property
    def may_send(self) -> bool:
        return self.status in (TransactionStatus.OPEN, TransactionStatus.COMMITTING)

    @property
    def is_to_be_aborted(self) -> bool:
        return self.status in (
            TransactionStatus.OPEN,
            TransactionStatus.DOOMED,
            TransactionStatus.ABORTING,
        )

    # Partitions

    def touch(self, partition: TopicPartition) -> None:
        if not self.is_implicit and partition not in self._joined:
            self._joining.add(partition)

    def may_write_to(self, partition: TopicPartition) -> bool:
        return self.is_implicit or partition in self._joined

    @property
    def joining(self) -> frozenset[TopicPartition]:
        """Partitions that the coordinator has to be told of."""
        return frozenset(self._joining) if self.may_send else frozenset()

    def joined(self, partitions: Iterable[TopicPartition]) -> None:
        self._joined.update(partitions)
        self._joining.difference_update(partitions)

    # The end

    def commit(self) -> None:
        self._go(TransactionStatus.COMMITTING)

    def abort(self) -> None:
        self._go(TransactionStatus.ABORTING)

    def ended(self) -> None:
        self._go(TransactionStatus.READY)
        self.is_epoch_spent = False

    def in_doubt(self, error: Exception) -> None:
        self._go(TransactionStatus.IN_DOUBT)
        self.error = error

    def fail(self, error: Exception, *, is_fatal: bool) -> None:
        """A write or a call of this transaction was refused for good."""
        if self.status is TransactionStatus.STOPPED:
            return
        if is_fatal:
            self.error = error
            self.status = TransactionStatus.STOPPED
        elif self.may_send:
            self.error = error
            self.status = TransactionStatus.DOOMED
            self.is_epoch_spent = True
