"""DescribeConfigs (api key 32), versions 1-4.

v1  where a value comes from; v3  documentation and type; v4  flexible encoding

A broker is asked for by its number; by an empty name, for what was set for all while they run.
Besides its settings it shows what tools look for: where it listens and keeps its data, and a
release of Kafka whose features it has.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.broker import topic_config
from semel.broker.answer import Answer, Call
from semel.broker.config import about_settings
from semel.broker.config_resources import ConfigSource, ConfigSynonym, ResourceType, name_in
from semel.broker.endpoints import Endpoint
from semel.broker.layered_config import ALL_BROKERS
from semel.errors import InvalidRequest, RequestError
from semel.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from semel.wire.rights import (
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

KINDS: Final = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}

PROTOCOL_VERSION: Final = "3.8-IV0"
"""Tools that know no other way to tell a release look for it, and take a broker without it for one
of 2017."""


NEEDED: Final = {
    ResourceType.TOPIC.value: DESCRIBE_TOPIC_CONFIGS,
    ResourceType.GROUP.value: DESCRIBE_GROUP_CONFIGS,
    ResourceType.BROKER.value: DESCRIBE_CLUSTER_CONFIGS,
    ResourceType.CLIENT_METRICS.value: DESCRIBE_CLUSTER_CONFIGS,
}
"""To see the settings of a resource."""


def describe_configs(broker: "Broker", request: DescribeConfigsRequest, call: Call) -> Answer:
    results = [_describe(broker, resource, request, call) for resource in request.resources]
    return Answer(DescribeConfigsResponse(results=results))


def _describe(
    broker: "Broker",
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    call: Call,
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    try:
        if kind in NEEDED:
            call.require(NEEDED[kind], name_in(NEEDED[kind], name))
        configs = _configs(broker, kind, name, request, call)
    except RequestError as error:
        return DescribeConfigsResult(error.code, str(error) or None, kind, name)
    if resource.configuration_keys:
        wanted = set(resource.configuration_keys)
        configs = [config for config in configs if config.name in wanted]
    return DescribeConfigsResult(0, None, kind, name, configs)


def _configs(
    broker: "Broker", kind: int, name: str, request: DescribeConfigsRequest, call: Call
) -> list[DescribeConfigsResourceResult]:
    if kind == ResourceType.TOPIC.value:
        return _topic(broker, name, request)
    if kind == ResourceType.BROKER.value:
        if name not in (ALL_BROKERS, str(broker.config.node_id)):
            raise InvalidRequest(
                f"this is broker {broker.config.node_id}: {name!r} tells its own settings"
            )
        if name == ALL_BROKERS:
            return _all_brokers(broker, request)
        return [*_broker(broker, request), *_surroundings(broker, request, call)]
    if kind in (ResourceType.GROUP.value, ResourceType.CLIENT_METRICS.value):
        if not name:
            raise InvalidRequest("a group, or a subscription of metrics, has a name")
        # Those that Kafka has are of protocols that are not spoken here.
        return []
    raise InvalidRequest(f"resources of type {kind} have no settings here")


def _topic(
    broker: "Broker", name: str, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    topic = broker.lanes.catalogue.named(name)
    described = []
    for each in topic_config.shown(topic.config, broker.settings.layers):
        setting = topic_config.TOPIC_SETTINGS[each.name]
        described.append(
            _result(each.name, each.synonyms, request, setting.kind, setting.about, False)
        )
    return described


def _broker(
    broker: "Broker", request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    return [
        _result(
            name,
            _synonyms(broker, name),
            request,
            about.kind,
            about.about,
            about.is_fixed,
            is_secret=about.is_secret,
        )
        for name, about in about_settings().items()
        if name not in ("advertised.listeners", "listeners")
    ]


def _synonyms(broker: "Broker", name: str) -> list[ConfigSynonym]:
    found = broker.settings.layers.synonyms(name)
    if name == "retention.enforce" and all(
        lane.view.is_retention_enforced for lane in broker.lanes.led
    ):
        # It is given once. What is remembered counts, not what this start was told.
        found.insert(0, ConfigSynonym(name, "true", ConfigSource.STATIC_BROKER))
    return found


def _all_brokers(
    broker: "Broker", request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    described = []
    about = about_settings()
    for name, value in broker.settings.layers.for_all.items():
        synonyms = [ConfigSynonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
        described.append(
            _result(name, synonyms, request, about[name].kind, about[name].about, False)
        )
    return described


def _surroundings(
    broker: "Broker", request: DescribeConfigsRequest, call: Call
) -> list[DescribeConfigsResourceResult]:
    """What is no setting of its own, under the names by which tools look for it."""
    shown = {
        "advertised.listeners": str(
            Endpoint(call.caller.listener, *broker.nodes.address_for(call))
        ),
        "broker.id": str(broker.config.node_id),
        "inter.broker.protocol.version": PROTOCOL_VERSION,
        "listeners": str(Endpoint(call.caller.listener, *call.peer.listener)),
        "log.dirs": broker.data_folder,
        "process.roles": "broker,controller",
    }
    return [
        _result(
            name,
            [ConfigSynonym(name, value, ConfigSource.STATIC_BROKER)],
            request,
            "string",
            "Shown for the sake of tools.",
            True,
        )
        for name, value in shown.items()
    ]


def _result(
    name: str,
    synonyms: Sequence[ConfigSynonym],
    request: DescribeConfigsRequest,
    kind: str,
    about: str,
    is_fixed: bool,
    *,
    is_secret: bool = False,
) -> DescribeConfigsResourceResult:
    described = [
        DescribeConfigsSynonym(each.name, None if is_secret else each.value, each.source.value)
        for each in synonyms
    ]
    return DescribeConfigsResourceResult(
        name,
        None if is_secret else synonyms[0].value,
        is_fixed,
        synonyms[0].source.value,
        is_secret,
        described if request.include_synonyms else [],
        KINDS[kind],
        about if request.include_documentation else None,
    )
