"""What a checkpoint keeps of the transactions of one partition."""

import msgspec


class PartitionTransactionsSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All that lasts: whatever it holds is durable when it is read again."""

    open: list[tuple[int, int]]
    aborted: bytes | list[tuple[int, int, int, int]]
    """Of the transactions that were aborted before format 4, when checkpoints began to leave them
    to the batch index: columns, one behind the other; up to format 1, rows."""
