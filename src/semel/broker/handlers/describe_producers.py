"""DescribeProducers (api key 61), version 0: who writes to a partition, and what they left open."""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.types import TopicPartition
from semel.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from semel.wire.rights import READ_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_producers(broker: "Broker", request: DescribeProducersRequest, call: Call) -> Answer:
    topics = [
        TopicResponse(
            topic.name,
            [_describe(broker, topic.name, index, call) for index in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return Answer(DescribeProducersResponse(topics=topics))


def _describe(broker: "Broker", topic: str, index: int, call: Call) -> PartitionResponse:
    try:
        call.require(READ_TOPIC, topic)
        lane, _ = broker.lanes.of(TopicPartition(topic, index))
        producers = lane.view.producers(topic, index)
    except RequestError as error:
        return PartitionResponse(index, error.code, str(error) or None)
    states = [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            lane.view.term,
            each.transaction_start_offset,
        )
        for each in producers
    ]
    return PartitionResponse(index, active_producers=states)
