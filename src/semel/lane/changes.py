"""Steps that change topics and producer ids: each is checked, then appended as one frame."""

from semel.errors import (
    InvalidConfig,
    InvalidPartitions,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from semel.lane import facts
from semel.lane.internal_topics import TOPIC_ID_SIZE, creation
from semel.lane.lane import FACT_SIZE_MAX, Lane
from semel.lane.topics import (
    Topic,
    check_name,
    check_partition_count,
)
from semel.log.partition import Partition
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Offset, Position, ProducerId

CONFIG_SIZE_MAX = FACT_SIZE_MAX // 2
"""Bytes of all settings of a topic, so that the fact fits into the room reserved for it."""


def check_new_topic(lane: Lane, name: str, partition_count: int) -> None:
    check_name(name)
    if name in lane.state.topics:
        raise TopicAlreadyExists(f"topic {name!r} exists already")
    check_partition_count(partition_count)


def create_topic(lane: Lane, name: str, partition_count: int, config: dict[str, str]) -> Topic:
    check_new_topic(lane, name, partition_count)
    check_config_size(config)
    draft = lane.draft(FACT_SIZE_MAX)
    draft.add_fact(
        facts.TopicCreated(
            name,
            lane.randomness.token_bytes(TOPIC_ID_SIZE),
            lane.state.next_partition_number,
            partition_count,
            config,
        )
    )
    draft.append()
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
        draft = lane.draft(FACT_SIZE_MAX)
        draft.add_fact(creation(lane, name))
        draft.append()
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
    draft = lane.draft(FACT_SIZE_MAX)
    added = count - len(topic.partitions)
    draft.add_fact(facts.PartitionsAdded(topic.name, lane.state.next_partition_number, added))
    return draft.append()


def check_config_size(config: dict[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in config.items())
    if size > CONFIG_SIZE_MAX:
        raise InvalidConfig(f"the settings have {size} bytes, more than {CONFIG_SIZE_MAX}")


def configure_topic(lane: Lane, topic: Topic, config: dict[str, str]) -> Position:
    check_config_size(config)
    draft = lane.draft(FACT_SIZE_MAX)
    draft.add_fact(facts.TopicConfigured(topic.name, config))
    return draft.append()


def delete_records(lane: Lane, partition: Partition, before_offset: int) -> Position:
    """Records below `before_offset` (-1: all that are readable) are no longer shown."""
    before = partition.high_watermark if before_offset == -1 else Offset(before_offset)
    if not 0 <= before <= partition.high_watermark:
        raise OffsetOutOfRange(
            f"offset {before} is not between 0 and the end {partition.high_watermark}"
        )
    if before <= partition.log_start_offset:
        return lane.journal.end
    draft = lane.draft(FACT_SIZE_MAX, urgent=True)
    draft.add_fact(facts.RecordsDeleted(partition.number, before))
    return draft.append()


def take_producer_id(lane: Lane) -> tuple[ProducerId, Position]:
    """A producer id that was never given and never will be again."""
    producer_id = lane.state.next_producer_id
    draft = lane.draft(FACT_SIZE_MAX, urgent=True)
    draft.add_fact(facts.ProducerIdTaken(producer_id))
    return producer_id, draft.append()


def expire_producers(lane: Lane, before_ms: int) -> None:
    """Forget producers that were silent; does nothing if there are none."""
    if any(
        partition.has_silent_producer(before_ms) for partition in lane.state.partitions.values()
    ):
        draft = lane.draft(FACT_SIZE_MAX, urgent=True)
        draft.add_fact(facts.ProducersExpired(before_ms))
        draft.append()
