"""OffsetFetch (api key 9), versions 1-10.

v2  null asks for all topics of the group; v5  leader epoch; v6  flexible encoding
v7  the client may ask for stable offsets only; v8  several groups at once
v9  who asks may say which member it is (KIP-848): anyone may ask about a classic group
v10  topics by id (KIP-516)

Committed and pending offsets are read from one state, and the answer waits until that is durable.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.asked_offsets import by_id
from semel.errors import RequestError, TopicAuthorizationFailed, UnknownTopicId
from semel.groups.commands import FetchedOffset, FetchOffsets
from semel.types import GroupId, TopicPartition
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from semel.wire.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker

REFUSAL_SINCE, SEVERAL_GROUPS_SINCE, IDS_SINCE = 2, 8, 10


def offset_fetch(broker: "Broker", request: OffsetFetchRequest, call: Call) -> Answer:
    if call.version >= SEVERAL_GROUPS_SINCE:
        fetch = _group_by_id if call.version >= IDS_SINCE else _group
        groups = [fetch(broker, group, request.require_stable, call) for group in request.groups]
        return Answer(OffsetFetchResponse(groups=groups))
    try:
        found = _fetch(broker, request.group_id, request.topics, request.require_stable, call)
    except RequestError as error:
        return Answer(_refused(request, error, call.version))
    topics = [
        OffsetFetchResponseTopic(
            topic, [OffsetFetchResponsePartition(*_fields(each)) for each in offsets]
        )
        for topic, offsets in found
    ]
    return Answer(OffsetFetchResponse(topics=topics))


def _refused(request: OffsetFetchRequest, error: RequestError, version: int) -> OffsetFetchResponse:
    if version >= REFUSAL_SINCE:
        return OffsetFetchResponse(error_code=error.code)
    # Left out, it would say that nothing was committed, and who asks would begin anew.
    topics = [
        OffsetFetchResponseTopic(
            topic.name,
            [
                OffsetFetchResponsePartition(index, -1, -1, "", error.code)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)


def _group(
    broker: "Broker", group: OffsetFetchRequestGroup, require_stable: bool, call: Call
) -> OffsetFetchResponseGroup:
    try:
        found = _fetch(broker, group.group_id, group.topics, require_stable, call)
    except RequestError as error:
        return OffsetFetchResponseGroup(group.group_id, error_code=error.code)
    return OffsetFetchResponseGroup(
        group.group_id,
        [
            OffsetFetchResponseTopics(
                topic, [OffsetFetchResponsePartitions(*_fields(each)) for each in offsets]
            )
            for topic, offsets in found
        ],
    )


def _group_by_id(
    broker: "Broker", group: OffsetFetchRequestGroup, require_stable: bool, call: Call
) -> OffsetFetchResponseGroup:
    unknown: list[OffsetFetchRequestTopics] = []
    try:
        call.require(DESCRIBE_GROUP, group.group_id)
        catalogue = broker.lanes.catalogue_for_coordinators
        if group.topics is not None:
            group.topics, unknown = by_id(catalogue, group.topics, call)
    except RequestError as error:
        return OffsetFetchResponseGroup(group.group_id, error_code=error.code)
    answer = _group(broker, group, require_stable, call)
    if answer.error_code:
        return answer
    named, answer.topics = answer.topics, []
    for each in named:
        # Of a topic that is gone nothing can be said any more: its name has no id.
        topic = catalogue.get(each.name)
        if topic is not None:
            each.topic_id = topic.topic_id
            answer.topics.append(each)
    answer.topics += map(_unknown, unknown)
    return answer


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(index, -1, -1, "", UnknownTopicId.code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics("", partitions, topic.topic_id)


def _fields(found: FetchedOffset) -> tuple[int, int, int, str | None, int]:
    """In the order that both forms of the reply have."""
    partition = found.partition.partition
    return partition, found.offset, found.leader_epoch, found.metadata, found.error_code


def _fetch(
    broker: "Broker",
    group_id: str,
    topics: list[OffsetFetchRequestTopic] | list[OffsetFetchRequestTopics] | None,
    require_stable: bool,
    call: Call,
) -> Iterable[tuple[str, list[FetchedOffset]]]:
    """What is found, by topic, and then what the client may not see."""
    call.require(DESCRIBE_GROUP, group_id)
    partitions = None
    forbidden: list[FetchedOffset] = []
    if topics is not None:
        allowed = {topic.name for topic in topics if call.may(DESCRIBE_TOPIC, topic.name)}
        asked = [
            TopicPartition(topic.name, index)
            for topic in topics
            for index in topic.partition_indexes
        ]
        partitions = tuple(each for each in asked if each.topic in allowed)
        forbidden = [
            FetchedOffset(each, error_code=TopicAuthorizationFailed.code)
            for each in asked
            if each.topic not in allowed
        ]
    found = broker.coordinators.of_group(group_id).view.fetch_offsets(
        FetchOffsets(GroupId(group_id), partitions, require_stable)
    )
    by_topic: defaultdict[str, list[FetchedOffset]] = defaultdict(list)
    for offset in [*found, *forbidden]:
        topic_name = offset.partition.topic
        if topics is not None or call.may_see(DESCRIBE_TOPIC, topic_name):
            by_topic[topic_name].append(offset)
    return by_topic.items()
