"""Options of the source and the sink: which there are, what they mean, and the nearest name."""

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from semel.client.cluster.blocking import ClientOptions
from semel.client.connecting.address import named_bootstrap_servers, parse_bootstrap_servers
from semel.client.connecting.security_settings import security_from
from semel.errors import ConfigError, InvalidTopic
from semel.spark.kafka_options import KAFKA_OPTIONS, REJECTED
from semel.spelling import unknown_name
from semel.topic_names import check_name

_log = logging.getLogger(__name__)

_Default = TypeVar("_Default")
_Value = TypeVar("_Value")

SOURCE = frozenset(
    {
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "startingTimestamp",
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "endingTimestamp",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition",
        "failOnDataLoss",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "kafkaConsumer.pollTimeoutMs",
        "includeHeaders",
        "groupIdPrefix",
    }
)

SINK = frozenset(
    {
        "topic",
        "markerTopic",
        "name",
        "transactionalId",
        "batchId",
        "delivery",
        "overrideMarker",
        "partitioner",
        "maxEncodedBytes",
        "offsetsGroup",
        "publishOffsets",
        "groupIdPrefix",
        "includeHeaders",
    }
)

# Spark hands its own options to every source and sink.
_READ_BY_SPARK = frozenset({"checkpointLocation", "queryName", "asyncProgressTrackingEnabled"})
_OF_SPARK = _READ_BY_SPARK | {"path"}

_REASONS = {
    "kafka.group.id": (
        "kafka.group.id: a source reads without a consumer group, and a sink has offsetsGroup and "
        "groupIdPrefix"
    ),
    "groupIdPrefix": "groupIdPrefix: a source reads without a consumer group",
}

_told: set[tuple[str, ...]] = set()
"""In this process."""

_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_DURATION_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class Options:
    """The options as a user wrote them, read by their documented names in any case."""

    def __init__(self, given: Mapping[str, str], known: Collection[str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        self._names = {name.lower(): name for name in (*known, *_OF_SPARK, *KAFKA_OPTIONS)}
        self._read = {name.lower() for name in _READ_BY_SPARK}
        for name in self._given:
            self._check(name)

    def _check(self, name: str) -> None:
        if name in REJECTED:
            raise ConfigError(f"option {name} is not supported: {REJECTED[name]}")
        if name not in self._names:
            for other in SOURCE | SINK:
                if other.lower() == name:
                    deed = "reading" if other in SOURCE else "writing"
                    raise ConfigError(f"option {other} is for {deed} alone")
            raise ConfigError(unknown_name("option", name, self._names.values()))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        self._read.add(name.lower())
        return self._given.get(name.lower())

    def named(self, name: str) -> str | None:
        """A name of the user's own, which stands where it is given instead of ours."""

        def parse(text: str) -> str:
            if not text:
                raise ValueError("it is a name, or left out")
            return text

        return self._parsed(name, None, parse)

    def topic(self, name: str) -> str | None:
        topic = self.text(name)
        if topic is not None:
            check_topic(topic, f"option {name}")
        return topic

    def tell_unread(self) -> None:
        """Name what was given in vain, once all has been read that means something here."""
        names = tuple(sorted(self._names[name] for name in self._given.keys() - self._read))
        # A sink is made anew for each micro-batch, in a process that is kept.
        if not names or names in _told:
            return
        _told.add(names)
        reasons = [_REASONS[name] for name in names if name in _REASONS]
        _log.warning("without effect here: option %s", "; ".join([", ".join(names), *reasons]))

    def flag(self, name: str, default: bool) -> bool:
        return self._parsed(name, default, _parse_flag)

    def number(self, name: str, default: int, least: int = 0) -> int:
        return self._parsed(name, default, lambda text: _parse_number(text, least))

    def number_or_none(self, name: str, least: int = 1) -> int | None:
        return self._parsed(name, None, lambda text: _parse_number(text, least))

    def timestamp_ms(self, name: str) -> int:
        """Of an option that is there."""
        return self._parsed(name, 0, _parse_timestamp_ms)

    def size(self, name: str, default: int) -> int:
        """Bytes; `10m` and `10MB` mean the same."""
        return self._parsed(name, default, _parse_size)

    def size_or_none(self, name: str) -> int | None:
        return self._parsed(name, None, _parse_size)

    def duration_ms(self, name: str, default: int) -> int:
        """A plain number is of milliseconds."""
        return self._parsed(name, default, _parse_duration_ms)

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        def parse(text: str) -> str:
            if text.lower() not in choices:
                raise ValueError(f"it is one of {', '.join(choices)}")
            return text.lower()

        return self._parsed(name, default, parse)

    def json(self, name: str, example: str) -> Any:
        def parse(text: str) -> Any:
            try:
                return json.loads(text)
            except ValueError as error:
                raise ValueError(f"it is JSON such as {example} ({error})") from None

        return self._parsed(name, None, parse)

    def client(self) -> ClientOptions:
        servers = self.text("kafka.bootstrap.servers") or named_bootstrap_servers()
        if not servers:
            raise ConfigError("option kafka.bootstrap.servers is missing: name a broker, host:port")
        parse_bootstrap_servers(servers)
        return ClientOptions(
            servers,
            client_id=self.text("kafka.client.id") or "semel-spark",
            timeout_ms=self.number("kafka.request.timeout.ms", 30_000, least=1),
            security=security_from(lambda name: self.text(f"kafka.{name}"), "option kafka."),
        )

    def _parsed(
        self, name: str, default: _Default, parse: Callable[[str], _Value]
    ) -> _Default | _Value:
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise ConfigError(f"option {name} is {text!r}: {error}") from None


def check_topic(topic: str, where: str) -> None:
    """Refuse what no topic can be called, before any cluster is asked."""
    try:
        check_name(topic)
    except InvalidTopic as error:
        raise ConfigError(f"{where} is {topic!r}: {error}") from None


def _parse_flag(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("it is true or false")
    return text.lower() == "true"


def _parse_number(text: str, least: int) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise ValueError(f"it is a whole number of at least {least}")
    return int(text)


def _parse_timestamp_ms(text: str) -> int:
    try:
        return _parse_number(text, 0)
    except ValueError:
        raise ValueError("it is a whole number of milliseconds since 1970") from None


def _parse_size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise ValueError("it is a size such as 1048576, 512k, 64m or 1g")
    return int(found[1]) * _SIZE_UNITS[found[2].lower()]


def _parse_duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("it is a duration such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _DURATION_UNITS_MS[found[2] or "ms"]
