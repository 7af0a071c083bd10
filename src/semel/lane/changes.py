"""Steps that change topics and producer ids: each is checked, then appended as one frame."""

from semel.errors import (
    InvalidConfig,
    InvalidPartitions,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from semel.lane import facts
from semel.lane.claims import Claim
from semel.lane.internal_topics import TOPIC_ID_SIZE, creation
from semel.lane.lane import Lane
from semel.lane.topics import (
    Topic,
    check_name,
    check_partition_count,
)
from semel.log.partition import Partition
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Offset, Position, ProducerId

CONFIG_SIZE_MAX = 32 * 2**10
"""Bytes of all settings of a topic; every checkpoint holds them."""


def check_new_topic(lane: Lane, name: str, partition_count: int) -> None:
    check_name(name)
    if name in lane.state.topics:
        raise TopicAlreadyExists(f"topic {name!r} exists already")
    check_partition_count(partition_count)


def create_topic(lane: Lane, name: str, partition_count: int, config: dict[str, str]) -> Topic:
    check_new_topic(lane, name, partition_count)
    check_config_size(config)
    lane.say(
        facts.TopicCreated(
            name,
            lane.randomness.token_bytes(TOPIC_ID_SIZE),
            lane.state.next_partition_number,
            partition_count,
            config,
        )
    )
    return lane.state.topics[name]


def offsets_topic(lane: Lane) -> Topic:
    """The topic of the groups' offsets, made when the first group needs it."""
    return _internal_topic(lane, OFFSETS_TOPIC)


def transactions_topic(lane: Lane) -> Topic:
    """The transaction log, made when the first transactional id needs it."""
    return _internal_topic(lane, TRANSACTIONS_TOPIC)


def _internal_topic(lane: Lane, name: str) -> Topic:
    topics = lane.state.topics
    if name not in topics:
        lane.say(creation(lane, name))
    return topics[name]


def topic_named(lane: Lane, name: str) -> Topic:
    topic = lane.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name!r}")
    return topic


def partition_of(lane: Lane, name: str, index: int) -> Partition:
    partition = topic_named(lane, name).partition(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"topic {name!r} has no partition {index}")
    return partition


def check_more_partitions(topic: Topic, count: int) -> None:
    if count <= len(topic.partitions):
        raise InvalidPartitions(
            f"topic {topic.name!r} has {len(topic.partitions)} partitions already; "
            f"there can only be more, not {count}"
        )
    check_partition_count(count)


def add_partitions(lane: Lane, topic: Topic, count: int) -> Position:
    check_more_partitions(topic, count)
    added = count - len(topic.partitions)
    return lane.say(facts.PartitionsAdded(topic.name, lane.state.next_partition_number, added))


def check_config_size(config: dict[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in config.items())
    if size > CONFIG_SIZE_MAX:
        raise InvalidConfig(f"the settings have {size} bytes, more than {CONFIG_SIZE_MAX}")


def configure_topic(lane: Lane, topic: Topic, config: dict[str, str]) -> Position:
    check_config_size(config)
    return lane.say(facts.TopicConfigured(topic.name, config))


def delete_records(lane: Lane, partition: Partition, before_offset: int) -> Position:
    """Records below `before_offset` (-1: all that are readable) are no longer shown."""
    before = partition.high_watermark if before_offset == -1 else Offset(before_offset)
    if not 0 <= before <= partition.high_watermark:
        raise OffsetOutOfRange(
            f"offset {before} is not between 0 and the end {partition.high_watermark}"
        )
    if before <= partition.log_start_offset:
        return lane.journal.end
    return lane.say(facts.RecordsDeleted(partition.number, before), Claim.ENDING)


def take_producer_id(lane: Lane) -> tuple[ProducerId, Position]:
    """A producer id that was never given and never will be again."""
    producer_id = lane.state.next_producer_id
    return producer_id, lane.say(facts.ProducerIdTaken(producer_id))


def expire_producers(lane: Lane, before_ms: int) -> None:
    """Forget producers that were silent; does nothing if there are none."""
    if any(
        partition.has_silent_producer(before_ms) for partition in lane.state.partitions.values()
    ):
        lane.say(facts.ProducersExpired(before_ms), Claim.ENDING)
