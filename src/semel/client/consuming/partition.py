"""One partition of a consumer: where it stands, who leads it, and what was fetched of it."""

import enum
from collections import deque
from collections.abc import Iterable
from operator import index
from typing import NamedTuple

from semel.client.connecting.topic_ids import NO_ID
from semel.client.consuming.completed_fetch import NO_EPOCH, CompletedFetch
from semel.types import TopicPartition


def as_topic_partitions(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    """As the application names them: pairs of a topic and a number will do."""
    try:
        named = frozenset(TopicPartition(topic, index(number)) for topic, number in partitions)
    except (TypeError, ValueError):
        raise TypeError(
            f"partitions are named by TopicPartition, not by {partitions!r:.100}"
        ) from None
    for partition in named:
        if not isinstance(partition.topic, str):
            raise TypeError(f"a topic is named by a str, not {partition.topic!r}")
    return named


class Want(enum.Enum):
    """What is to be found out before a partition can be read."""

    COMMITTED = "committed"
    EARLIEST = "earliest"
    LATEST = "latest"
    CHECK = "check"
    """Whether the log still has what was read, now that another leads it."""
    SEEK = "seek"
    """Nothing: only the application can say where to go on."""


class Spot(NamedTuple):
    """A position as it was when a question about it was asked."""

    partition: TopicPartition
    version: int
    offset: int
    epoch: int
    leader_epoch: int
    want: Want | None
    topic_id: bytes = NO_ID


class Position(NamedTuple):
    offset: int
    epoch: int = NO_EPOCH
    topic_id: bytes = NO_ID
    """Of the topic that it was read in, if that is known."""


class PartitionState:
    def __init__(self, partition: TopicPartition, version: int, want: Want) -> None:
        self.partition = partition
        self.version = version
        self.want: Want | None = want
        self.offset = -1
        self.epoch = NO_EPOCH
        self.checked_epoch = NO_EPOCH
        self.leader_id: int | None = None
        self.leader_epoch = NO_EPOCH
        self.topic_id = NO_ID
        """Of the topic, as it was last described."""
        self.was_read = False
        """Whether the topic with this id was read at this position, so that it is one of its own:
        what is described may be older than the position."""
        self.is_paused = False
        self.is_queued = False
        self.fetches: deque[CompletedFetch] = deque()

    @property
    def is_readable(self) -> bool:
        return self.want is None and not self.is_paused

    @property
    def buffered_size(self) -> int:
        return sum(fetched.size for fetched in self.fetches)

    def spot(self) -> Spot:
        offset = self.fetches[-1].next_offset if self.fetches else self.offset
        return Spot(
            self.partition,
            self.version,
            offset,
            self.epoch,
            self.leader_epoch,
            self.want,
            self.topic_id,
        )
