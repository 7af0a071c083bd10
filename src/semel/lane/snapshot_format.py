"""What a snapshot of a lane consists of, as bytes: its pieces, each with its size before it.

    format 1 | { size 4 | piece }*

Taken by `snapshot.py`, read by `restoring.py`, which knows the earlier formats as well.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from semel.access.rules import StoredRule
from semel.groups.lasting import GroupsSnapshot
from semel.lane import facts
from semel.lane.joined import JoinedTransaction, LastEnded
from semel.log.partition import TermStart
from semel.log.producers import Restart, TakenBatch, TransactionStart
from semel.log.snapshot import PartitionTransactionsSnapshot
from semel.transactions.participants import Participants
from semel.transactions.transaction import TransactionsSnapshot

FORMAT: Final = 7

FORMAT_OF_LANES: Final = 6
"""Written while there is nothing about who may come in, as versions before read it."""

FORMAT_OF_ONE_LANE: Final = 5
"""Written while there is nothing about transactions over lanes besides."""

SIZE: Final = struct.Struct("<I")


class Stored(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Without garbage tracking: these are many, live for a moment and hold no cycle."""


class ProducerSnapshot(Stored, frozen=True):
    producer_id: int
    epoch: int
    active_at_ms: int
    taken: tuple[TakenBatch, ...]
    restart: Restart | None
    transaction_start: TransactionStart | None


class PartitionSnapshot(Stored, frozen=True):
    number: int
    log_start_offset: int
    log_end_offset: int
    term_starts: list[TermStart]
    transactions: PartitionTransactionsSnapshot
    producers: list[ProducerSnapshot]
    """Those that fit into the piece; the others follow in pieces of their own."""


class TopicSnapshot(Stored, frozen=True):
    name: str
    topic_id: bytes
    config: dict[str, str]
    partition_numbers: list[int]
    """Of the partitions that lie in this lane, as many as fit into the piece; the others follow
    under the same name."""
    indexes: list[int] | None = None
    """Of these in the topic; None: all there are, in their order."""
    partition_count: int | None = None
    """With those that lie in other lanes; None: there are none."""
    first_lane: int = 0
    lane_count: int = 1
    hosted_id: bytes = b""
    """Of a topic whose catalogue lies in another lane; `topic_id` is empty then."""


class LanePiece(Stored, frozen=True, tag="lane"):
    """What is not a collection. The first piece."""

    term: int
    cluster_id: bytes
    next_partition_number: int
    next_producer_id: int
    last_moment: tuple[int, int] | None
    """Of the last frame, the lane's time and the wall clock."""
    wall_ahead_ms: int | None
    """None if the last frame says it."""
    volumes: list[int] = []
    """From here on not there up to format 4."""
    settled_end: int = 0
    next_volume: int = 0
    is_retention_enforced: bool = False
    led: tuple[int, int, str, int] | None = None
    """Epoch, node, host and port of the leader, where there may be others."""
    standing_by: tuple[tuple[int, str, int], ...] = ()
    level: int = 1
    volume_names: dict[int, str] = {}
    lane_count: int = 1
    """This and what follows only in lane 0 of a cluster."""
    placed: tuple[tuple[int, int, bool], ...] = ()
    """Lane, node, and whether it is pinned there."""
    taken: tuple[tuple[int, int, int, str, int], ...] = ()
    """Lane, epoch, node, host and port of each leader."""
    listeners_of_leader: tuple[tuple[str, str, int], ...] = ()
    listeners_standing_by: tuple[tuple[int, str, str, int], ...] = ()


class CompactedPiece(Stored, frozen=True, tag="compacted"):
    """What compaction has left of partitions: number, end, volume and bytes of each."""

    parts: Sequence[tuple[int, int, int, int]]
    volumes: dict[int, int]


class TopicsPiece(Stored, frozen=True, tag="topics"):
    topics: list[TopicSnapshot]


class PartitionsPiece(Stored, frozen=True, tag="partitions"):
    partitions: list[PartitionSnapshot]


class ProducersPiece(Stored, frozen=True, tag="producers"):
    partition_number: int
    producers: list[ProducerSnapshot]


class GroupsPiece(Stored, frozen=True, tag="groups"):
    groups: GroupsSnapshot


class TransactionsPiece(Stored, frozen=True, tag="transactions"):
    transactions: TransactionsSnapshot


class JoinedPiece(Stored, frozen=True, tag="joined"):
    """Only there if something was said of transactions over lanes."""

    joined: Sequence[JoinedTransaction] = ()
    ended: Sequence[tuple[int, LastEnded]] = ()
    decided: Sequence[facts.Decided] = ()


class BrokerConfigsPiece(Stored, frozen=True, tag="broker configs"):
    """Only there if something was set."""

    configs: dict[str, dict[str, str]]


class UsersPiece(Stored, frozen=True, tag="users"):
    """Only there if there are users, or were."""

    salt_key: bytes
    credentials: Sequence[facts.CredentialSet] = ()

    def __repr__(self) -> str:
        return f"UsersPiece({len(self.credentials)} credentials)"


class RulesPiece(Stored, frozen=True, tag="rules"):
    """Only there if the access list has any."""

    rules: Sequence[StoredRule]


class QuotasPiece(Stored, frozen=True, tag="quotas"):
    """Only there if there are any."""

    quotas: Sequence[facts.QuotasSet]


Piece = (
    LanePiece
    | CompactedPiece
    | TopicsPiece
    | PartitionsPiece
    | ProducersPiece
    | GroupsPiece
    | TransactionsPiece
    | JoinedPiece
    | BrokerConfigsPiece
    | UsersPiece
    | RulesPiece
    | QuotasPiece
)


def _plain(thing: object) -> object:
    assert isinstance(thing, Participants), thing
    return list(thing)


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
decode_piece = msgspec.msgpack.Decoder(Piece).decode


def framed(piece: Piece) -> bytes:
    encoded = _encode(piece)
    return SIZE.pack(len(encoded)) + encoded
