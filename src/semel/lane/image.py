"""The lane's state as bytes: a checkpoint, from which start-up replays only what follows."""

import msgspec

from semel.errors import CorruptJournal
from semel.groups.lasting import GroupsSnapshot
from semel.journal.device import DiskIdentity
from semel.lane.catalogue import Topic
from semel.lane.state import LaneState
from semel.log.image import PartitionTransactionsImage
from semel.log.partition import Partition, TermStart
from semel.log.producers import Producer, Restart, TakenBatch, TransactionStart
from semel.transactions.snapshot import TransactionsSnapshot
from semel.types import Offset, ProducerEpoch, ProducerId, Term
from semel.world import Moment

FORMAT = 3
FORMATS_READ = (1, 2, FORMAT)


class _Image(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Without garbage tracking: images are many, live for a moment and hold no cycle."""


class ProducerImage(_Image, frozen=True):
    producer_id: int
    epoch: int
    active_at_ms: int
    taken: list[TakenBatch]
    restart: Restart | None
    transaction_start: TransactionStart | None


class PartitionImage(_Image, frozen=True):
    number: int
    log_start_offset: int
    log_end_offset: int
    term_starts: list[tuple[int, int]]
    transactions: PartitionTransactionsImage
    producers: list[ProducerImage]


class TopicImage(_Image, frozen=True):
    name: str
    topic_id: bytes
    config: dict[str, str]
    partitions: list[PartitionImage]
    """Those that lie in this lane."""
    indexes: list[int] | None = None
    """Of these partitions in the topic; None: all of them in their order."""
    partition_count: int | None = None
    """With those that lie in other lanes, if there are any."""
    first_lane: int = 0
    lane_count: int = 1


class LaneImage(_Image, frozen=True):
    format: int
    term: int
    identity: DiskIdentity | None
    cluster_id: bytes
    next_partition_number: int
    next_producer_id: int
    topics: list[TopicImage]
    groups: GroupsSnapshot
    transactions: TransactionsSnapshot
    last_moment: tuple[int, int] | None = None
    """Of the last frame, the lane's time and the wall clock; not there up to format 2."""
    wall_ahead_ms: int | None = None
    """None if the last frame says it."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LaneImage).decode


def take(state: LaneState) -> bytes:
    last = state.last_moment
    return _encode(
        LaneImage(
            format=FORMAT,
            term=state.term,
            identity=state.identity,
            cluster_id=state.cluster_id,
            next_partition_number=state.next_partition_number,
            next_producer_id=state.next_producer_id,
            topics=[_topic_image(state, name) for name in state.partition_counts],
            groups=state.groups.snapshot(),
            transactions=state.transactions.snapshot(),
            last_moment=None if last is None else (last.now_ms, last.wall_ms),
            wall_ahead_ms=state.wall_ahead_ms,
        )
    )


def restore(image: bytes, state: LaneState) -> None:
    """Give a state that nothing was applied to yet what the image holds."""
    try:
        read = _decode(image)
    except msgspec.MsgspecError as error:
        raise CorruptJournal(f"the checkpoint cannot be read: {error}") from error
    if read.format not in FORMATS_READ:
        raise CorruptJournal(
            f"the checkpoint has format {read.format}, this Semel reads {FORMATS_READ}"
        )
    state.groups.restore(read.groups)
    state.transactions.restore(read.transactions)
    state.term = Term(read.term)
    state.identity = read.identity
    state.cluster_id = read.cluster_id
    if read.last_moment is not None:
        state.passed(Moment(*read.last_moment))
    if read.wall_ahead_ms is not None:
        state.wall_ahead_ms = read.wall_ahead_ms
    for topic_image in read.topics:
        _restore_topic(state, topic_image)
    state.next_partition_number = read.next_partition_number
    state.next_producer_id = ProducerId(read.next_producer_id)


def _topic_image(state: LaneState, name: str) -> TopicImage:
    hosted = state.hosted.get(name, {})
    partitions = [_partition_image(partition) for partition in hosted.values()]
    partition_count = state.partition_counts[name]
    topic = state.catalogue.get(name)
    if topic is not None and topic.lane_count == 1:
        return TopicImage(name, topic.topic_id, topic.config, partitions)
    indexes = list(hosted)
    if topic is None:
        return TopicImage(name, b"", {}, partitions, indexes, partition_count)
    placed = (topic.first_lane, topic.lane_count)
    return TopicImage(
        name, topic.topic_id, topic.config, partitions, indexes, partition_count, *placed
    )


def _restore_topic(state: LaneState, image: TopicImage) -> None:
    indexes = range(len(image.partitions)) if image.indexes is None else image.indexes
    count = len(image.partitions) if image.partition_count is None else image.partition_count
    state.partition_counts[image.name] = count
    if image.topic_id:
        placed = (image.first_lane, image.lane_count)
        state.catalogue.add(Topic(image.name, image.topic_id, image.config, count, *placed))
    for index, partition_image in zip(indexes, image.partitions, strict=True):
        partition = state.host_one(image.name, index, partition_image.number)
        _restore_partition(partition, partition_image)


def _partition_image(partition: Partition) -> PartitionImage:
    return PartitionImage(
        partition.number,
        partition.log_start_offset,
        partition.log_end_offset,
        [(start.term, start.offset) for start in partition.term_starts],
        partition.transactions.image(),
        [
            _producer_image(producer_id, producer)
            for producer_id, producer in partition.producers.items()
        ],
    )


def _producer_image(producer_id: int, producer: Producer) -> ProducerImage:
    return ProducerImage(
        producer_id,
        producer.epoch,
        producer.active_at_ms,
        producer.taken,
        producer.restart,
        producer.transaction_start,
    )


def _restore_partition(partition: Partition, image: PartitionImage) -> None:
    partition.log_start_offset = Offset(image.log_start_offset)
    partition.log_end_offset = Offset(image.log_end_offset)
    partition.term_starts = [
        TermStart(Term(term), Offset(offset)) for term, offset in image.term_starts
    ]
    partition.transactions.restore(image.transactions, partition.log_end_offset)
    for producer_image in image.producers:
        partition.producers[producer_image.producer_id] = _restored_producer(producer_image)


def _restored_producer(image: ProducerImage) -> Producer:
    producer = Producer(ProducerEpoch(image.epoch), image.active_at_ms)
    producer.taken = image.taken
    producer.restart = image.restart
    producer.transaction_start = image.transaction_start
    return producer
