"""The settings of a topic: Kafka's names and defaults, which are enforced, which only kept."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from semel.broker.config import DELETE, BrokerConfig
from semel.broker.config_resources import ConfigSource, ConfigSynonym
from semel.broker.layered_config import LayeredConfig
from semel.broker.setting import INT32_MAX, INT64_MAX, parse_bool, parse_int
from semel.errors import (
    ConfigError,
    InvalidConfig,
)
from semel.lane.compacting import CompactionSettings
from semel.spelling import SHOWN_MAX, unknown_name

LOG_APPEND_TIME = "LogAppendTime"
LANE = "semel.lane"
SPREAD = -1
_RATIO = re.compile(r"0(\.[0-9]{1,17})?|1(\.0{1,17})?")


class TopicSetting(NamedTuple):
    default: str
    kind: str  # int, long, boolean, string, list: as DescribeConfigs names them
    about: str
    least: int = 0
    most: int = INT64_MAX
    choices: tuple[str, ...] = ()
    broker_setting: str | None = None
    """The broker's setting that gives the default."""


TOPIC_SETTINGS: Mapping[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(
        "delete",
        "list",
        "Whether old records are deleted, or all but the newest of each key.",
        choices=("delete", "compact"),
        broker_setting="log.cleanup.policy",
    ),
    "compression.type": TopicSetting(
        "producer",
        "string",
        "Batches are stored as they were produced.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    "delete.retention.ms": TopicSetting(
        "86400000",
        "long",
        "How long compaction keeps a record that deletes its key.",
        broker_setting="log.cleaner.delete.retention.ms",
    ),
    "file.delete.delay.ms": TopicSetting("60000", "long", "Kept; the journal has its own files."),
    "flush.messages": TopicSetting(str(INT64_MAX), "long", "Kept; acks=all is always synced."),
    "flush.ms": TopicSetting(str(INT64_MAX), "long", "Kept; see log.flush.interval.ms."),
    "index.interval.bytes": TopicSetting("4096", "int", "Kept; every batch is indexed."),
    "max.compaction.lag.ms": TopicSetting(
        str(INT64_MAX),
        "long",
        "Records that are older are compacted, also before a journal file is full.",
        least=1,
        broker_setting="log.cleaner.max.compaction.lag.ms",
    ),
    "max.message.bytes": TopicSetting(
        "1048588",
        "int",
        "The largest record batch.",
        most=2**30,
        broker_setting="message.max.bytes",
    ),
    "message.timestamp.after.max.ms": TopicSetting(
        str(INT64_MAX), "long", "Kept, not enforced yet."
    ),
    "message.timestamp.before.max.ms": TopicSetting(
        str(INT64_MAX), "long", "Kept, not enforced yet."
    ),
    "message.timestamp.type": TopicSetting(
        "CreateTime",
        "string",
        "Whose time a record carries: its producer's or the log's.",
        choices=("CreateTime", LOG_APPEND_TIME),
    ),
    "min.cleanable.dirty.ratio": TopicSetting(
        "0.5",
        "double",
        "The share that was written since the last pass, from which on one is made.",
    ),
    "min.compaction.lag.ms": TopicSetting(
        "0",
        "long",
        "Younger records are not compacted.",
        broker_setting="log.cleaner.min.compaction.lag.ms",
    ),
    "min.insync.replicas": TopicSetting("1", "int", "The journal is the only copy.", least=1),
    "preallocate": TopicSetting("false", "boolean", "Kept; the journal always preallocates."),
    "retention.bytes": TopicSetting(
        "-1",
        "long",
        "Bytes of a partition that are kept at least; -1: all.",
        least=-1,
        broker_setting="log.retention.bytes",
    ),
    "retention.ms": TopicSetting(
        "604800000",
        "long",
        "How long records are kept; -1: for ever.",
        least=-1,
        broker_setting="log.retention.ms",
    ),
    "segment.bytes": TopicSetting(
        "1073741824", "int", "Kept; see journal.segment.bytes.", least=14, most=INT32_MAX
    ),
    "segment.index.bytes": TopicSetting(
        "10485760", "int", "Kept; every batch is indexed.", least=4, most=INT32_MAX
    ),
    "segment.jitter.ms": TopicSetting("0", "long", "Kept; the journal has its own files."),
    "segment.ms": TopicSetting(
        "604800000",
        "long",
        "How old records of a compacted topic become before a journal file that is not full is "
        "compacted too.",
        least=1,
        broker_setting="log.roll.ms",
    ),
    LANE: TopicSetting(
        str(SPREAD),
        "int",
        "The lane in which all partitions lie, decided when the topic is made; -1: they are spread "
        "over all.",
        least=SPREAD,
        most=INT32_MAX,
    ),
    "unclean.leader.election.enable": TopicSetting(
        "false", "boolean", "Kept; nothing acknowledged is ever given up."
    ),
}

