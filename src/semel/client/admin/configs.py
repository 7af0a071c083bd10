"""Settings of topics, brokers and groups: read, and changed one by one."""

import enum
from collections.abc import Collection, Mapping
from typing import NamedTuple

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.errors import InvalidConfig
from semel.spelling import unknown_name
from semel.wire.messages import describe_configs, incremental_alter_configs

ALL_BROKERS = ""
"""The name under which settings of all brokers stand that are set while they run."""


class ResourceType(enum.IntEnum):
    TOPIC = 2
    BROKER = 4
    GROUP = 32

    def in_words(self, name: str) -> str:
        if self is ResourceType.BROKER and name == ALL_BROKERS:
            return "all brokers"
        return f"{self.name.lower()} {name}"


class ConfigSource(enum.IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        # A newer broker may know more of them.
        return cls.UNKNOWN


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool


class ConfigOperation(enum.IntEnum):
    SET = 0
    DELETE = 1


async def describe(
    cluster: Cluster, kind: ResourceType, names: Collection[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    """All settings of these, whether they were set for them or are inherited."""
    # Only a broker itself knows what it was started with.
    if kind is ResourceType.BROKER:
        described: dict[str, tuple[ConfigEntry, ...]] = {}
        for name in names:
            described |= await _described(cluster, kind, [name])
        return described
    return await _described(cluster, kind, names)


async def _described(
    cluster: Cluster, kind: ResourceType, names: Collection[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    request = describe_configs.DescribeConfigsRequest(
        resources=[describe_configs.DescribeConfigsResource(kind, name, None) for name in names]
    )
    broker_id = _broker_to_ask(kind, names)

    async def attempt() -> dict[str, tuple[ConfigEntry, ...]]:
        if broker_id is None:
            reply = await cluster.call_any(describe_configs, request)
        else:
            reply = await cluster.call(broker_id, describe_configs, request)
        configs = {}
        for result in reply.results:
            subject = f"settings of {kind.in_words(result.resource_name)}"
            raise_for(result.error_code, subject, result.error_message)
            configs[result.resource_name] = tuple(
                ConfigEntry(
                    entry.name,
                    entry.value,
                    ConfigSource(entry.config_source),
                    entry.read_only,
                    entry.is_sensitive,
                )
                for entry in result.configs
            )
        return configs

    return await cluster.retry(attempt)


async def alter(
    cluster: Cluster, kind: ResourceType, name: str, changes: Mapping[str, str | None]
) -> None:
    """Set these settings; None takes one back to what is inherited."""
    await _check_known(
        cluster, kind, name, [key for key, value in changes.items() if value is None]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        key,
                        ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                        value,
                    )
                    for key, value in changes.items()
                ],
            )
        ]
    )
    broker_id = _broker_to_ask(kind, [name])

    async def attempt() -> None:
        asked = await cluster.controller_id() if broker_id is None else broker_id
        reply = await cluster.call(asked, incremental_alter_configs, request)
        for result in reply.responses:
            raise_for(result.error_code, kind.in_words(name), result.error_message)

    await cluster.retry(attempt)


async def _check_known(
    cluster: Cluster, kind: ResourceType, name: str, settings: Collection[str]
) -> None:
    """A cluster takes back what it has never heard of, and a user has mistyped it."""
    if not settings:
        return
    asked = str(await cluster.controller_id()) if name == ALL_BROKERS else name
    known = [entry.name for entry in (await describe(cluster, kind, [asked]))[asked]]
    if name == ALL_BROKERS:
        known += [entry.name for entry in (await describe(cluster, kind, [name]))[name]]
    for each in settings:
        if each not in known:
            raise InvalidConfig(unknown_name("setting", each, known))


def _broker_to_ask(kind: ResourceType, names: Collection[str]) -> int | None:
    """A broker is asked for its own settings; None: whoever is asked for such settings."""
    if kind is not ResourceType.BROKER:
        return None
    (name,) = names
    return None if name == ALL_BROKERS else int(name)
