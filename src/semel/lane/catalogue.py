"""The catalogue of topics: a state machine of its own, which lives in lane 0.

It knows which topics there are, their settings, and in which lane each partition lies. What is in
a partition its lane knows. Law: it changes only when a fact is applied.
"""

from collections.abc import Callable, Iterator
from typing import Final, assert_never

from semel.errors import InvalidConfig, InvalidPartitions, UnknownTopicOrPartition
from semel.lane import facts
from semel.lane.sorted_names import SortedNames
from semel.types import INTERNAL_TOPICS

PARTITION_COUNT_MAX: Final = 100_000
CONFIG_SIZE_MAX: Final = 32 * 2**10
"""Bytes of all settings of a topic; every checkpoint holds them."""
TOPIC_ID_SIZE: Final = 16

CatalogueFact = (
    facts.TopicCreated | facts.PartitionsAdded | facts.TopicDeleted | facts.TopicConfigured
)


class Topic:
    __slots__ = (
        "batch_size_max",
        "config",
        "first_lane",
        "is_compacted",
        "is_internal",
        "is_log_append_time",
        "lane_count",
        "name",
        "partition_count",
        "topic_id",
    )

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        config: dict[str, str],
        partition_count: int = 0,
        first_lane: int = 0,
        lane_count: int = 1,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_count = partition_count
        self.first_lane = first_lane
        self.lane_count = lane_count
        self.is_internal = name in INTERNAL_TOPICS
        self.configure(config)

    def configure(self, config: dict[str, str]) -> None:
        self.config = config
        """Only what was set for this topic; defaults are the broker's."""
        limit = config.get("max.message.bytes")
        self.batch_size_max = None if limit is None else int(limit)
        self.is_log_append_time = config.get("message.timestamp.type") == "LogAppendTime"
        policy = config.get("cleanup.policy")
        self.is_compacted = None if policy is None else "compact" in policy
        """None: as the broker's default says."""

    def lane_of(self, index: int) -> int:
        """The number of the lane that partition `index` lies in. Nobody else knows the rule."""
        return self.first_lane + index % self.lane_count

    def indexes_in(self, lane_number: int, first_index: int = 0) -> range:
        """The partitions from `first_index` on that lie in a lane."""
        if not 0 <= lane_number - self.first_lane < self.lane_count:
            return range(0)
        ahead = (lane_number - self.lane_of(first_index)) % self.lane_count
        return range(first_index + ahead, self.partition_count, self.lane_count)


def topic_created(fact: facts.TopicCreated) -> Topic:
    return Topic(
        fact.name,
        fact.topic_id,
        fact.config,
        fact.partition_count,
        fact.first_lane,
        fact.lane_count,
    )


class Catalogue:
    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._names = SortedNames()
        self.on_change: Callable[[str], object] | None = None
        """Told of the topic that a fact is about, by its name."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def walk(self, first: str = "") -> Iterator[Topic]:
        """In the order of their names, from this one on; others may come and go meanwhile."""
        for name in self._names.walk(first):
            topic = self._by_name.get(name)
            if topic is not None:
                yield topic

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def named(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        return topic

    def has_partition(self, name: str, index: int) -> bool:
        topic = self._by_name.get(name)
        return topic is not None and 0 <= index < topic.partition_count

    def add(self, topic: Topic) -> None:
        if topic.name not in self._by_name:
            self._names.add(topic.name)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def remove(self, name: str) -> None:
        """Forget the topic of this name, if there is one."""
        topic = self._by_name.pop(name, None)
        if topic is not None:
            del self._by_id[topic.topic_id]
            self._names.remove(name)

    def apply(self, fact: CatalogueFact) -> None:
        match fact:
            case facts.TopicCreated():
                self.add(topic_created(fact))
            case facts.PartitionsAdded():
                self._by_name[fact.name].partition_count += fact.partition_count
            case facts.TopicConfigured():
                self._by_name[fact.name].configure(fact.config)
            case facts.TopicDeleted():
                assert fact.name in self._by_name
                self.remove(fact.name)
            case _:
                assert_never(fact)
        if self.on_change is not None:
            self.on_change(fact.name)


def check_partition_count(count: int) -> None:
    if count < 1:
        raise InvalidPartitions(f"{count} partitions: a topic needs at least one")
    if count > PARTITION_COUNT_MAX:
        raise InvalidPartitions(f"{count} partitions: more than {PARTITION_COUNT_MAX}")


def check_config_size(config: dict[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in config.items())
    if size > CONFIG_SIZE_MAX:
        raise InvalidConfig(f"the settings have {size} bytes, more than {CONFIG_SIZE_MAX}")
