"""Changing the settings of a topic or a broker, as both requests for it do."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from semel.broker.config_resources import ResourceType
from semel.broker.layered_config import ALL_BROKERS
from semel.broker.topic_config import check
from semel.errors import NONE, InvalidRequest, JournalFull, RequestError, StorageError
from semel.lane.topics import ConfigureTopic

if TYPE_CHECKING:
    from semel.broker.broker import Broker

Change = Callable[[dict[str, str]], dict[str, str]]
"""What the settings are to be, made of what they are."""


def alter(
    broker: "Broker", resource_type: int, name: str, change: Change, only_check: bool
) -> tuple[int, str | None]:
    """The error code and its message, 0 and None if it is done."""
    try:
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
    return NONE, None


def _without_settings(resource_type: int) -> str:
    if resource_type == ResourceType.GROUP.value:
        return "groups have no settings here: those that Kafka has are of its newer protocols"
    return f"resources of type {resource_type} have no settings to change"


def _alter_topic(broker: "Broker", name: str, change: Change, only_check: bool) -> None:
    topic = broker.lanes.controller.view.catalogue.named(name)
    config = change(dict(topic.config))
    check(config, broker.batch_size_most)
    broker.lanes.controller.submit(ConfigureTopic(name, config, only_check))


def _alter_broker(broker: "Broker", name: str, change: Change, only_check: bool) -> None:
    check_broker_name(broker, name)
    config = change(dict(broker.lanes.controller.view.broker_config(name)))
    broker.reconfigure(name, config, only_check)


def check_broker_name(broker: "Broker", name: str) -> None:
    if name not in (ALL_BROKERS, str(broker.config.node_id)):
        raise InvalidRequest(f"the only broker is {broker.config.node_id}, not {name!r}")
