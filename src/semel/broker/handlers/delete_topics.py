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

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_topics(broker: "Broker", request: DeleteTopicsRequest, call: Call) -> Handled:
    wanted = request.topics
    if call.version < 6:
        wanted = [DeleteTopicState(name) for name in request.topic_names]
    results = [_delete(broker, topic) for topic in wanted]
    return broker.topics.once_heard(Answer(DeleteTopicsResponse(responses=results)))


def _delete(broker: "Broker", wanted: DeleteTopicState) -> DeletableTopicResult:
    try:
        if not broker.config.delete_topic_enable:
            raise TopicDeletionDisabled("delete.topic.enable is false")
        topic = _find(broker, wanted)
        if topic.is_internal:
            raise InvalidRequest(f"topic {topic.name!r} belongs to the broker")
        name, topic_id = topic.name, topic.topic_id
        broker.topics.delete(topic)
    except RequestError as error:
        return DeletableTopicResult(wanted.name, wanted.topic_id, error.code, str(error) or None)
    except JournalFull as error:
        return DeletableTopicResult(wanted.name, wanted.topic_id, StorageError.code, str(error))
    return DeletableTopicResult(name, topic_id)


def _find(broker: "Broker", wanted: DeleteTopicState) -> TopicView:
    catalogue = broker.lanes.controller.view.catalogue
    if wanted.name is not None:
        return catalogue.named(wanted.name)
    topic = catalogue.with_id(wanted.topic_id)
    if topic is None:
        raise UnknownTopicId("there is no topic with this id")
    return topic
