"""What commands are told alike: which cluster to talk to and how, topics, KEY=VALUE."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from semel.cli.connection import (
    PROFILE_VARIABLE,
    SHOWN_PATH,
    Connection,
    check_is_said,
    connection_of,
)
from semel.cli.numbers import whole_number
from semel.cli.output import note
from semel.client.admin import topics
from semel.client.admin.finding import check_partition, find_topics
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.client.connecting.address import (
    BOOTSTRAP_SERVERS_DEFAULT,
    BOOTSTRAP_SERVERS_VARIABLE,
    parse_bootstrap_servers,
)
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.security import Security
from semel.spelling import noun
from semel.types import TopicPartition

_Result = TypeVar("_Result")


ProfileName = Annotated[
    str | None,
    Parameter(
        name="--profile",
        help=f"A profile of {SHOWN_PATH}, which has brokers, TLS and SASL; else that which "
        f"{PROFILE_VARIABLE} names.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    Parameter(
        name="--command-config",
        help="A file with Kafka's settings for TLS and SASL, as Kafka's own commands take it.",
    ),
]
ClientSettings = Annotated[
    tuple[str, ...],
    Parameter(
        name=["-X"],
        negative="",
        help="A setting of Kafka's clients as NAME=VALUE, over those of files; repeatable.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class ClusterArguments:
    """Which cluster, and how to reach it."""

    bootstrap_server: Annotated[
        str | None,
        Parameter(
            name=["-b", "--bootstrap-server", "--brokers"],
            help="Brokers to ask first, as HOST:PORT, separated by commas; else those that "
            f"{BOOTSTRAP_SERVERS_VARIABLE} names, or {BOOTSTRAP_SERVERS_DEFAULT}.",
        ),
    ] = None
    profile: ProfileName = None
    command_config: CommandConfig = None
    settings: ClientSettings = ()

    @property
    def are_told(self) -> bool:
        """Whether arguments say anything of it."""
        return self != ClusterArguments()

    @cached_property
    def connection(self) -> Connection:
        check_is_said("--bootstrap-server", self.bootstrap_server)
        return connection_of(
            self.bootstrap_server, self.profile, self.command_config, parse_pairs(self.settings)
        )


@Parameter(name="*")
@dataclass(frozen=True)
class NodeArguments:
    """How nodes are reached whose addresses are known."""

    profile: ProfileName = None
    command_config: CommandConfig = None
    settings: ClientSettings = ()

    @property
    def security(self) -> Security:
        """Only what was asked for: the profile `default` is about brokers that nobody named."""
        given = parse_pairs(self.settings)
        return connection_of("", self.profile, self.command_config, given).security


@Parameter(name="*")
@dataclass(frozen=True)
class Target(ClusterArguments):
    given_timeout_ms: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            name="--timeout-ms",
            help="How long one request may take; 30000 by default.",
        ),
    ] = None
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")
    ] = False

    @property
    def timeout_ms(self) -> int:
        if self.given_timeout_ms is None:
            return self.connection.timeout_ms
        if self.given_timeout_ms < 1:
            raise ConfigError(f"--timeout-ms is {self.given_timeout_ms}, and must be positive")
        return self.given_timeout_ms

    def run(self, work: Callable[[Cluster], Awaitable[_Result]]) -> _Result:
        """Connect, do this work, and close the connections."""

        async def connected(cluster: Cluster) -> _Result:
            async with cluster:
                return await work(cluster)

        return self.run_unconnected(connected)

    def run_unconnected(self, work: Callable[[Cluster], Awaitable[_Result]]) -> _Result:
        """The same for work that can begin while nobody answers."""
        connection = self.connection
        bootstrap_servers = parse_bootstrap_servers(connection.bootstrap_servers)
        timeout_ms = self.timeout_ms

        async def run() -> _Result:
            cluster = Cluster(
                bootstrap_servers,
                client_id=connection.client_id,
                timeout_ms=timeout_ms,
                security=connection.security,
            )
            try:
                return await work(cluster)
            finally:
                await cluster.__aexit__(None, None, None)

        return asyncio.run(run())


DEFAULT_CLUSTER = ClusterArguments()
DEFAULT_NODES = NodeArguments()
DEFAULT_TARGET = Target()


def parse_pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Options of the form KEY=VALUE."""
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{text!r} is not of the form KEY=VALUE")
        pairs.append((key, value))
    return pairs


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """As `parse_pairs`, of which each key may stand there once: a change is of one mind."""
    settings: dict[str, str] = {}
    for key, value in parse_pairs(texts):
        if key in settings:
            raise ConfigError(f"{key} is given twice: {settings[key]!r} and {value!r}")
        settings[key] = value
    return settings


_PATTERN = "^"
_OF_PATTERNS = frozenset("*+?|()[]{}$^\\")
"""What no topic has in its name."""


async def chosen_topics(cluster: Cluster, names: Collection[str]) -> dict[str, TopicMetadata]:
    """These topics; what begins with ^ is a regular expression for names, as it is to kcat."""
    named, patterns = split_names(names)
    found = await find_topics(cluster, named) if named else {}
    if patterns:
        known = (await cluster.describe()).topics
        for pattern in patterns:
            matching = topics.matching(known, pattern, whole=False)
            if not matching:
                raise UnknownTopicOrPartition(f"no topic has a name that matches {pattern!r}")
            found |= {name: known[name] for name in matching}
    return found


def split_names(names: Collection[str]) -> tuple[list[str], list[str]]:
    """Names, and the patterns among them."""
    patterns = [name for name in names if name.startswith(_PATTERN)]
    named = [name for name in names if name not in patterns]
    for name in named:
        if not _OF_PATTERNS.isdisjoint(name):
            raise ConfigError(f"{name!r} is not a name; a pattern begins with ^, as '^orders-.*'")
    return named, patterns


def tell_matches(names: Collection[str], chosen: Iterable[TopicPartition]) -> None:
    """Which topics the patterns among the names stand for, where what is done to them stays."""
    named, patterns = split_names(names)
    if patterns:
        matched = dict.fromkeys(each.topic for each in chosen if each.topic not in named)
        verb = noun(len(patterns), "matches", "match")
        note(f"{', '.join(map(repr, patterns))} {verb} {', '.join(matched) or 'no others'}")


def subscription(names: Collection[str]) -> list[str] | re.Pattern[str]:
    """The same for a member of a group, which is to have topics that come later too."""
    named, patterns = split_names(names)
    if not patterns:
        return named
    return re.compile("|".join((*map(re.escape, named), *(f"(?:{each}).*" for each in patterns))))


PartitionNumbers = Annotated[
    tuple[str, ...],
    Parameter(name=["-p", "--partitions"], negative="", help="Only these, as 0,1,2; repeatable."),
]


def parse_partition_numbers(texts: tuple[str, ...]) -> frozenset[int]:
    numbers = set()
    for text in ",".join(texts).split(",") if texts else ():
        if not text.strip().isdecimal():
            raise ConfigError(f"{text!r} is not a number of a partition")
        numbers.add(int(text))
    return frozenset(numbers)


async def choose_partitions(
    cluster: Cluster, names: Collection[str], wanted: frozenset[int]
) -> list[TopicPartition]:
    """Those of these topics that have one of these numbers; without any, all."""
    chosen = []
    for topic in (await chosen_topics(cluster, names)).values():
        for number in sorted(wanted):
            check_partition(topic, number)
        numbers = sorted(wanted) or range(len(topic.partitions))
        chosen += [TopicPartition(topic.name, number) for number in numbers]
    return chosen
