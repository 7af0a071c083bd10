"""DescribeTopicPartitions (api key 75), version 0 (KIP-966).

Topics in the order of their names, so many partitions at once; a cursor tells where the next
request goes on. Nothing is created by asking.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call, Handled
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    ProtocolError,
    RequestError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from semel.lane.leader import LedBy
from semel.lane.view import TopicView
from semel.topic_names import check_name
from semel.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from semel.wire.rights import DESCRIBE_TOPIC, ResourceType

if TYPE_CHECKING:
    from semel.broker.broker import Broker

PARTITION_COUNT_MAX: Final = 2_000
"""In one answer, as Kafka's `max.request.partition.size.limit` has it."""
TOPICS_AT_ONCE: Final = 512
"""Looked at before others have their turn."""


def describe_topic_partitions(
    broker: "Broker", request: DescribeTopicPartitionsRequest, call: Call
) -> Handled:
    leader = leader_to_ask(broker, call)
    if leader is not None and not (
        broker.lanes.knows_topics
        and all(_is_told_here(broker, topic.name, call) for topic in request.topics)
    ):
        return _described_there(leader, broker, request, call)
    if not request.topics:
        return _all_described(broker, request, call)
    return _described(broker, request, call)


def _is_told_here(broker: "Broker", name: str, call: Call) -> bool:
    """What the client may not see is refused here, be it there or not: that the leader had to be
    asked first would tell which of both, by the time that takes."""
    return not call.may_see(DESCRIBE_TOPIC, name) or name in broker.lanes.catalogue


async def _described_there(
    leader: LedBy, broker: "Broker", request: DescribeTopicPartitionsRequest, call: Call
) -> Answer:
    """What is not known here the leader may have made since."""
    try:
        return Answer(await forwarded(broker, leader, call, request))
    except CoordinatorLoadInProgress:
        if not request.topics:
            return await _all_described(broker, request, call)
        return _described(broker, request, call)


async def _all_described(
    broker: "Broker", request: DescribeTopicPartitionsRequest, call: Call
) -> Answer:
    """As many as fit into one answer, and one that says that there are more."""
    if not broker.lanes.knows_topics:
        # An answer without any would say that there are none.
        raise ProtocolError("asked for all topics, which are led elsewhere")
    cursor = request.cursor
    names: list[str] = []
    try:
        _check_cursor(request)
        first = "" if cursor is None else cursor.topic_name
        for count, topic in enumerate(broker.lanes.catalogue.walk(first), 1):
            if count % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if call.may_see(DESCRIBE_TOPIC, topic.name):
                names.append(topic.name)
                if len(names) > PARTITION_COUNT_MAX:
                    break
        return Answer(_describe(broker, request, names, call))
    except RequestError:
        return Answer(DescribeTopicPartitionsResponse())


def _described(broker: "Broker", request: DescribeTopicPartitionsRequest, call: Call) -> Answer:
    try:
        return Answer(_describe(broker, request, _names(request), call))
    except RequestError as error:
        topics = [
            DescribeTopicPartitionsResponseTopic(error.code, topic.name) for topic in request.topics
        ]
        return Answer(DescribeTopicPartitionsResponse(topics=topics))


def _names(request: DescribeTopicPartitionsRequest) -> list[str]:
    """What is asked for, from the cursor on."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics}
    if cursor is None:
        return sorted(names)
    if cursor.topic_name not in names:
        raise InvalidRequest(f"the cursor's topic {cursor.topic_name!r} is not asked for")
    _check_cursor(request)
    return sorted(name for name in names if name >= cursor.topic_name)


def _check_cursor(request: DescribeTopicPartitionsRequest) -> None:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor names partition {cursor.partition_index}")


def _describe(
    broker: "Broker", request: DescribeTopicPartitionsRequest, names: list[str], call: Call
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    room = max(1, min(request.response_partition_limit, PARTITION_COUNT_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room == 0:
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=Cursor(name, 0))
        if not call.may(DESCRIBE_TOPIC, name):
            forbidden = TopicAuthorizationFailed.code
            topics.append(DescribeTopicPartitionsResponseTopic(forbidden, name))
            continue
        topic = broker.lanes.catalogue.get(name)
        if topic is None:
            code = (
                _code_of_missing(name) if broker.lanes.leads_catalogue else LeaderNotAvailable.code
            )
            topics.append(DescribeTopicPartitionsResponseTopic(code, name))
            continue
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        stop = min(first + room, topic.partition_count)
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                0,
                name,
                topic.topic_id,
                topic.is_internal,
                list(_partitions(broker, topic, range(first, stop), call)),
                call.operations(ResourceType.TOPIC, name),
            )
        )
        if stop < topic.partition_count:
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=Cursor(name, stop))
        room -= max(0, stop - first)
    return DescribeTopicPartitionsResponse(topics=topics)


def _code_of_missing(name: str) -> int:
    try:
        check_name(name)
    except InvalidTopic as error:
        return error.code
    return UnknownTopicOrPartition.code


def _partitions(
    broker: "Broker", topic: TopicView, indexes: range, call: Call
) -> Iterator[DescribeTopicPartitionsResponsePartition]:
    node_id = broker.config.node_id
    for index in indexes:
        number = topic.lane_of(index)
        lane = broker.lanes.by_number.get(number)
        led_by = broker.nodes.leader_of(number, call) if lane is None else None
        if led_by is not None:
            there = [led_by.node_id]
            yield DescribeTopicPartitionsResponsePartition(
                0,
                index,
                led_by.node_id,
                led_by.epoch,
                there,
                there,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            continue
        is_led = lane is not None
        yield DescribeTopicPartitionsResponsePartition(
            0 if is_led else LeaderNotAvailable.code,
            index,
            node_id if is_led else -1,
            lane.view.epoch if lane is not None else -1,
            [node_id],
            [node_id] if is_led else [],
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
