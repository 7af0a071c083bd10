"""What names one transaction that takes part in other lanes than its coordinator's."""

from typing import NamedTuple

import msgspec

from semel.types import ProducerEpoch, ProducerId, Term


class Turn(NamedTuple):
    """Where a transaction stands among those of its producer id. Later ones compare greater."""

    producer_epoch: int
    number: int


class TransactionKey(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Given by the coordinator to the lane that asks to join, and never given twice.

    A coordinator that may have lost what it has written begins a new term, and gives no key of
    the old one.
    """

    lane: int
    """Of the coordinator."""
    term: Term
    """Of the coordinator, when the transaction was opened."""
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    number: int
    """Transactions over lanes of one transactional id are numbered."""

    @property
    def turn(self) -> Turn:
        return Turn(self.producer_epoch, self.number)
