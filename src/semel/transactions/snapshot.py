"""What a checkpoint keeps of the transactional ids."""

import msgspec

from semel.transactions.transaction import Transaction


class TransactionsSnapshot(msgspec.Struct, frozen=True):
    """All that lasts, as one value."""

    values: tuple[Transaction, ...] = ()
    changed_ms: tuple[int, ...] | None = None
    """When each was given its value; None in a checkpoint that knows one time alone."""
