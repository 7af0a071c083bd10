"""DescribeProducers (api key 61), version 0: who writes to a partition, and what they left open."""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.lane.changes import partition_of
from semel.types import ProducerId
from semel.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_producers(broker: "Broker", request: DescribeProducersRequest, call: Call) -> Answer:
    topics = [
        TopicResponse(
            topic.name, [_describe(broker, topic.name, index) for index in topic.partition_indexes]
        )
        for topic in request.topics
    ]
    return Answer(DescribeProducersResponse(topics=topics), broker.lane.journal.end)


def _describe(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    try:
        partition = partition_of(broker.lane, topic, index)
    except RequestError as error:
        return PartitionResponse(index, error.code, str(error) or None)
    clock = broker.lane.clock
    ahead_ms = clock.wall_ms() - clock.now_ms()
    states = []
    for producer_id, producer in partition.producers.items():
        first_offset = partition.transactions.first_offset(ProducerId(producer_id))
        states.append(
            ProducerState(
                producer_id,
                producer.epoch,
                producer.taken[-1].last_sequence if producer.taken else -1,
                producer.active_at_ms + ahead_ms,
                broker.lane.state.term,
                -1 if first_offset is None else first_offset,
            )
        )
    return PartitionResponse(index, active_producers=states)
