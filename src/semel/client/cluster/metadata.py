"""What a cluster says of itself: its brokers, its topics, and who leads which partition."""

from collections.abc import Mapping
from typing import NamedTuple

from semel.client.cluster.calls import refusal
from semel.client.connecting.address import Address
from semel.errors import LeaderNotAvailable, RequestError, UnknownTopicId, UnknownTopicOrPartition
from semel.types import TopicPartition
from semel.wire.messages import metadata as wire

NO_NODE = -1


class TopicRemade(UnknownTopicId):
    """A topic was deleted, so that what was said of it tells nothing of another of its name."""

    retriable = False

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name} was deleted meanwhile; one of this name is another one")
        self.name = name

    def __reduce__(self) -> tuple[type["TopicRemade"], tuple[str]]:
        return TopicRemade, (self.name,)


class TopicGone(UnknownTopicOrPartition):
    """A topic does not exist, of which offsets are to be committed; it is one that was read."""


class PartitionMetadata(NamedTuple):
    partition: int
    leader_id: int
    leader_epoch: int
    replica_ids: tuple[int, ...]
    in_sync_replica_ids: tuple[int, ...]


class TopicMetadata(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    """In the order of their numbers, which have no gaps."""

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, each.partition) for each in self.partitions]


class ClusterMetadata(NamedTuple):
    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicMetadata]
    refused: Mapping[str, RequestError]
    """Why a topic that was asked for is not among the topics."""

    @property
    def lacks_leader(self) -> bool:
        """Whoever said so may not know what others do."""
        leaders = {
            each.leader_id for topic in self.topics.values() for each in topic.partitions
        } | {self.controller_id}
        return NO_NODE in leaders or any(
            isinstance(error, LeaderNotAvailable) for error in self.refused.values()
        )

    def topic(self, name: str) -> TopicMetadata:
        if name in self.topics:
            return self.topics[name]
        if name in self.refused:
            raise self.refused[name]
        raise _unknown(name)

    def leader_of(self, partition: TopicPartition) -> int:
        topic = self.topic(partition.topic)
        if not 0 <= partition.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(
                f"topic {topic.name} has no partition {partition.partition}: "
                f"it has {len(topic.partitions)}"
            )
        leader_id = topic.partitions[partition.partition].leader_id
        if leader_id == NO_NODE:
            raise LeaderNotAvailable(f"partition {partition} has no leader")
        return leader_id


def from_wire(reply: wire.MetadataResponse) -> ClusterMetadata:
    topics: dict[str, TopicMetadata] = {}
    refused: dict[str, RequestError] = {}
    for topic in reply.topics:
        name = topic.name or ""
        if topic.error_code:
            refused[name] = _refusal_of(name, topic.error_code)
        else:
            topics[name] = TopicMetadata(
                name, topic.topic_id, topic.is_internal, _partitions_from_wire(topic.partitions)
            )
    return ClusterMetadata(
        cluster_id=reply.cluster_id,
        controller_id=reply.controller_id,
        brokers={broker.node_id: Address(broker.host, broker.port) for broker in reply.brokers},
        topics=topics,
        refused=refused,
    )


def _unknown(name: str) -> RequestError:
    return UnknownTopicOrPartition(
        f"topic {name} does not exist" if name else "a topic needs a name"
    )


def _refusal_of(name: str, code: int) -> RequestError:
    if code == UnknownTopicOrPartition.code:
        return _unknown(name)
    return refusal(code, f"topic {name}")


def _partitions_from_wire(
    partitions: list[wire.MetadataResponsePartition],
) -> tuple[PartitionMetadata, ...]:
    # An error of a single partition tells only that its leader or a replica is away, which
    # the leader's id and the list of replicas in sync tell as well.
    in_order = sorted(partitions, key=lambda partition: partition.partition_index)
    return tuple(
        PartitionMetadata(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
        )
        for partition in in_order
    )
