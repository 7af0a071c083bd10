"""The two dialects of transactions, by request version, and how a refusal is said in each.

TV1 clients keep one epoch for many transactions and add partitions before they write. TV2 clients
(KIP-890) get a new epoch with every EndTxn, and partitions join with the first write.
"""

import enum
from typing import Final

from semel.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    NotEnoughReplicas,
    ProducerFenced,
    RequestError,
    TransactionAbortable,
    UnknownProducerId,
)

PRODUCE: Final = 0
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28

NEVER: Final = 2**15


class Dialect(enum.IntEnum):
    """Numbered as `transaction.version` counts."""

    TV1 = 1
    TV2 = 2


_TV2_SINCE: Final = {
    PRODUCE: 12,
    ADD_PARTITIONS_TO_TXN: 4,
    ADD_OFFSETS_TO_TXN: NEVER,  # A TV2 client commits offsets without adding them before.
    END_TXN: 5,
    TXN_OFFSET_COMMIT: 5,
}

# Up to KIP-588 a fenced producer was told INVALID_PRODUCER_EPOCH. Produce and TxnOffsetCommit
# append to a log, and logs have always said it so.
_FENCED_SINCE: Final = {
    PRODUCE: NEVER,
    INIT_PRODUCER_ID: 4,
    ADD_PARTITIONS_TO_TXN: 2,
    ADD_OFFSETS_TO_TXN: 2,
    END_TXN: 2,
    TXN_OFFSET_COMMIT: NEVER,
}


def dialect_of(api_key: int, version: int) -> Dialect:
    return Dialect.TV2 if version >= _TV2_SINCE.get(api_key, NEVER) else Dialect.TV1


def as_version(error: RequestError, api_key: int, version: int) -> RequestError:
    """The refusal in the words of this version; decisions are made without knowing versions."""
    as_type = _type_as_version(type(error), api_key, version)
    return error if as_type is type(error) else as_type(*error.args)


def _type_as_version(error: type[RequestError], api_key: int, version: int) -> type[RequestError]:
    is_tv1 = dialect_of(api_key, version) is Dialect.TV1
    if error is ProducerFenced and version < _FENCED_SINCE.get(api_key, 0):
        return InvalidProducerEpoch
    if error is TransactionAbortable and is_tv1:
        # It makes these clients ask for a new epoch. Told to abort, they would abort and go on
        # under the old one, which is refused until a new one was issued.
        return UnknownProducerId
    if error is ConcurrentTransactions and api_key == PRODUCE and is_tv1:
        return NotEnoughReplicas  # Retried by producers that never met the other in a Produce.
    return error
