"""The topic that a request means by an id, as far as its client may know of it."""

from typing import TYPE_CHECKING

from semel.broker.answer import Call
from semel.errors import NotLeaderOrFollower, UnknownTopicId
from semel.lane.view import TopicView
from semel.wire.rights import DESCRIBE_TOPIC, Right

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def topic_with_id(broker: "Broker", topic_id: bytes, right: Right, call: Call) -> TopicView:
    """One with which this may be done. Raises UnknownTopicId, NotLeaderOrFollower if only others
    could tell that there is none, and the refusal of who may know that there is one: who may not
    hears what is said of an id that nobody has."""
    found = broker.lanes.topic_with_id(topic_id)
    if found is not None and not call.may(right, found.name):
        if call.may_see(DESCRIBE_TOPIC, found.name):
            raise call.refusal(right, found.name)
        if not broker.lanes.leads_catalogue:
            raise NotLeaderOrFollower("the topics are led elsewhere")
        found = None
    if found is None:
        raise UnknownTopicId("there is no topic with this id")
    return found
