"""AlterConfigs (api key 33), versions 0-2.

v2  flexible encoding

Replaces all that was set for a topic, or for a broker while it runs: what is not named falls back
to its default, or to what the broker was started with.
"""

from typing import TYPE_CHECKING

from semel.broker.altering import alter, altered
from semel.broker.answer import Answer, Call, Handled
from semel.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def alter_configs(broker: "Broker", request: AlterConfigsRequest, call: Call) -> Handled:
    def alter_all() -> Answer:
        only_check = request.validate_only
        responses = [_alter(broker, call, resource, only_check) for resource in request.resources]
        return Answer(AlterConfigsResponse(responses=responses))

    return altered(broker, request, call, alter_all)


def _alter(
    broker: "Broker", call: Call, resource: AlterConfigsResource, only_check: bool
) -> AlterConfigsResourceResponse:
    config = {entry.name: entry.value for entry in resource.configs if entry.value is not None}
    subject = resource.resource_type, resource.resource_name
    outcome = alter(broker, call, *subject, lambda _: config, only_check)
    return AlterConfigsResourceResponse(*outcome, *subject)
