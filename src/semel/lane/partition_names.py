"""Which partition a number in a frame means, for who reads a journal without opening it."""

from semel.groups.coordinator import Groups
from semel.groups.settings import GroupSettings
from semel.lane import facts, restoring
from semel.lane.catalogue import Topic, topic_created
from semel.lane.facts import AnyFact
from semel.lane.state import LaneState
from semel.transactions.store import Transactions
from semel.types import CATALOGUE_LANE, TopicPartition


def restored(stored: bytes) -> LaneState:
    """Raises CorruptJournal and NewerFormat."""
    restoring.refuse_newer(stored)
    state = LaneState(Groups(GroupSettings()), Transactions())
    restoring.restore(stored, state)
    return state


class PartitionNames:
    """Numbers are given once, so that those of deleted topics keep their names."""

    def __init__(self) -> None:
        self._names: dict[int, TopicPartition] = {}
        self._topics: dict[str, Topic] = {}

    def of(self, number: int) -> str:
        name = self._names.get(number)
        return f"partition number {number}" if name is None else str(name)

    def numbers_of(self, topic: str) -> set[int]:
        return {number for number, name in self._names.items() if name.topic == topic}

    def numbered(self, partition: str) -> list[int]:
        """The numbers of the partitions that had this name, one after the other."""
        return sorted(number for number, name in self._names.items() if str(name) == partition)

    def all(self) -> set[str]:
        """The partitions that there are, or were: also those that were never written to."""
        written = {str(name) for name in self._names.values()}
        return written | {
            str(TopicPartition(topic.name, index))
            for topic in self._topics.values()
            for index in range(topic.partition_count)
        }

    def learn_from(self, state: LaneState) -> None:
        for number, partition in state.partitions.items():
            self._names[number] = partition.topic_partition
        self._topics |= {topic.name: topic for topic in state.catalogue}

    def learn(self, fact: AnyFact) -> None:
        """Take the names that this fact tells. One that builds on a fact that was lost tells
        nothing."""
        match fact:
            case facts.TopicCreated():
                self._topics[fact.name] = topic_created(fact)
                self._add(fact.name, 0, fact.partition_count, fact.first_number)
            case facts.PartitionsAdded():
                topic = self._topics.get(fact.name)
                # What is known already may be known from a later state.
                if topic is not None and fact.first_number not in self._names:
                    first = topic.partition_count
                    self._add(fact.name, first, fact.partition_count, fact.first_number)
            case facts.PartitionsHosted():
                for number, index in enumerate(fact.indexes, fact.first_number):
                    self._names[number] = TopicPartition(fact.name, index)
            case _:
                pass

    def _add(self, name: str, first_index: int, count: int, first_number: int) -> None:
        topic = self._topics[name]
        topic.partition_count = first_index + count
        indexes = topic.indexes_in(CATALOGUE_LANE, first_index)
        for number, index in enumerate(indexes, first_number):
            self._names[number] = TopicPartition(name, index)
