"""AlterConfigs (api key 33), versions 0-2.

v2  flexible encoding

Replaces all settings of a topic: what is not named falls back to its default.
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.broker.topic_config import alter_topic
from semel.errors import JournalFull, RequestError, StorageError
from semel.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def alter_configs(broker: "Broker", request: AlterConfigsRequest, call: Call) -> Answer:
    responses = [_alter(broker, resource, request.validate_only) for resource in request.resources]
    return Answer(AlterConfigsResponse(responses=responses), broker.lane.journal.end)


def _alter(
    broker: "Broker", resource: AlterConfigsResource, only_check: bool
) -> AlterConfigsResourceResponse:
    config = {entry.name: entry.value for entry in resource.configs if entry.value is not None}
    code, message = 0, None
    try:
        alter_topic(
            broker, resource.resource_type, resource.resource_name, lambda _: config, only_check
        )
    except RequestError as error:
        code, message = error.code, str(error) or None
    except JournalFull as error:
        code, message = StorageError.code, str(error)
    return AlterConfigsResourceResponse(
        code, message, resource.resource_type, resource.resource_name
    )
