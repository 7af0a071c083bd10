"""Metadata (api key 3), versions 0-13.

v0   an empty list means all topics; later null does
v4   the client says whether topics may be created
v8   what a client may do with topics is told, and until v10 with the cluster
v9   flexible encoding; v10  topic ids
v12  a topic may be asked for by its id
v13  an error of the whole answer, for clients of a cluster that is gone (KIP-1102): there is none

A topic that does not exist is created when the broker and the client allow it, and the answer
waits until it is durable.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.authorized_operations import NOT_ASKED_FOR, ON_CLUSTER, ON_TOPIC
from semel.errors import (
    JournalFull,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    RequestError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from semel.lane.topics import CreateTopic
from semel.lane.view import TopicView
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

NO_ID = bytes(16)
NULL_NAMES_SINCE = 12
"""Before, a refusal of an id that nobody has names the topic by an empty string."""


def metadata(broker: "Broker", request: MetadataRequest, call: Call) -> Answer:
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    if wants_all:
        topics = [_describe(broker, topic) for topic in broker.catalogue]
    else:
        may_create = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
        topics = [_find(broker, wanted, may_create) for wanted in request.topics or ()]
        if call.version < NULL_NAMES_SINCE:
            for topic in topics:
                topic.name = topic.name or ""
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == 0:
                topic.topic_authorized_operations = ON_TOPIC
    host, port = broker.address_for(call)
    return Answer(
        MetadataResponse(
            brokers=[MetadataResponseBroker(broker.config.node_id, host, port)],
            cluster_id=broker.cluster_id,
            controller_id=broker.controller_id,
            topics=topics,
            cluster_authorized_operations=(
                ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED_FOR
            ),
        ),
    )


def _find(
    broker: "Broker", wanted: MetadataRequestTopic, may_create: bool
) -> MetadataResponseTopic:
    catalogue = broker.catalogue
    name = wanted.name
    try:
        # The Java client leaves the name empty where it asks by id, and does not say null.
        if name is None or wanted.topic_id != NO_ID:
            by_id = catalogue.with_id(wanted.topic_id)
            if by_id is None:
                raise UnknownTopicId
            return _describe(broker, by_id)
        topic = catalogue.get(name)
        if topic is None:
            if not may_create:
                raise UnknownTopicOrPartition
            topic = _create(broker, name)
        return _describe(broker, topic)
    except NotLeaderOrFollower:
        # Where the topics are led the next request may tell.
        return MetadataResponseTopic(LeaderNotAvailable.code, name, wanted.topic_id)
    except RequestError as error:
        return MetadataResponseTopic(error.code, name, wanted.topic_id)


def _create(broker: "Broker", name: str) -> TopicView:
    try:
        if name in INTERNAL_TOPICS:
            return broker.internal_topic(name)
        broker.create_topic(CreateTopic(name, broker.config.num_partitions, {}))
    except (JournalFull, TopicAlreadyExists):
        # There is no room, or one of this name is still being deleted.
        raise LeaderNotAvailable from None
    return broker.catalogue.named(name)


def _describe(broker: "Broker", topic: TopicView) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.is_internal,
        _partitions(broker, topic),
    )


def _partitions(broker: "Broker", topic: TopicView) -> list[MetadataResponsePartition]:
    """What is the same for all of them is looked up once: a topic may have very many."""
    node_id = broker.config.node_id
    here = [node_id]
    terms = {number: lane.view.term for number, lane in broker.lanes.items()}
    lane_of = topic.lane_of
    described = []
    for index in range(topic.partition_count):
        term = terms.get(lane_of(index))
        described.append(
            MetadataResponsePartition(LeaderNotAvailable.code, index, -1, -1, here, [])
            if term is None
            else MetadataResponsePartition(0, index, node_id, term, here, here)
        )
    return described