COMPACT = "compact"


class Keeping(NamedTuple):
    """What a topic keeps of its records."""

    is_compacted: bool
    is_deleted: bool
    """Whether the oldest go at all."""
    retention_ms: int | None
    """None: for ever."""
    retention_bytes: int | None
    """Of a partition; None: all."""

    @property
    def is_limited(self) -> bool:
        return self.retention_ms is not None or self.retention_bytes is not None


def keeping_of(config: Mapping[str, str], broker: BrokerConfig) -> Keeping:
    policies = _parts(config.get("cleanup.policy", broker.log_cleanup_policy))
    retention_ms = retention_bytes = None
    if DELETE in policies:
        retention_ms = int(config.get("retention.ms", broker.log_retention_ms))
        retention_bytes = int(config.get("retention.bytes", broker.log_retention_bytes))
    return Keeping(
        COMPACT in policies,
        DELETE in policies,
        None if retention_ms == -1 else retention_ms,
        None if retention_bytes == -1 else retention_bytes,
    )


def compaction_of(config: Mapping[str, str], broker: BrokerConfig) -> CompactionSettings:
    return CompactionSettings(
        int(config.get("delete.retention.ms", broker.log_cleaner_delete_retention_ms)),
        int(config.get("min.compaction.lag.ms", broker.log_cleaner_min_compaction_lag_ms)),
        int(config.get("max.compaction.lag.ms", broker.log_cleaner_max_compaction_lag_ms)),
        int(config.get("segment.ms", broker.log_roll_ms)),
        float(config.get("min.cleanable.dirty.ratio", "0.5")),
        broker.log_cleaner_dedupe_buffer_size,
    )


def pinned_lane(config: Mapping[str, str]) -> int | None:
    """The lane in which the topic lies whole; None if it is spread over all."""
    lane = int(config.get(LANE, SPREAD))
    return None if lane == SPREAD else lane


def check_stays(before: Mapping[str, str], config: Mapping[str, str]) -> None:
    """Refuse to move what lies in a lane."""
    if pinned_lane(before) != pinned_lane(config):
        raise InvalidConfig(f"{LANE} is decided when a topic is made, and stays as it is")


def check(config: Mapping[str, str], message_bytes_most: int) -> None:
    """Refuse an unknown name or a value that it cannot have."""
    try:
        for name, value in config.items():
            setting = TOPIC_SETTINGS.get(name)
            if setting is None:
                raise InvalidConfig(unknown_name("topic setting", name, TOPIC_SETTINGS))
            _check_value(name, setting, value)
        if int(config.get("max.message.bytes", 0)) > message_bytes_most:
            raise InvalidConfig(
                f"max.message.bytes={config['max.message.bytes']}: a journal segment holds batches "
                f"of at most {message_bytes_most} bytes"
            )
    except ConfigError as error:
        raise InvalidConfig(str(error)) from error


def _check_value(name: str, setting: TopicSetting, value: str) -> None:
    if setting.choices:
        for part in _parts(value) if setting.kind == "list" else [value]:
            if part not in setting.choices:
                raise InvalidConfig(
                    f"{name}={value[:SHOWN_MAX]}: must be of {', '.join(setting.choices)}"
                )
    elif setting.kind == "boolean":
        parse_bool(name, value)
    elif setting.kind == "double":
        if not _RATIO.fullmatch(value):
            raise InvalidConfig(f"{name}={value[:SHOWN_MAX]}: must be a number from 0 to 1")
    else:
        parse_int(name, value, setting.least, setting.most)


def _parts(value: str) -> list[str]:
    """Of a list, which may be empty: a topic with no cleanup policy keeps all that it has."""
    return [part.strip() for part in value.split(",")] if value.strip() else []


class Shown(NamedTuple):
    """A setting of a topic."""

    name: str
    synonyms: list[ConfigSynonym]
    """Every value that it has somewhere; the first one counts."""

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source


def shown(config: Mapping[str, str], broker: LayeredConfig) -> Iterator[Shown]:
    """Every setting of a topic with its value and where that comes from."""
    for name, setting in TOPIC_SETTINGS.items():
        synonyms = [ConfigSynonym(name, config[name], ConfigSource.TOPIC)] if name in config else []
        if setting.broker_setting is not None:
            synonyms += broker.synonyms(setting.broker_setting)
        else:
            synonyms.append(ConfigSynonym(name, setting.default, ConfigSource.DEFAULT))
        yield Shown(name, synonyms)
