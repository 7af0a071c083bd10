"""Identifiers shared by every layer. No behaviour, no imports from this package."""

from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
"""Where a record stands in its partition."""

Position = NewType("Position", int)
"""A byte of the journal, counted from the first byte ever written to it."""

Term = NewType("Term", int)
"""Leadership of a lane; a batch carries it as its leader epoch."""

ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
Sequence = NewType("Sequence", int)
TransactionalId = NewType("TransactionalId", str)
GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)

NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = Sequence(-1)

SEQUENCE_COUNT = 2**31  # Sequences run 0 .. 2**31 - 1 and then start again at 0.
EPOCH_MAX = ProducerEpoch(2**15 - 1)

CATALOGUE_LANE = 0
"""The lane that holds the topics, and says which nodes there are."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
"""Topics of the coordinators, which clients may read and not write."""

Buffer = bytes | bytearray | memoryview


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdAndEpoch(NamedTuple):
    """As whom a producer writes: brokers know a batch by these and its sequence."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
