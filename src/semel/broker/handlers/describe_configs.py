"""DescribeConfigs (api key 32), versions 1-4.

v1  where a value comes from; v3  documentation and type; v4  flexible encoding
"""

from typing import TYPE_CHECKING

from semel.broker import topic_config
from semel.broker.answer import Answer, Call
from semel.broker.config import about_settings
from semel.broker.topic_config import ConfigSource
from semel.errors import InvalidRequest, RequestError
from semel.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

TOPIC, BROKER = 2, 4
KINDS = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}


def describe_configs(broker: "Broker", request: DescribeConfigsRequest, call: Call) -> Answer:
    results = [_describe(broker, resource, request) for resource in request.resources]
    return Answer(DescribeConfigsResponse(results=results))


def _describe(
    broker: "Broker", resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    try:
        if kind == TOPIC:
            configs = _topic(broker, name, request)
        elif kind == BROKER:
            if name not in ("", str(broker.config.node_id)):
                raise InvalidRequest(f"the only broker is {broker.config.node_id}, not {name!r}")
            configs = _broker(broker, request)
        else:
            raise InvalidRequest(f"resources of type {kind} have no settings here")
    except RequestError as error:
        return DescribeConfigsResult(error.code, str(error) or None, kind, name)
    if resource.configuration_keys is not None:
        wanted = set(resource.configuration_keys)
        configs = [config for config in configs if config.name in wanted]
    return DescribeConfigsResult(0, None, kind, name, configs)


def _topic(
    broker: "Broker", name: str, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    topic = broker.catalogue.named(name)
    described = []
    for key, value, source in topic_config.shown(topic.config, broker.config):
        setting = topic_config.TOPIC_SETTINGS[key]
        synonyms = [DescribeConfigsSynonym(key, value, source.value)]
        described.append(
            DescribeConfigsResourceResult(
                key,
                value,
                False,
                source.value,
                False,
                synonyms if request.include_synonyms else [],
                KINDS[setting.kind],
                setting.about if request.include_documentation else None,
            )
        )
    return described


def _broker(
    broker: "Broker", request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    default = ConfigSource.DEFAULT.value
    about = about_settings()
    return [
        DescribeConfigsResourceResult(
            name,
            value,
            True,
            default if value == about[name].default else ConfigSource.STATIC_BROKER.value,
            False,
            [],
            KINDS[about[name].kind],
            about[name].about if request.include_documentation else None,
        )
        for name, value in broker.config.shown().items()
    ]
