"""Changing the settings of a topic or a broker, as both requests for it do."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.broker.config_resources import ResourceType, name_in
from semel.broker.forwarding import forwarded, leader_to_ask
from semel.broker.layered_config import ALL_BROKERS
from semel.broker.topic_config import check, check_stays
from semel.errors import (
    NONE,
    CoordinatorLoadInProgress,
    InvalidRequest,
    JournalFull,
    RequestError,
    StorageError,
)
from semel.lane.leader import LedBy
from semel.wire.rights import ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_TOPIC_CONFIGS

if TYPE_CHECKING:
    from semel.broker.broker import Broker

Change = Callable[[dict[str, str]], dict[str, str]]
"""What the settings are to be, made of what they are."""


NEEDED: Final = {
    ResourceType.TOPIC.value: ALTER_TOPIC_CONFIGS,
    ResourceType.GROUP.value: ALTER_GROUP_CONFIGS,
    ResourceType.BROKER.value: ALTER_CLUSTER_CONFIGS,
    ResourceType.CLIENT_METRICS.value: ALTER_CLUSTER_CONFIGS,
}
"""To change the settings of a resource."""


def altered(broker: "Broker", request: Any, call: Call, alter_all: Callable[[], Answer]) -> Handled:
    """Let whoever leads the topics do it: clients ask any broker, or the one whose settings they
    are."""
    leader = None if broker.lanes.leads_catalogue else leader_to_ask(broker, call)
    if leader is None:
        return broker.topics.once_heard(alter_all())
    return _altered_elsewhere(broker, leader, request, call, alter_all)


async def _altered_elsewhere(
    broker: "Broker",
    leader: LedBy,
    request: Any,
    call: Call,
    alter_all: Callable[[], Answer],
) -> Answer:
    try:
        return Answer(await forwarded(broker, leader, call, request), NO_MARKS)
    except CoordinatorLoadInProgress:
        # Who is asked here cannot say more than that.
        return alter_all()


def alter(
    broker: "Broker", call: Call, resource_type: int, name: str, change: Change, only_check: bool
) -> tuple[int, str | None]:
    """The error code and its message, 0 and None if it is done."""
    try:
        if resource_type in NEEDED:
            right = NEEDED[resource_type]
            call.require(right, name_in(right, name))
        if resource_type == ResourceType.TOPIC.value:
            _alter_topic(broker, name, change, only_check)
        elif resource_type == ResourceType.BROKER.value:
            _alter_broker(broker, name, change, only_check)
        else:
            raise InvalidRequest(_without_settings(resource_type))
    except RequestError as error:
        return error.code, str(error) or None
    except JournalFull as error:
        return StorageError.code, str(error)
    if not only_check:
        kind = ResourceType(resource_type).name.lower()
        broker.tell_change(call.caller, f"settings of {kind} changed", name=name)
    return NONE, None


def _without_settings(resource_type: int) -> str:
    if resource_type == ResourceType.GROUP.value:
        return "groups have no settings here: those that Kafka has are of its newer protocols"
    return f"resources of type {resource_type} have no settings to change"


def _alter_topic(broker: "Broker", name: str, change: Change, only_check: bool) -> None:
    topic = broker.lanes.controller.view.catalogue.named(name)
    config = change(dict(topic.config))
    check(config, broker.batch_size_most)
    check_stays(topic.config, config)
    broker.topics.configure(name, config, only_check=only_check)


def _alter_broker(broker: "Broker", name: str, change: Change, only_check: bool) -> None:
    known = [*map(str, sorted(broker.nodes.ids))]
    if name != ALL_BROKERS and name not in known:
        raise InvalidRequest(f"there is no broker {name!r}: there are {', '.join(known)}")
    config = change(dict(broker.lanes.controller.view.broker_config(name)))
    broker.settings.set(name, config, only_check)
