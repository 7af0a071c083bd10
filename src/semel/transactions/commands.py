"""What is asked of a transaction, and what a decision about it consists of."""

from typing import Final, NamedTuple

from semel.errors import RequestError
from semel.transactions.dialect import Dialect
from semel.transactions.transaction import Transaction
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)


class TransactionSettings(NamedTuple):
    """Named after Kafka's `transaction.*` settings."""

    timeout_ms_max: int = 15 * 60_000


DEFAULT_SETTINGS: Final = TransactionSettings()


class Context:
    """What decisions are made with, besides the transaction and the command. No tuple, which takes
    longer to make, also where all else is compiled."""

    __slots__ = (
        "has_unheard_abort",
        "lane",
        "next_producer_id",
        "settings",
        "term",
        "wall_ms",
    )

    def __init__(
        self,
        wall_ms: int,
        term: Term,
        next_producer_id: ProducerId,
        settings: TransactionSettings = DEFAULT_SETTINGS,
        lane: int = 0,
        has_unheard_abort: bool = False,
    ) -> None:
        self.wall_ms: Final = wall_ms
        """What values say of when they were written. Nothing is decided by it."""
        self.term: Final = term
        self.next_producer_id: Final = next_producer_id
        """One that was never given; a decision that takes it says so."""
        self.settings: Final = settings
        self.lane: Final = lane
        """Of the coordinator."""
        self.has_unheard_abort: Final = has_unheard_abort
        """A lane may hold requests of an aborted transaction of this producer, and does not know
        it yet."""


class InitProducer(NamedTuple):
    """A new incarnation, or, with the producer id and epoch it has, one that recovers (KIP-360)."""

    transactional_id: TransactionalId
    timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class AddPartitions(NamedTuple):
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    dialect: Dialect = Dialect.TV1
    was_told: bool = False
    """Whether this very client has heard that its epoch is spent."""
    lanes: frozenset[int] = frozenset()
    """Those of the partitions that lie in other lanes than the coordinator's."""


class AddOffsets(NamedTuple):
    """`partition_index` counts in `__consumer_offsets`: where the group's offsets are."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partition_index: int
    dialect: Dialect = Dialect.TV1
    was_told: bool = False
    lanes: frozenset[int] = frozenset()


class Join(NamedTuple):
    """A first write has come to partitions that lie in another lane. Whoever leads that asks before
    it appends anything."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    dialect: Dialect
    lane: int
    lane_term: Term


class WriteRecords(NamedTuple):
    """A Produce: under TV1 into partitions that were added, under TV2 they join by it."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    dialect: Dialect


class WriteOffsets(NamedTuple):
    """A TxnOffsetCommit, as `WriteRecords` for a partition of `__consumer_offsets`."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partition_index: int
    dialect: Dialect


class End(NamedTuple):
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commit: bool
    dialect: Dialect
    asks_by_aborting: bool = False
    """Whether the client asks for a new epoch if it cannot abort under the one it has."""


class Doom(NamedTuple):
    """A batch came whose sequences were taken with other records: nobody knows what is meant."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class Abort(NamedTuple):
    """The timer has rung, or an operator has said so."""


class RaiseTerm(NamedTuple):
    """Acknowledged writes may be lost: abort what is open, complete what is decided."""


class Complete(NamedTuple):
    """Every partition of a prepared transaction has its marker, or gets it in the same frame, or is
    told by its own lane: all of these are sure to have what was written."""


class VoteDown(NamedTuple):
    """A lane is not sure to have what was written there, so that nothing may be committed."""


class BeginAnew(NamedTuple):
    """The rest of an InitProducer that had to end a transaction first, whose end has already
    brought the new epoch."""

    last_producer_epoch: ProducerEpoch
    timeout_ms: int


class ForgetTopic(NamedTuple):
    """It is being deleted, so that no marker can be written to its partitions."""

    topic: str


class ExpireId(NamedTuple):
    """The id has been idle for long enough; without effect while a transaction is open."""


Command = (
    InitProducer
    | AddPartitions
    | AddOffsets
    | Join
    | WriteRecords
    | WriteOffsets
    | End
    | Doom
    | Abort
    | RaiseTerm
    | Complete
    | VoteDown
    | BeginAnew
    | ForgetTopic
    | ExpireId
)


class Markers(NamedTuple):
    """How a transaction ended, to be told every partition that took part."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commit: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: Term
    """The term of the coordinator that says so. A marker carries it, besides the term of the
    partition that it stands in, which may be another lane's."""


class Decision:
    """All of it belongs into one frame: the values in their order, the markers, the producer id.

    If the last value is prepared, what was asked for is done when it has been completed.
    """

    __slots__ = (
        "markers",
        "producer_epoch",
        "producer_id",
        "refusal",
        "taken_producer_id",
        "then",
        "values",
    )

    def __init__(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        values: tuple[Transaction, ...] = (),
        markers: Markers | None = None,
        taken_producer_id: ProducerId | None = None,
        refusal: RequestError | None = None,
        then: BeginAnew | None = None,
    ) -> None:
        self.producer_id: Final = producer_id
        self.producer_epoch: Final = producer_epoch
        """With `producer_id`, what InitProducerId and EndTxn hand out."""
        self.values: Final = values
        self.markers: Final = markers
        self.taken_producer_id: Final = taken_producer_id
        self.refusal: Final = refusal
        """Answered although something is written: the transaction was doomed."""
        self.then: Final = then
        """What follows the completion."""
