"""What a listener has done so far, counted; the numbers behind the live view."""

import enum
from dataclasses import dataclass, field

from semel.types import TopicPartition


class ListenerState(enum.Enum):
    JOINING = "joining"
    IDLE = "idle"
    WORKING = "working"
    RESTING = "backing off"
    PAUSED = "paused"
    WAITING = "waiting for the cluster"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


_TELLING = (
    ListenerState.FAILED,
    ListenerState.WAITING,
    ListenerState.RESTING,
    ListenerState.WORKING,
    ListenerState.PAUSED,
    ListenerState.JOINING,
    ListenerState.STOPPING,
    ListenerState.IDLE,
    ListenerState.STOPPED,
)
"""What one of the members is in says more than what the others are in, in this order."""


@dataclass
class Counts:
    """Of one member, or added up."""

    records: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    retries: int = 0
    dead_letters: int = 0
    state: ListenerState = ListenerState.JOINING
    lag: int = 0
    """How many records are waiting in the partitions of the member."""
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    trouble: str | None = None
    """Why nothing could be delivered of late."""
    cycles: int = 0
    """Of polling, working and delivering."""
    cycle_seconds: float = 0.0
    """What they took, without the polling."""


def added(counts: list[Counts]) -> Counts:
    """The members of a listener as one."""
    return Counts(
        records=sum(each.records for each in counts),
        cycles=sum(each.cycles for each in counts),
        cycle_seconds=sum(each.cycle_seconds for each in counts),
        transactions_committed=sum(each.transactions_committed for each in counts),
        transactions_aborted=sum(each.transactions_aborted for each in counts),
        retries=sum(each.retries for each in counts),
        dead_letters=sum(each.dead_letters for each in counts),
        state=min((each.state for each in counts), key=_TELLING.index),
        lag=sum(each.lag for each in counts),
        partitions=frozenset().union(*(each.partitions for each in counts)),
        trouble=next((each.trouble for each in counts if each.trouble), None),
    )
