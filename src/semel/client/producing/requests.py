"""Produce as the producer's core asks for it, to and from the messages of the wire."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from semel.client.cluster.calls import refusal
from semel.client.connecting.topic_ids import NO_ID
from semel.client.producing.batch import ProducerBatch
from semel.client.producing.settings import ProducerSettings
from semel.errors import NONE, MessageTooLarge, NetworkException, RequestError
from semel.types import TopicPartition
from semel.wire.messages import produce


class Request(NamedTuple):
    """One Produce: at most one batch of each partition that this broker leads."""

    node_id: int
    batches: list[ProducerBatch]


class BatchAnswer(NamedTuple):
    """What a broker said of one batch."""

    error: RequestError | None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1


class Work(NamedTuple):
    requests: list[Request]
    wake_at_ms: float | None
    """When to drain again, unless something happens before."""


def sooner(at_ms: float | None, other_ms: float | None, now_ms: float) -> float | None:
    """The earlier of two times; one that has come waits for something else than time."""
    if other_ms is None or other_ms <= now_ms:
        return at_ms
    return other_ms if at_ms is None else min(at_ms, other_ms)


def to_wire(
    request: Request, settings: ProducerSettings, topic_ids: Mapping[str, bytes]
) -> produce.ProduceRequest:
    is_transactional = settings.transactional_id is not None
    topics: dict[str, list[produce.PartitionProduceData]] = defaultdict(list)
    for batch in request.batches:
        content = batch.sealed(is_transactional=is_transactional, compression=settings.compression)
        partition = produce.PartitionProduceData(batch.partition.partition, content)
        topics[batch.partition.topic].append(partition)
    return produce.ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=[
            produce.TopicProduceData(name, data, topic_ids.get(name, NO_ID))
            for name, data in topics.items()
        ],
    )


def answers_of(request: Request, reply: produce.ProduceResponse) -> list[BatchAnswer]:
    """The answer to each batch, in the order of the request."""
    answers = {
        TopicPartition(topic.name, answer.index): answer
        for topic in reply.responses
        for answer in topic.partition_responses
    }
    found = []
    for batch in request.batches:
        answer = answers.get(batch.partition)
        if answer is None:
            raise NetworkException(f"the reply to Produce says nothing of {batch.partition}")
        found.append(
            BatchAnswer(
                error_of(answer, batch.partition, batch.size),
                answer.base_offset,
                answer.log_append_time_ms,
                answer.log_start_offset,
            )
        )
    return found


def error_of(
    answer: produce.PartitionProduceResponse, partition: TopicPartition, size: int
) -> RequestError | None:
    if answer.error_code == NONE:
        return None
    if answer.error_code == MessageTooLarge.code:
        return MessageTooLarge(
            f"{partition}: a batch of {size} bytes is larger than the topic takes "
            "(its setting max.message.bytes)"
        )
    return refusal(answer.error_code, f"{partition}", answer.error_message)
