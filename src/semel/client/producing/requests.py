"""Produce as the core sees it, to and from the messages of the wire."""

from collections import defaultdict

from semel.client.cluster.calls import refusal
from semel.client.producing.exchange import Answer, Request
from semel.client.producing.settings import ProducerSettings
from semel.errors import NONE, MessageTooLarge, NetworkException, RequestError
from semel.types import TopicPartition
from semel.wire.messages import produce


def to_wire(request: Request, settings: ProducerSettings) -> produce.ProduceRequest:
    is_transactional = settings.transactional_id is not None
    topics: dict[str, list[produce.PartitionProduceData]] = defaultdict(list)
    for batch in request.batches:
        content = batch.sealed(is_transactional=is_transactional, compression=settings.compression)
        partition = produce.PartitionProduceData(batch.place.partition, content)
        topics[batch.place.topic].append(partition)
    return produce.ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=[produce.TopicProduceData(name, data) for name, data in topics.items()],
    )


def answers_of(request: Request, reply: produce.ProduceResponse) -> list[Answer]:
    """The answer to each batch, in the order of the request."""
    answers = {
        TopicPartition(topic.name, answer.index): answer
        for topic in reply.responses
        for answer in topic.partition_responses
    }
    found = []
    for batch in request.batches:
        answer = answers.get(batch.place)
        if answer is None:
            raise NetworkException(f"the reply to Produce says nothing of {batch.place}")
        found.append(
            Answer(
                error_of(answer, batch.place, batch.size),
                answer.base_offset,
                answer.log_append_time_ms,
                answer.log_start_offset,
            )
        )
    return found


def error_of(
    answer: produce.PartitionProduceResponse, place: TopicPartition, size: int
) -> RequestError | None:
    if answer.error_code == NONE:
        return None
    if answer.error_code == MessageTooLarge.code:
        return MessageTooLarge(f"{place}: a batch of {size} bytes is larger than the topic takes")
    return refusal(answer.error_code, f"{place}", answer.error_message)
