"""Metadata (api key 3), versions 0-13.

v0   an empty list means all topics; later null does
v4   the client says whether topics may be created
v8   what a client may do with topics is told, and until v10 with the cluster
v9   flexible encoding; v10  topic ids
v12  a topic may be asked for by its id
v13  an error of the whole answer, for clients of a cluster that is gone (KIP-1102): there is none

What all partitions of large topics are said to be is put together in steps.

A topic that does not exist is created when the broker and the client allow it, and the answer
waits until it is durable.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from semel.broker.answer import NOT_ASKED_FOR, Answer, Call, Handled
from semel.broker.asked_topics import topic_with_id
from semel.broker.authorized_operations import cluster_operations
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.broker.telling import Tells
from semel.errors import (
    CoordinatorLoadInProgress,
    JournalFull,
    LeaderNotAvailable,
    NotController,
    NotLeaderOrFollower,
    ProtocolError,
    RequestError,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
)
from semel.lane.leader import LedBy
from semel.lane.topics import CreateTopic
from semel.lane.view import CatalogueView, TopicView
from semel.types import INTERNAL_TOPICS
from semel.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.wire.rights import (
    CREATE_IN_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC,
    ResourceType,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

NO_ID: Final = bytes(16)
NULL_NAMES_SINCE: Final = 12
"""Before, a refusal of an id that nobody has names the topic by an empty string."""

ASKED_VERSION: Final = 12
"""In which a leader is asked for what is not known here: it has ids, and epochs of leaders."""

PARTITIONS_AT_ONCE: Final = 1024
"""Described before others have their turn."""

PARTITIONS_PER_TOPIC: Final = 4
"""Each topic costs as much besides its own."""

Describing = Iterator[list[MetadataResponseTopic] | None]
"""Gives None after each step, and all topics at the end."""


def metadata(broker: "Broker", request: MetadataRequest, call: Call) -> Handled:
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    found: Iterable[TopicView | MetadataResponseTopic | None]
    if wants_all:
        if not broker.lanes.knows_topics and (leader := leader_to_ask(broker, call)) is not None:
            return _all_found_there(leader, broker, request, call)
        found = (
            topic if call.may_see(DESCRIBE_TOPIC, topic.name) else None
            for topic in _all_topics(broker).walk()
        )
    else:
        may_create = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
        telling = broker.topics.telling
        last_change = 0 if telling is None else telling.last_change
        found = named = [_find(broker, each, may_create, call) for each in request.topics or ()]
        if telling is not None and telling.last_change != last_change:
            return _once_heard(telling, broker, request, named, call)
        leader = leader_to_ask(broker, call)
        missing = [
            number
            for number, topic in enumerate(named)
            if isinstance(topic, MetadataResponseTopic)
            and topic.error_code != TopicAuthorizationFailed.code
        ]
        if leader is not None and missing:
            return _found_there(leader, broker, request, named, missing, call)
    describing = _describing(broker, request, found, call)
    topics = next(describing)
    if topics is None:
        return _later(broker, request, describing, call)
    return _answer(broker, request, topics, call)


def _all_topics(broker: "Broker") -> CatalogueView:
    """Raises ProtocolError while nobody has told of any: an answer without an error would say that
    there are none, and who reads whatever has a name of some kind would give up all of it."""
    if not broker.lanes.knows_topics:
        raise ProtocolError("asked for all topics, which are led elsewhere, and nobody knows where")
    return broker.lanes.catalogue


async def _all_found_there(
    leader: LedBy, broker: "Broker", request: MetadataRequest, call: Call
) -> Answer:
    """While the store cannot be read here. Raises ProtocolError if it does not answer."""
    wanted = MetadataRequest(
        None, include_topic_authorized_operations=request.include_topic_authorized_operations
    )
    try:
        told = await forwarded(broker, leader, call, wanted, ASKED_VERSION)
    except CoordinatorLoadInProgress as error:
        raise ProtocolError(f"asked for all topics: {error}") from error
    return await _later(broker, request, _describing(broker, request, told.topics, call), call)


async def _found_there(
    leader: LedBy,
    broker: "Broker",
    request: MetadataRequest,
    found: list[TopicView | MetadataResponseTopic],
    missing: list[int],
    call: Call,
) -> Answer:
    """What is not known here the leader may have made since, or make now."""
    wanted = MetadataRequest(
        [(request.topics or [])[number] for number in missing],
        request.allow_auto_topic_creation,
        include_topic_authorized_operations=request.include_topic_authorized_operations,
    )
    with contextlib.suppress(CoordinatorLoadInProgress):
        told = await forwarded(broker, leader, call, wanted, ASKED_VERSION)
        for number, topic in zip(missing, told.topics, strict=False):
            found[number] = topic
    found = _asked_again(broker, request, found, call)
    return await _later(broker, request, _describing(broker, request, found, call), call)


async def _once_heard(
    telling: Tells,
    broker: "Broker",
    request: MetadataRequest,
    found: list[TopicView | MetadataResponseTopic],
    call: Call,
) -> Answer:
    """What was made has to be known where clients go next."""
    await telling.until_heard()
    found = _asked_again(broker, request, found, call)
    return await _later(broker, request, _describing(broker, request, found, call), call)


def _asked_again(
    broker: "Broker",
    request: MetadataRequest,
    found: list[TopicView | MetadataResponseTopic],
    call: Call,
) -> list[TopicView | MetadataResponseTopic]:
    """What was found before others were waited for: the client may have lost the right to see it
    meanwhile, and it may be gone."""
    return [
        topic
        if isinstance(topic, MetadataResponseTopic)
        else _find(broker, asked, may_create=False, call=call)
        for asked, topic in zip(request.topics or (), found, strict=True)
    ]


async def _later(
    broker: "Broker", request: MetadataRequest, describing: Describing, call: Call
) -> Answer:
    for topics in describing:
        if topics is not None:
            return _answer(broker, request, topics, call)
        await asyncio.sleep(0)
    raise AssertionError("it ends with all of them")


def _answer(
    broker: "Broker", request: MetadataRequest, topics: list[MetadataResponseTopic], call: Call
) -> Answer:
    return Answer(
        MetadataResponse(
            brokers=[MetadataResponseBroker(*node) for node in broker.nodes.named_for(call)],
            cluster_id=broker.cluster_id,
            controller_id=broker.nodes.controller_id,
            topics=topics,
            cluster_authorized_operations=(
                cluster_operations(call)
                if request.include_cluster_authorized_operations
                else NOT_ASKED_FOR
            ),
        ),
    )


def _find(
    broker: "Broker", wanted: MetadataRequestTopic, may_create: bool, call: Call
) -> TopicView | MetadataResponseTopic:
    """The topic, or why there is none."""
    name = wanted.name
    try:
        # The Java client leaves the name empty where it asks by id, and does not say null.
        if name is None or wanted.topic_id != NO_ID:
            return topic_with_id(broker, wanted.topic_id, DESCRIBE_TOPIC, call)
        call.require(DESCRIBE_TOPIC, name)
        if may_create and name not in broker.lanes.catalogue:
            if not call.may_see(CREATE_IN_CLUSTER):
                call.require(CREATE_TOPIC, name)
            return _create(broker, name)
        return broker.lanes.topic_named(name)
    except (NotLeaderOrFollower, NotController):
        # Where the topics are led the next request may tell.
        return MetadataResponseTopic(LeaderNotAvailable.code, name, wanted.topic_id)
    except RequestError as error:
        return MetadataResponseTopic(error.code, name, wanted.topic_id)


def _create(broker: "Broker", name: str) -> TopicView:
    try:
        if name in INTERNAL_TOPICS:
            return broker.coordinators.internal_topic(name)
        broker.topics.create(CreateTopic(name, broker.config.num_partitions, {}))
    except (JournalFull, TopicAlreadyExists):
        # There is no room, or one of this name is still being deleted.
        raise LeaderNotAvailable from None
    return broker.lanes.catalogue.named(name)


def _describing(
    broker: "Broker",
    request: MetadataRequest,
    found: Iterable[TopicView | MetadataResponseTopic | None],
    call: Call,
) -> Describing:
    """What is the same for all partitions is looked up once: a topic may have very many. None
    stands for one that the client may not see."""
    tells_operations = request.include_topic_authorized_operations
    has_null_names = call.version >= NULL_NAMES_SINCE
    node_id = broker.config.node_id
    here = [node_id]
    epochs = {number: lane.view.epoch for number, lane in broker.lanes.by_number.items()}
    leader_of = cache(partial(broker.nodes.leader_of, call=call))
    described: list[MetadataResponseTopic] = []
    left = PARTITIONS_AT_ONCE
    for topic in found:
        left -= PARTITIONS_PER_TOPIC
        if left <= 0:
            left = PARTITIONS_AT_ONCE
            yield None
        if topic is None:
            continue
        if isinstance(topic, MetadataResponseTopic):
            _complete(topic, call, tells_operations=tells_operations, is_null=has_null_names)
            described.append(topic)
            continue
        partitions: list[MetadataResponsePartition] = []
        lane_of, count = topic.lane_of, topic.partition_count
        told = MetadataResponseTopic(0, topic.name, topic.topic_id, topic.is_internal, partitions)
        _complete(told, call, tells_operations=tells_operations, is_null=has_null_names)
        described.append(told)
        for index in range(count):
            lane = lane_of(index)
            epoch = epochs.get(lane)
            if epoch is not None:
                partition = MetadataResponsePartition(0, index, node_id, epoch, here, here)
            elif (led_by := leader_of(lane)) is not None:
                there = [led_by.node_id]
                partition = MetadataResponsePartition(
                    0, index, led_by.node_id, led_by.epoch, there, there
                )
            else:
                partition = MetadataResponsePartition(
                    LeaderNotAvailable.code, index, -1, -1, here, []
                )
            partitions.append(partition)
            left -= 1
            if left <= 0:
                left = PARTITIONS_AT_ONCE
                yield None
    yield described


def _complete(
    topic: MetadataResponseTopic, call: Call, *, tells_operations: bool, is_null: bool
) -> None:
    if not is_null:
        topic.name = topic.name or ""
    if tells_operations and topic.error_code == 0:
        topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, topic.name or "")
