"""What a command is: a value that decides, on a lane's state, which frame follows.

Law: `decide` changes nothing. It gives a frame and a reply, or it raises a refusal; the lane then
makes room for the frame, appends it and applies it. So a refusal of any kind leaves no trace, and
what room is needed is never guessed.

A frame has a claim on the journal's room. On a full disk three things must still be possible: to
open the journal, to end every transaction that is open, and to end what else can be ended. The
bytes of the second are known: they are owed from the moment a partition joins. Law: whatever is
appended that is not owed leaves room for all that is owed, and for the next process to open the
journal.
"""

import enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from semel.errors import CoordinatorNotAvailable
from semel.groups.deciding import GroupDecision
from semel.groups.settings import GroupSettings
from semel.journal.seam import Limits
from semel.lane import facts
from semel.lane.catalogue import TOPIC_ID_SIZE, Topic, topic_created
from semel.lane.frame import Frame, Learned
from semel.lane.state import LaneState
from semel.records import batch as record_batch
from semel.records.partitioning import partition_for
from semel.transactions.commands import TransactionSettings
from semel.types import CATALOGUE_LANE, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Offset, Term
from semel.world import Moment, Randomness

R = TypeVar("R")


class ExpirySettings(NamedTuple):
    """Named after Kafka's settings."""

    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    transactional_id_expiration_ms: int = 604_800_000
    transactional_id_cleanup_interval_ms: int = 3_600_000


class SettlingSettings(NamedTuple):
    journal_bytes_min: int = 2**30
    """Of sealed segments. While there is less, what lives stays where it is."""
    volume_bytes: int = 2**30
    """Of the segments that one volume is made of."""
    small_share: int = 16
    """A volume of less than this part of a whole one is small, and joins its neighbours."""
    joined_share: int = 16
    """Small ones become one when they are this part of a whole one together."""
    leaves_what_dies: bool = True
    """Where it is dear to keep what is not settled, also that is which will go by itself."""


class LaneSettings(NamedTuple):
    groups: GroupSettings
    offsets_partition_count: int = 50
    transactions: TransactionSettings = TransactionSettings()
    transactions_partition_count: int = 50
    expiry: ExpirySettings = ExpirySettings()
    settling: SettlingSettings = SettlingSettings()


class Environment(NamedTuple):
    """What decisions are made with, besides the state and the time."""

    settings: LaneSettings
    randomness: Randomness
    limits: Limits
    lane_count: int = 1


class Claim(enum.Enum):
    ORDINARY = enum.auto()
    """Whatever begins something or adds to it. It leaves the whole headroom."""
    ENDING = enum.auto()
    """What ends or frees something that is there, so that it cannot be repeated for ever, and where
    a clock was set to. It uses the headroom, but for the part that opening needs."""
    OWED = enum.auto()
    """The end of an open transaction, and opening. All there is may be used."""


ORDINARY: Final = Claim.ORDINARY
OWED: Final = Claim.OWED
"""By names of their own, as a member is looked up in its enumeration each time."""


def kept_size(claim: Claim, owed_size: int, limits: Limits) -> int:
    """Bytes of frames that must fit behind a step, if `owed_size` bytes are owed then."""
    if claim is ORDINARY:
        return limits.headroom + owed_size
    return 0 if claim is OWED else limits.opening_bytes + owed_size


class Decided(Generic[R]):
    __slots__ = ("claim", "frame", "owed_change", "reply", "room_needed", "volatile")

    def __init__(
        self,
        reply: R,
        frame: Frame | None = None,
        claim: Claim = Claim.ORDINARY,
        owed_change: int = 0,
        volatile: GroupDecision | None = None,
        room_needed: int = 0,
    ) -> None:
        self.reply = reply
        self.frame = frame
        """None, or one without entries, if nothing is to be written."""
        self.claim = claim
        self.owed_change = owed_change
        """What it adds to the bytes that open transactions take to be ended."""
        self.volatile = volatile
        """What becomes of members and their sessions, once the frame is appended."""
        self.room_needed = room_needed
        """Bytes that must fit although nothing is written yet."""


class Command(Protocol[R]):
    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[R]: ...


# Internal topics

_COMPRESSION: Final = {OFFSETS_TOPIC: "producer", TRANSACTIONS_TOPIC: "uncompressed"}


def internal_partition_count(state: LaneState, name: str, environment: Environment) -> int:
    """As many as the topic has, or will have when it is made."""
    known = state.partition_counts.get(name)
    if known is not None:
        return known
    settings = environment.settings
    if name == OFFSETS_TOPIC:
        return settings.offsets_partition_count
    return settings.transactions_partition_count


def placed_internal_topic(name: str, partition_count: int, lane_count: int) -> Topic:
    """Where its partitions lie, or will when it is made."""
    return Topic(name, b"", {}, partition_count, 0, lane_count)


def internal_topic(
    state: LaneState, name: str, environment: Environment
) -> facts.TopicCreated | None:
    """The fact that makes the topic of a coordinator, if it is not there yet.

    The catalogue makes it; another lane has to wait until it is told what lies there.
    """
    if name in state.partition_counts:
        return None
    if state.lane_number != CATALOGUE_LANE:
        raise CoordinatorNotAvailable(f"lane {state.lane_number} has no part of {name} yet")
    return facts.TopicCreated(
        name,
        environment.randomness.token_bytes(TOPIC_ID_SIZE),
        state.next_partition_number,
        internal_partition_count(state, name, environment),
        {"cleanup.policy": "compact", "compression.type": _COMPRESSION[name]},
        0,
        max(environment.lane_count, state.lanes.count),
    )


class InternalTopic:
    """A topic of a coordinator as a frame will find it, which may be made by that very frame."""

    def __init__(self, state: LaneState, name: str, environment: Environment, frame: Frame) -> None:
        self.partition_count = internal_partition_count(state, name, environment)
        self._state = state
        self._name = name
        self._frame = frame
        self._creation: facts.TopicCreated | None = None
        if name not in state.partition_counts:
            for entry in frame.entries:
                if isinstance(entry, facts.TopicCreated) and entry.name == name:
                    self._creation = entry
                    return
            self._creation = internal_topic(state, name, environment)
            assert self._creation is not None
            frame.add_fact(self._creation)

    def index_for(self, key: str) -> int:
        return partition_for(key, self.partition_count)

    def add(self, index: int, term: Term, batch: bytes, learned: Learned) -> None:
        """The next batch of its partition `index`."""
        view = memoryview(batch)
        header = record_batch.read(view)
        number, end = self._next_of(index)
        frame = self._frame
        base_offset = frame.next_offset(number, end)
        frame.add_batch(number, base_offset, term, header, header.checksum, view, learned=learned)

    def _next_of(self, index: int) -> tuple[int, Offset]:
        if self._creation is not None:
            here = topic_created(self._creation).indexes_in(self._state.lane_number)
            return self._creation.first_number + here.index(index), Offset(0)
        partition = self._state.partition(self._name, index)
        assert partition is not None, f"{self._name}-{index} does not lie in this lane"
        return partition.number, partition.log_end_offset
