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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call, Handled
from semel.broker.authorized_operations import NOT_ASKED_FOR, ON_CLUSTER, ON_TOPIC
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.errors import (
    CoordinatorLoadInProgress,
    JournalFull,
    LeaderNotAvailable,
    NotController,
    NotLeaderOrFollower,
    ProtocolError,
    RequestError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
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

if TYPE_CHECKING:
    from semel.broker.broker import Broker

NO_ID: Final = bytes(16)
NULL_NAMES_SINCE: Final = 12
"""Before, a refusal of an id that nobody has names the topic by an empty string."""

CREATING_VERSION: Final = 4
"""In which the leader is asked to make topics: who asks says that it may."""

PARTITIONS_AT_ONCE: Final = 1024
"""Described before others have their turn."""

Describing = Iterator[list[MetadataResponseTopic] | None]
"""Gives None after each step, and all topics at the end."""


def metadata(broker: "Broker", request: MetadataRequest, call: Call) -> Handled:
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    found: list[TopicView | MetadataResponseTopic]
    if wants_all:
        found = [*_all_topics(broker)]
    else:
        may_create = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
        found = [_find(broker, wanted, may_create) for wanted in request.topics or ()]
        if may_create and not broker.lanes.leads_catalogue:
            missing = [topic for topic in found if isinstance(topic, MetadataResponseTopic)]
            leader = leader_to_ask(broker, call)
            if leader is not None and (names := [topic.name for topic in missing if topic.name]):
                return _created(leader, broker, request, found, names, call)
    describing = _describing(broker, found)
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


async def _created(
    leader: LedBy,
    broker: "Broker",
    request: MetadataRequest,
    found: list[TopicView | MetadataResponseTopic],
    names: list[str],
    call: Call,
) -> Answer:
    """Let the leader make what is missing, and tell of it as soon as it is heard of here."""
    wanted = MetadataRequest([MetadataRequestTopic(name=name) for name in names], True)
    with contextlib.suppress(CoordinatorLoadInProgress):
        await forwarded(leader, call.api, CREATING_VERSION, wanted)
    return await _later(broker, request, _describing(broker, found), call)


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
    if call.version < NULL_NAMES_SINCE:
        for topic in topics:
            topic.name = topic.name or ""
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == 0:
                topic.topic_authorized_operations = ON_TOPIC
    return Answer(
        MetadataResponse(
            brokers=[MetadataResponseBroker(*node) for node in broker.nodes.named_for(call)],
            cluster_id=broker.cluster_id,
            controller_id=broker.nodes.controller_id,
            topics=topics,
            cluster_authorized_operations=(
                ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED_FOR
            ),
        ),
    )


def _find(
    broker: "Broker", wanted: MetadataRequestTopic, may_create: bool
) -> TopicView | MetadataResponseTopic:
    """The topic, or why there is none."""
    catalogue = broker.lanes.catalogue
    name = wanted.name
    try:
        # The Java client leaves the name empty where it asks by id, and does not say null.
        if name is None or wanted.topic_id != NO_ID:
            by_id = catalogue.with_id(wanted.topic_id)
            if by_id is None:
                raise UnknownTopicId
            return by_id
        if name not in catalogue and not may_create:
            raise UnknownTopicOrPartition
        return catalogue.get(name) or _create(broker, name)
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


def _describing(broker: "Broker", found: Sequence[TopicView | MetadataResponseTopic]) -> Describing:
    """What is the same for all partitions is looked up once: a topic may have very many."""
    node_id = broker.config.node_id
    here = [node_id]
    led_by = broker.elsewhere.led_by
    there = [] if led_by is None else [led_by.node_id]
    epochs = {number: lane.view.epoch for number, lane in broker.lanes.by_number.items()}
    described: list[MetadataResponseTopic] = []
    left = PARTITIONS_AT_ONCE
    for topic in found:
        if isinstance(topic, MetadataResponseTopic):
            described.append(topic)
            continue
        partitions: list[MetadataResponsePartition] = []
        lane_of, count = topic.lane_of, topic.partition_count
        described.append(
            MetadataResponseTopic(0, topic.name, topic.topic_id, topic.is_internal, partitions)
        )
        for index in range(count):
            epoch = epochs.get(lane_of(index))
            if epoch is not None:
                partition = MetadataResponsePartition(0, index, node_id, epoch, here, here)
            elif led_by is not None:
                partition = MetadataResponsePartition(
                    0, index, led_by.node_id, led_by.epoch, there, there
                )
            else:
                partition = MetadataResponsePartition(
                    LeaderNotAvailable.code, index, -1, -1, here, []
                )
            partitions.append(partition)
            left -= 1
            if not left:
                left = PARTITIONS_AT_ONCE
                yield None
    yield described
