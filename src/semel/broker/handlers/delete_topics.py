"""DeleteTopics (api key 20), versions 1-6.

v4  flexible encoding; v5  errors carry a message; v6  topics by name or id
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call, Handled
from semel.errors import (
    InvalidRequest,
    JournalFull,
    RequestError,
    StorageError,
    TopicDeletionDisabled,
    UnknownTopicId,
)
from semel.lane.view import TopicView
from semel.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from semel.wire.rights import DELETE_IN_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_topics(broker: "Broker", request: DeleteTopicsRequest, call: Call) -> Handled:
    wanted = request.topics
    if call.version < 6:
        wanted = [DeleteTopicState(name) for name in request.topic_names]
    results = [_delete(broker, topic, call) for topic in wanted]
    return broker.topics.once_heard(Answer(DeleteTopicsResponse(responses=results)))


def _delete(broker: "Broker", wanted: DeleteTopicState, call: Call) -> DeletableTopicResult:
    name = wanted.name
    try:
        if not broker.config.delete_topic_enable:
            raise TopicDeletionDisabled("delete.topic.enable is false")
        topic = _find(broker, wanted, call)
        name = topic.name
        if not call.may_see(DELETE_IN_CLUSTER):
            call.require(DELETE_TOPIC, name)
        if topic.is_internal:
            raise InvalidRequest(f"topic {topic.name!r} belongs to the broker")
        topic_id = topic.topic_id
        broker.topics.delete(topic)
    except RequestError as error:
        return DeletableTopicResult(name, wanted.topic_id, error.code, str(error) or None)
    except JournalFull as error:
        return DeletableTopicResult(name, wanted.topic_id, StorageError.code, str(error))
    broker.tell_change(call.caller, "topic deleted", topic=name)
    return DeletableTopicResult(name, topic_id)


def _find(broker: "Broker", wanted: DeleteTopicState, call: Call) -> TopicView:
    """Raises the refusal of who may not know of it: by its id, the one of an id that nobody has."""
    catalogue = broker.lanes.controller.view.catalogue
    sees_all = call.may_see(DELETE_IN_CLUSTER)
    if wanted.name is not None:
        if not sees_all and not call.may_see(DESCRIBE_TOPIC, wanted.name):
            call.require(DELETE_TOPIC, wanted.name)
        return catalogue.named(wanted.name)
    topic = catalogue.with_id(wanted.topic_id)
    if topic is None or not (sees_all or call.may(DESCRIBE_TOPIC, topic.name)):
        raise UnknownTopicId("there is no topic with this id")
    return topic
