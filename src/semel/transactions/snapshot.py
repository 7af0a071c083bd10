"""What a checkpoint keeps of the transactional ids."""

import msgspec

from semel.transactions.transaction import Transaction


class TransactionsSnapshot(msgspec.Struct, frozen=True):
    """All that lasts, as one value."""

    values: tuple[Transaction, ...] = ()
