"""What a consumer tells its application that no broker has a code for."""

from semel.errors import OffsetOutOfRange, SemelError


class CommitFailed(SemelError):
    """The member is not in its group any more: its partitions may be another's by now."""


class NoOffset(OffsetOutOfRange):
    """There is no offset to begin at, and `auto_offset_reset` is `none`."""


class UndeliverableRecord(SemelError):
    """A record that its deserializer does not take; seek behind it to go on.

    `__cause__` is what the deserializer raised.
    """

    def __init__(self, topic: str, partition: int, offset: int, reason: object) -> None:
        super().__init__(f"{topic}-{partition} at offset {offset}: {reason}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
