"""What a frame may say besides record batches: topics, terms, producer ids, expiry.

A fact is stored in the journal and is the only way in which this part of the lane's state
changes, when it is new and when it is replayed.
"""

import msgspec

from semel.access.rules import StoredRule
from semel.transactions.key import TransactionKey


class Fact(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Opened(Fact, frozen=True):
    """A process has opened the journal; what it appends from here on belongs to `term`.

    Once the disk was named as well, which is the journal's own to know.
    """

    term: int


class ClusterNamed(Fact, frozen=True):
    """Said once, by the first process that opens the journal."""

    cluster_id: bytes


class Led(Fact, frozen=True):
    """Who has taken the journal by the fence of this epoch, and where other nodes find it.

    Said by every leader of a journal that others can take, before it serves anybody.
    """

    epoch: int
    node_id: int
    host: str
    port: int
    listeners: tuple[tuple[str, str, int], ...] = ()
    """Where clients do; versions before pass over it."""


class StandingBy(Fact, frozen=True):
    """Who stands by, as far as the leader hears; id, host and port of each. It replaces what was
    said before."""

    nodes: tuple[tuple[int, str, int], ...]
    listeners: tuple[tuple[int, str, str, int], ...] = ()
    """Id of the node, name, host and port of each listener; versions before pass over them."""


class LevelRaised(Fact, frozen=True):
    """Nodes may write from here on what versions cannot read that do not know this level. Never
    said of the first."""

    level: int


class LanesAdded(Fact, frozen=True):
    """There are so many lanes from here on, this one among them; there are never fewer. Said in
    lane 0 alone."""

    lane_count: int


class Placed(Fact, frozen=True):
    """Which node is to lead a lane. Only that node fences it; said in lane 0 alone.

    One that is pinned was placed by hand: it moves only if its node goes.
    """

    lane: int
    node_id: int
    is_pinned: bool = False


class LaneTaken(Fact, frozen=True):
    """As `Led` in the lane itself; said in lane 0, so that all nodes know of it."""

    lane: int
    epoch: int
    node_id: int
    host: str
    port: int


class TopicCreated(Fact, frozen=True):
    """Partition i lies in lane first_lane + (i mod lane_count): those of a topic that is pinned to
    a lane are spread over one.

    Those of the lane that says so take the numbers from `first_number` on.
    """

    name: str
    topic_id: bytes
    first_number: int
    partition_count: int
    config: dict[str, str]
    first_lane: int = 0
    lane_count: int = 1


class PartitionsAdded(Fact, frozen=True):
    """Partitions take the next numbers; a topic's numbers need not be neighbours."""

    name: str
    first_number: int
    partition_count: int


class PartitionsHosted(Fact, frozen=True):
    """What another lane's catalogue has placed here: partitions `indexes` of a topic that has
    `partition_count` by then."""

    name: str
    topic_id: bytes
    first_number: int
    indexes: tuple[int, ...]
    partition_count: int


class TopicDeleted(Fact, frozen=True):
    """Whatever the lane has of it is gone."""

    name: str


class TopicConfigured(Fact, frozen=True):
    name: str
    config: dict[str, str]


class BrokerConfigured(Fact, frozen=True):
    """What is set for a broker while it runs, by its number; for all of them, by an empty name."""

    name: str
    config: dict[str, str]


class RecordsDeleted(Fact, frozen=True):
    """The partition is shown from `log_start_offset` on."""

    partition_number: int
    log_start_offset: int


class ProducerIdTaken(Fact, frozen=True):
    producer_id: int


class ProducersExpired(Fact, frozen=True):
    """Whoever has written nothing since `before_ms` is forgotten, in all partitions.

    No longer written: what it takes grows with all there is.
    """

    before_ms: int


class ProducersForgotten(Fact, frozen=True):
    """A partition knows nothing of these any more, as they have been silent for long."""

    partition_number: int
    producer_ids: tuple[int, ...]


class Settled(Fact, frozen=True):
    """What lives on of the journal before `end` lies in volumes.

    Those `added` hold what lived of those `replaced`, which they follow in the journal's order; or,
    if none is replaced, of the journal from where it was settled before.
    """

    added: tuple[int, ...]
    replaced: tuple[int, ...]
    end: int
    names: tuple[str, ...] = ()
    """Of those added, where they lie in an object store; none where numbers name them."""


class Compacted(Fact, frozen=True):
    """What compaction has left of partitions lies in a volume."""

    volume: int
    parts: tuple[tuple[int, int, int], ...]
    """The number of each, the offset up to which this is so, and the bytes that are left."""
    name: str = ""
    """Of the volume, if it lies in an object store."""


class RetentionEnforced(Fact, frozen=True):
    """What topics keep no longer is deleted from here on. Versions before have kept all."""


class CopiedHere(Fact, frozen=True):
    """The batches of this frame were copied from another journal, and so is the state, which the
    checkpoint behind them holds. Between them offsets may be missing, as they were there."""


# Transactions that several lanes take part in


class LaneJoined(Fact, frozen=True):
    """Partitions of this lane take part in a transaction whose coordinator is in another lane."""

    key: TransactionKey
    transactional_id: str
    partitions: tuple[tuple[str, int], ...]


class Prepared(Fact, frozen=True):
    """What was written here of a transaction, if anything, stays until its outcome is known, and
    nothing is added to it."""

    key: TransactionKey
    transactional_id: str


class Doomed(Fact, frozen=True):
    """It was not told what was meant by a write here. It can only be aborted."""

    key: TransactionKey
    transactional_id: str


class Ended(Fact, frozen=True):
    """Its markers are in the same frame."""

    key: TransactionKey
    commit: bool


class Decided(Fact, frozen=True):
    """By this lane's coordinator, who keeps it until all these lanes have confirmed it: each with
    the term in which it has joined."""

    key: TransactionKey
    commit: bool
    producer_epoch: int
    coordinator_epoch: int
    lanes: tuple[tuple[int, int], ...]


class Confirmed(Fact, frozen=True):
    """That these have ended there can no longer be lost."""

    lane: int
    keys: tuple[TransactionKey, ...]


class EndsForgotten(Fact, frozen=True):
    """How the last transaction of these producers ended is of use to nobody any more."""

    producer_ids: tuple[int, ...]


# Who may come in


class CredentialSet(Fact, frozen=True):
    """Of a user, for one mechanism, in place of what was there; with Kafka's number of it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"CredentialSet(user={self.user!r}, mechanism={self.mechanism})"


class CredentialDropped(Fact, frozen=True):
    user: str
    mechanism: int


class SaltKeyDrawn(Fact, frozen=True):
    """From which the salts of users come that there are not."""

    key: bytes

    def __repr__(self) -> str:
        return "SaltKeyDrawn()"


class RulesAdded(Fact, frozen=True):
    """To the access list. Those that are there are no others."""

    rules: tuple[StoredRule, ...]


class RulesRemoved(Fact, frozen=True):
    """Those that are there."""

    rules: tuple[StoredRule, ...]


class QuotasSet(Fact, frozen=True):
    """All quotas that are set for an entity: a user, a client id or both, or an address. A part
    that is None is not said, an empty one is for all who have none of their own."""

    user: str | None
    client_id: str | None
    ip: str | None
    values: dict[str, float]


AboutAccess = (
    CredentialSet | CredentialDropped | SaltKeyDrawn | RulesAdded | RulesRemoved | QuotasSet
)
"""What versions before cannot read."""

SECRETS: dict[type[Fact], frozenset[str]] = {
    CredentialSet: frozenset({"salt", "stored_key", "server_key"}),
    SaltKeyDrawn: frozenset({"key"}),
}
"""Fields that are shown to nobody."""

AboutLanes = LaneJoined | Prepared | Doomed | Ended | Decided | Confirmed | EndsForgotten

AnyFact = (
    Opened
    | ClusterNamed
    | Led
    | StandingBy
    | LevelRaised
    | LanesAdded
    | Placed
    | LaneTaken
    | TopicCreated
    | PartitionsAdded
    | PartitionsHosted
    | TopicDeleted
    | TopicConfigured
    | BrokerConfigured
    | RecordsDeleted
    | ProducerIdTaken
    | ProducersExpired
    | ProducersForgotten
    | Settled
    | Compacted
    | RetentionEnforced
    | CopiedHere
    | LaneJoined
    | Prepared
    | Doomed
    | Ended
    | Decided
    | Confirmed
    | EndsForgotten
    | CredentialSet
    | CredentialDropped
    | SaltKeyDrawn
    | RulesAdded
    | RulesRemoved
    | QuotasSet
)

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyFact).decode
