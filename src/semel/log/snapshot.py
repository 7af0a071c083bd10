"""What a checkpoint keeps of the transactions of one partition."""

import msgspec


class PartitionTransactionsSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All that lasts: whatever it holds is durable when it is read again."""

    open: list[tuple[int, int]]
    aborted: bytes | list[tuple[int, int, int, int]]
    """The columns of the aborted index, one behind the other; as rows up to format 1."""
