"""What commands are told alike: which cluster to talk to and how, topics, KEY=VALUE."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.client.connecting.address import (
    BOOTSTRAP_SERVERS_DEFAULT,
    BOOTSTRAP_SERVERS_VARIABLE,
    parse_bootstrap_servers,
)
from semel.client.connecting.security_settings import SECURITY_SETTINGS, security_from
from semel.client.security import PLAINTEXT, Security
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.spelling import hint_at
from semel.types import TopicPartition

_Result = TypeVar("_Result")

_PROPERTY = re.compile(r"((?:[^\\\s=:]|\\.)+)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_BACKSLASHES_AT_END = re.compile(r"\\*\Z")


@Parameter(name="*")
@dataclass(frozen=True)
class Target:
    bootstrap_server: Annotated[
        str | None,
        Parameter(
            name=["-b", "--bootstrap-server", "--brokers"],
            help="Brokers to ask first, as HOST:PORT, separated by commas; else those that "
            f"{BOOTSTRAP_SERVERS_VARIABLE} names, or {BOOTSTRAP_SERVERS_DEFAULT}.",
        ),
    ] = None
    command_config: Annotated[
        Path | None,
        Parameter(
            name="--command-config",
            help="A file with Kafka's settings for TLS and SASL, as Kafka's own commands take it.",
        ),
    ] = None
    timeout_ms: Annotated[
        int, Parameter(name="--timeout-ms", help="How long one request may take.")
    ] = 30_000
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")
    ] = False

    def security(self) -> Security:
        return PLAINTEXT if self.command_config is None else _read_security(self.command_config)

    def run(self, work: Callable[[Cluster], Awaitable[_Result]]) -> _Result:
        """Connect, do this work, and close the connections."""
        bootstrap_servers = parse_bootstrap_servers(self.bootstrap_server)
        security = self.security()

        async def connected() -> _Result:
            async with Cluster(
                bootstrap_servers, timeout_ms=self.timeout_ms, security=security
            ) as cluster:
                return await work(cluster)

        return asyncio.run(connected())


DEFAULT_TARGET = Target()


def _read_security(file: Path) -> Security:
    """Whatever else a client is told there is not for commands, and is passed over."""
    given = read_properties(file)
    for name in sorted(given.keys() - SECURITY_SETTINGS):
        if name.startswith(("sasl.", "security.", "ssl.")):
            known = ", ".join(sorted(SECURITY_SETTINGS))
            raise ConfigError(f"{file}: {name} cannot be honoured: there are {known}")
    return security_from(given.get, f"{file}: ")


def read_properties(file: Path) -> dict[str, str]:
    """A file as Java writes it and Kafka's own commands take it."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {(error.strerror or '').lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: {error}") from error
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values. Lines that begin with # or ! are comments; a \\ at the end goes on."""
    found: dict[str, str] = {}
    logical = ""
    for line in [*text.splitlines(), ""]:
        part = line.lstrip()
        if not logical and part.startswith(("#", "!")):
            continue
        logical += part
        if len(_BACKSLASHES_AT_END.findall(logical)[0]) % 2:
            logical = logical[:-1]
            continue
        if match := _PROPERTY.fullmatch(logical):
            found[_unescaped(match[1])] = _unescaped(match[2])
        logical = ""
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2]),
        text,
    )


def parse_pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Options of the form KEY=VALUE."""
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{text!r} is not of the form KEY=VALUE")
        pairs.append((key, value))
    return pairs


async def find_topics(cluster: Cluster, names: Collection[str]) -> dict[str, TopicMetadata]:
    """Refused with the nearest name that exists if one of them does not."""
    try:
        return await cluster.topics(names)
    except UnknownTopicOrPartition as error:
        raise await with_nearest(cluster, names, error) from None


async def with_nearest(
    cluster: Cluster, names: Collection[str], error: UnknownTopicOrPartition
) -> UnknownTopicOrPartition:
    """This refusal of a name that is not a topic, with the one that may have been meant."""
    topics = (await cluster.describe()).topics
    known = [name for name, topic in topics.items() if not topic.is_internal]
    missing = next((name for name in names if name not in topics), "")
    return UnknownTopicOrPartition(f"{error}{hint_at(missing, known)}")


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
    for topic in (await find_topics(cluster, names)).values():
        numbers = {one.partition for one in topic.partitions}
        missing = wanted - numbers
        if missing:
            raise UnknownTopicOrPartition(
                f"topic {topic.name} has no partition {min(missing)}: it has {len(numbers)}"
            )
        chosen += [TopicPartition(topic.name, number) for number in sorted(wanted or numbers)]
    return chosen
