"""IncrementalAlterConfigs (api key 44), versions 0-1.

v1  flexible encoding

Each entry sets or deletes one setting of a topic, or of a broker while it runs, or appends to or
subtracts from a list.
"""

from typing import TYPE_CHECKING

from semel.broker.altering import alter, altered
from semel.broker.answer import Answer, Call, Handled
from semel.broker.config import about_settings
from semel.broker.config_resources import ResourceType
from semel.broker.topic_config import TOPIC_SETTINGS
from semel.errors import InvalidConfig, InvalidRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

SET, DELETE, APPEND, SUBTRACT = range(4)


def incremental_alter_configs(
    broker: "Broker", request: IncrementalAlterConfigsRequest, call: Call
) -> Handled:
    def alter_all() -> Answer:
        only_check = request.validate_only
        responses = [_alter(broker, call, resource, only_check) for resource in request.resources]
        return Answer(IncrementalAlterConfigsResponse(responses=responses))

    return altered(broker, request, call, alter_all)


def _alter(
    broker: "Broker", call: Call, resource: AlterConfigsResource, only_check: bool
) -> AlterConfigsResourceResponse:
    def changed(current: dict[str, str]) -> dict[str, str]:
        config = dict(current)
        is_topic = resource.resource_type == ResourceType.TOPIC.value
        for entry in resource.configs:
            _change(config, entry, is_topic)
        return config

    subject = resource.resource_type, resource.resource_name
    outcome = alter(broker, call, *subject, changed, only_check)
    return AlterConfigsResourceResponse(*outcome, *subject)


def _change(config: dict[str, str], entry: AlterableConfig, is_topic: bool) -> None:
    operation = entry.config_operation
    if operation == DELETE:
        config.pop(entry.name, None)
        return
    if entry.value is None:
        raise InvalidRequest(f"{entry.name} is set to null")
    if operation == SET:
        config[entry.name] = entry.value
        return
    setting = (TOPIC_SETTINGS if is_topic else about_settings()).get(entry.name)
    if setting is None or setting.kind != "list":
        raise InvalidConfig(f"{entry.name} is not a list")
    items = [item for item in config.get(entry.name, setting.default).split(",") if item]
    given = entry.value.split(",")
    if operation == APPEND:
        items += [item for item in given if item not in items]
    elif operation == SUBTRACT:
        items = [item for item in items if item not in given]
    else:
        raise InvalidRequest(f"operation {operation} on {entry.name} is unknown")
    config[entry.name] = ",".join(items)
