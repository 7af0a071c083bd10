"""DescribeProducers (api key 61), version 0: who writes to a partition, and what they left open."""

import asyncio
from typing import TYPE_CHECKING, Final

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


PRODUCERS_AT_ONCE: Final = 256
"""Described before others have their turn."""


async def describe_producers(
    broker: "Broker", request: DescribeProducersRequest, call: Call
) -> Answer:
    topics = [
        TopicResponse(
            topic.name,
            [await _describe(broker, topic.name, index, call) for index in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return Answer(DescribeProducersResponse(topics=topics))


async def _describe(broker: "Broker", topic: str, index: int, call: Call) -> PartitionResponse:
    try:
        call.require(READ_TOPIC, topic)
        lane, _ = broker.lanes.of(TopicPartition(topic, index))
        producers = lane.view.producers(topic, index)
    except RequestError as error:
        return PartitionResponse(index, error.code, str(error) or None)
    states = []
    for count, each in enumerate(producers, 1):
        if count % PRODUCERS_AT_ONCE == 0:
            await asyncio.sleep(0)
        states.append(
            ProducerState(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp_ms,
                lane.view.term,
                each.transaction_start_offset,
            )
        )
    # It may have been taken from the client meanwhile.
    if not call.may(READ_TOPIC, topic):
        refusal = call.refusal(READ_TOPIC, topic)
        return PartitionResponse(index, refusal.code, str(refusal))
    return PartitionResponse(index, active_producers=states)
