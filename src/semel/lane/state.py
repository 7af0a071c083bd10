"""The lane's lasting state: what one gets by applying its frames in order.

Live and at recovery the same methods change it, so that a process that lived and one that has
replayed the journal agree. Nothing here decides or waits.
"""

from typing import assert_never

from semel.groups.coordinator import Groups
from semel.journal.device import DiskIdentity
from semel.lane import facts
from semel.lane.topics import Topic
from semel.log.partition import Partition
from semel.transactions.store import Transactions
from semel.types import Offset, ProducerId, Term, TopicPartition
from semel.world import Moment


class LaneState:
    def __init__(self, groups: Groups, transactions: Transactions) -> None:
        self.term = Term(-1)  # No process has opened the journal yet.
        self.identity: DiskIdentity | None = None
        self.last_moment: Moment | None = None
        """When the last frame was made; None if nothing says so."""
        self.wall_ahead_ms = 0
        """By how much the wall clock was ahead of the lane's time when it last showed more than in
        all frames before. A clock that was set back shows nothing new, and tells nothing."""
        self.cluster_id = b""
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.partitions: dict[int, Partition] = {}
        self.next_partition_number = 0
        self.next_producer_id = ProducerId(0)
        self.groups = groups
        self.transactions = transactions

    def passed(self, at: Moment) -> None:
        """A frame was made then."""
        if self.last_moment is None or at.wall_ms > self.last_moment.wall_ms:
            self.wall_ahead_ms = at.wall_ms - at.now_ms
        self.last_moment = at

    def apply(self, fact: facts.AnyFact) -> None:
        match fact:
            case facts.Opened():
                self.term = Term(fact.term)
                self.identity = fact.identity
            case facts.ClusterNamed():
                self.cluster_id = fact.cluster_id
            case facts.TopicCreated():
                topic = Topic(fact.name, fact.topic_id, fact.config)
                self.add_topic(topic)
                self._add_partitions(topic, fact.first_number, fact.partition_count)
            case facts.PartitionsAdded():
                self._add_partitions(
                    self.topics[fact.name], fact.first_number, fact.partition_count
                )
            case facts.TopicDeleted():
                self._delete_topic(fact.name)
            case facts.TopicConfigured():
                self.topics[fact.name].configure(fact.config)
            case facts.RecordsDeleted():
                partition = self.partitions[fact.partition_number]
                partition.delete_before(Offset(fact.log_start_offset))
            case facts.ProducerIdTaken():
                self.next_producer_id = ProducerId(fact.producer_id + 1)
            case facts.ProducersExpired():
                for partition in self.partitions.values():
                    partition.expire_producers(fact.before_ms)
            case _:
                assert_never(fact)

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic

    def add_partition(self, topic: Topic, number: int) -> Partition:
        partition = Partition(TopicPartition(topic.name, len(topic.partitions)), number)
        topic.partitions.append(partition)
        self.partitions[number] = partition
        self.next_partition_number = max(self.next_partition_number, number + 1)
        return partition

    def _add_partitions(self, topic: Topic, first_number: int, count: int) -> None:
        for number in range(first_number, first_number + count):
            self.add_partition(topic, number)

    def _delete_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        del self.topics_by_id[topic.topic_id]
        for partition in topic.partitions:
            del self.partitions[partition.number]
