"""What a frame may say besides record batches: topics, terms, producer ids, expiry.

A fact is stored in the journal and is the only way in which this part of the lane's state
changes, when it is new and when it is replayed.
"""

import msgspec

from semel.journal.device import DiskIdentity
from semel.lane.frame import ENTRY_SIZE


class Fact(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Opened(Fact, frozen=True):
    """A process has opened the journal; what it appends from here on belongs to `term`."""

    term: int
    identity: DiskIdentity


class ClusterNamed(Fact, frozen=True):
    """Said once, by the first process that opens the journal."""

    cluster_id: bytes


class TopicCreated(Fact, frozen=True):
    name: str
    topic_id: bytes
    first_number: int
    partition_count: int
    config: dict[str, str]


class PartitionsAdded(Fact, frozen=True):
    """Partitions take the next numbers; a topic's numbers need not be neighbours."""

    name: str
    first_number: int
    partition_count: int


class TopicDeleted(Fact, frozen=True):
    name: str


class TopicConfigured(Fact, frozen=True):
    name: str
    config: dict[str, str]


class RecordsDeleted(Fact, frozen=True):
    """The partition is shown from `log_start_offset` on."""

    partition_number: int
    log_start_offset: int


class ProducerIdTaken(Fact, frozen=True):
    producer_id: int


class ProducersExpired(Fact, frozen=True):
    """Whoever has written nothing since `before_ms` is forgotten."""

    before_ms: int


AnyFact = (
    Opened
    | ClusterNamed
    | TopicCreated
    | PartitionsAdded
    | TopicDeleted
    | TopicConfigured
    | RecordsDeleted
    | ProducerIdTaken
    | ProducersExpired
)

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyFact).decode


def size_in_frame(*said: AnyFact) -> int:
    """Bytes that these facts take in a frame."""
    return sum(ENTRY_SIZE + len(encode(fact)) for fact in said)
