"""Everything an operator may set, under Kafka's name where Kafka has one.

A field `num_partitions` is the setting `num.partitions`. Unknown names are refused with the nearest
one that exists, if one is near.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from semel.access.principal import Principal
from semel.access.rights import super_users
from semel.broker.config_file import settings_in
from semel.broker.listener_settings import ListenerSettings
from semel.broker.setting import (
    AUTHORIZER,
    INT32_MAX,
    INT64_MAX,
    SettingDescription,
    description,
    is_secret,
    parse,
    parse_int,
    setting,
    setting_name,
    text_of,
)
from semel.errors import ConfigError
from semel.references import dereferenced, is_reference
from semel.spelling import unknown_name
from semel.store.prices import S3_PRICES

# What is an option of `semel serve` by itself, by the names that one may look for it under.
_OPTIONS = {
    "listen": "--listen HOST:PORT",
    "advertise": "--advertise HOST:PORT",
    "data": "--data DIR",
    "log.dir": "--data DIR",
    "log.dirs": "--data DIR",
    "ephemeral": "--ephemeral",
    "store": "--store URL",
    "metrics": "--metrics HOST:PORT",
}

DETECTION_MS_MAX_OF_ACCESS = 9_000
"""A leader finds out whether it still leads three times as often, and what it says of access counts
for five seconds."""
OF_LISTENER = "listener.name."
"""Before the name of a listener in small letters, and a setting that is to hold there alone."""
DELETE = "delete"
"""The cleanup policy that keeps records for a time, or so many bytes of them."""
COARSER_RETENTION_MS: Final = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
"""Settings that stand for log.retention.ms at a start, with their units."""


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(ListenerSettings):
    num_partitions: int = setting(
        1, "Partitions of a topic whose creator names no number.", least=1, most=100_000
    )
    auto_create_topics_enable: bool = setting(
        default=True, about="Create a topic when a client first asks for it."
    )
    delete_topic_enable: bool = setting(default=True, about="Let clients delete topics.")
    default_replication_factor: int = setting(
        1, "Shown for Kafka's sake; the journal is the only copy.", least=1, most=1, is_fixed=True
    )
    message_max_bytes: int = setting(
        1_048_588, "The largest record batch of a topic that sets no other.", least=1024, most=2**30
    )
    socket_request_max_bytes: int = setting(
        100 * 2**20,
        "A longer request closes the connection before it is buffered.",
        least=1024,
        most=2**30,
        is_fixed=True,
    )
    queued_max_request_bytes: int = setting(
        256 * 2**20,
        "Bytes of undecided requests that all connections together may hold.",
        least=2**20,
    )
    queued_max_response_bytes: int = setting(
        128 * 2**20,
        "Bytes of unread replies of all connections together above which fetches get one batch.",
        least=2**20,
    )
    quota_window_num: int = setting(
        11,
        "Windows of time in which it is counted what clients with quotas use.",
        least=1,
        most=10_000,
        is_fixed=True,
    )
    quota_window_size_seconds: int = setting(
        1, "How long each of these windows is.", least=1, most=3_600, is_fixed=True
    )
    connections_max_idle_ms: int = setting(600_000, "A silent connection is closed.", least=1000)
    fetch_max_bytes: int = setting(
        8 * 2**20,
        "The most that one fetch is answered with. Kafka's 55 MiB, read from a cold disk, would "
        "hold up everyone else.",
        least=1024,
        most=2**30,
    )
    fetch_max_wait_ms: int = setting(
        60_000, "A fetch that asks to wait longer is answered at this limit.", most=600_000
    )
    log_flush_interval_ms: int = setting(
        5,
        "With no one waiting, unsynced bytes are synced after this time.",
        least=1,
        most=60_000,
        is_fixed=True,
    )
    log_cleanup_policy: str = setting(
        DELETE, "cleanup.policy of topics that set none: delete, compact, or both."
    )
    log_retention_ms: int = setting(
        604_800_000, "retention.ms of topics that set none; -1: for ever.", least=-1
    )
    log_retention_bytes: int = setting(
        -1, "retention.bytes of topics that set none; -1: all.", least=-1
    )
    log_roll_ms: int = setting(604_800_000, "segment.ms of topics that set none.", least=1)
    log_cleaner_delete_retention_ms: int = setting(
        86_400_000, "delete.retention.ms of topics that set none."
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        0, "min.compaction.lag.ms of topics that set none."
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        INT64_MAX, "max.compaction.lag.ms of topics that set none.", least=1
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        128 * 2**20,
        "Memory for the keys of one pass of compaction; with more keys it takes several.",
        least=2**20,
    )
    log_retention_check_interval_ms: int = setting(
        300_000,
        "How often records are looked for that topics keep no longer, and room is given back.",
        least=1,
    )
    retention_enforce: bool = setting(
        default=False,
        about="Let topics delete what they keep no longer, also in a folder that was written "
        "before this was enforced. It is remembered: new folders need it not.",
        is_fixed=True,
    )
    journal_settle_bytes: int = setting(
        2**30,
        "Full journal files, from which on what lives in the oldest is settled in a volume.",
        least=2**20,
        is_fixed=True,
    )
    journal_volume_bytes: int = setting(
        2**30,
        "Journal files that one volume is made of.",
        least=2**20,
        most=2**34,
        is_fixed=True,
    )
    journal_segment_bytes: int = setting(
        64 * 2**20,
        "Size of a journal file; a checkpoint is taken at its end. Half of it bounds how wide a "
        "transaction may be, which takes about 90 bytes for each partition to be ended.",
        least=1_500_000,
        most=2**32,
        is_fixed=True,
    )
    journal_tail_bytes: int = setting(
        8 * 2**20,
        "Memory for the newest records, which are read without touching a file.",
        least=0,
        most=2**32,
        is_fixed=True,
    )
    journal_group_commit: bool = setting(
        default=True,
        about="One sync for all who wait; off only to measure what that is worth.",
        is_fixed=True,
    )
    producer_id_expiration_ms: int = setting(
        86_400_000, "A partition forgets a producer that has been silent this long.", least=1
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, "How often silent producers are looked for.", least=1
    )
    transaction_max_timeout_ms: int = setting(
        900_000,
        "The longest timeout a producer may ask for: an open transaction holds back every "
        "read_committed reader of its partitions.",
        least=1,
        most=INT32_MAX,
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, "A transactional id that has been idle this long is forgotten.", least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, "How often idle transactional ids are looked for.", least=1
    )
    transaction_state_log_num_partitions: int = setting(
        50,
        "Partitions of __transaction_state, fixed when it is created.",
        least=1,
        most=10_000,
        is_fixed=True,
    )
    offsets_topic_num_partitions: int = setting(
        50,
        "Partitions of __consumer_offsets, fixed when it is created.",
        least=1,
        most=10_000,
        is_fixed=True,
    )
    offsets_retention_minutes: int = setting(
        10_080, "Offsets of a group expire after it has been empty this long.", least=1
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, "How often expired offsets are looked for.", least=1
    )
    offset_metadata_max_bytes: int = setting(
        4096, "The longest text that may be committed with an offset.", most=2**20
    )
    group_min_session_timeout_ms: int = setting(
        6_000, "The shortest session that a member of a group may ask for.", most=INT32_MAX
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, "The longest session that a member of a group may ask for.", most=INT32_MAX
    )
    group_initial_rebalance_delay_ms: int = setting(
        0,
        "How long a new group waits for more members. Kafka's code says 3000 and its shipped "
        "configuration 0, as nobody who starts one consumer wants to wait.",
        most=INT32_MAX,
    )
    cluster_detection_ms: int = setting(
        6_000,
        "A leader that was not heard of for this long is taken for gone, on a store that nodes "
        "share; one that hears nothing from the store for this long steps down.",
        least=200,
        most=600_000,
        is_fixed=True,
    )
    store_flush_interval_ms: int = setting(
        100,
        "With no one waiting, what was appended is stored after this time, on a store.",
        least=1,
        most=60_000,
        is_fixed=True,
    )
    store_linger_ms: int = setting(
        0,
        "How long what somebody waits for is held back before it is stored, so that more comes "
        "with it: fewer requests to the store, for a longer wait.",
        most=10_000,
        is_fixed=True,
    )
    store_prices: str = setting(
        S3_PRICES,
        "What the store costs, in US dollars, by which metrics show the cost of a month: put, get, "
        "list and delete for 1,000 requests, gb_month to keep 10^9 bytes, gb_read to read them.",
        is_fixed=True,
        is_text=True,
    )
    store_cache_bytes: int = setting(
        2**30,
        "What a node keeps of slots and volumes in the folder of --cache.",
        is_fixed=True,
    )
    metrics_labels_max: int = setting(
        1000,
        "How many topics, and topics of groups, metrics show each, the largest; all others are "
        "shown in sums.",
        most=1_000_000,
    )
    metrics_interval_ms: int = setting(
        10_000,
        "How often it is counted for the metrics how far groups are behind, how many groups and "
        "transactional ids there are in each state, what open transactions hold back, and which "
        "topics are the busiest.",
        least=100,
    )
    group_max_size: int = setting(INT32_MAX, "Members of a group.", least=1, most=INT32_MAX)
    authorizer_class_name: str = setting(
        "",
        f"Switches access control on: {AUTHORIZER}. Without it everybody may do everything; where "
        "there are rules that is to be said: none.",
        is_fixed=True,
        is_text=True,
    )
    super_users: str = setting(
        "",
        "Who may do everything whatever the access list says, as in User:ann;User:bob.",
        is_fixed=True,
        is_text=True,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        default=False,
        about="What no rule of the access list applies to may be done by everybody.",
        is_fixed=True,
    )

    by_listener: tuple[tuple[str, str, object], ...] = ()
    """What was set for one listener alone: its name in small letters, the field, and its value."""

    def __post_init__(self) -> None:
        self._check_access()
        frame_bytes_max = self.message_max_bytes + 64 * 2**10
        if frame_bytes_max * 4 > self.journal_segment_bytes:
            raise ConfigError(
                f"journal.segment.bytes={self.journal_segment_bytes} must be at least four times "
                f"message.max.bytes={self.message_max_bytes} plus 256 KiB"
            )

    def _check_access(self) -> None:
        if not self.has_access_control:
            if self.super_users or self.allow_everyone_if_no_acl_found:
                raise ConfigError(
                    "super.users and allow.everyone.if.no.acl.found say nothing without access "
                    f"control, which authorizer.class.name={AUTHORIZER} switches on"
                )
        elif self.cluster_detection_ms > DETECTION_MS_MAX_OF_ACCESS:
            raise ConfigError(
                f"cluster.detection.ms={self.cluster_detection_ms}: with access control "
                f"{DETECTION_MS_MAX_OF_ACCESS} at most, as nodes have to hear of changes in time"
            )

    @property
    def has_access_control(self) -> bool:
        return self.authorizer_class_name == AUTHORIZER

    @property
    def principals_of_super_users(self) -> frozenset[Principal]:
        return super_users(self.super_users)

    @classmethod
    def from_sources(cls, file: Path | None, settings: Iterable[str]) -> Self:
        """From a TOML file (names quoted or nested) and `NAME=VALUE` texts; the later wins."""
        values: dict[str, object] = {}
        if file is not None:
            values.update(settings_in(file))
        for text in settings:
            name, equals, value = text.partition("=")
            if not equals:
                raise ConfigError(f"{text!r} is not of the form NAME=VALUE")
            _check_is_no_secret(name.strip(), value)
            values[name.strip()] = value.strip()
        return cls.from_values(values)

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> Self:
        known = _by_name(cls)
        chosen: dict[str, Any] = {}
        by_listener: list[tuple[str, str, object]] = []
        for name, value in _in_ms(values).items():
            listener_name, own_name = _of_listener(name)
            if own_name not in known:
                raise ConfigError(_unknown(own_name, known))
            field = known[own_name]
            parsed = parse(field, _dereferenced(name, value))
            if not listener_name:
                chosen[field.name] = parsed
            elif field.metadata["of_listeners"]:
                by_listener.append((listener_name, field.name, parsed))
            else:
                raise ConfigError(f"{name}: {own_name} is one for all listeners")
        return cls(**chosen, by_listener=tuple(by_listener))

    def for_listener(self, name: str) -> Self:
        """As it is for whoever comes to this one."""
        of_it: dict[str, Any] = {
            field: value for of, field, value in self.by_listener if of == name.lower()
        }
        return dataclasses.replace(self, **of_it) if of_it else self

    def of_listeners(self, field: str) -> dict[str, Any]:
        """What was set of this for one listener alone, by their names in small letters."""
        return {name: value for name, each, value in self.by_listener if each == field}

    def shown(self) -> dict[str, str]:
        """Every setting by its Kafka name, as DescribeConfigs shows it."""
        return {
            name: "" if is_secret(field) else text_of(getattr(self, field.name))
            for name, field in _by_name(type(self)).items()
        }


def changed(config: BrokerConfig, values: Mapping[str, str]) -> BrokerConfig:
    """With other values for these settings. Raises ConfigError."""
    if not values:
        return config
    known = _by_name(BrokerConfig)
    chosen: dict[str, Any] = {
        known[name].name: parse(known[name], value) for name, value in values.items()
    }
    return dataclasses.replace(config, **chosen)


def _by_name(config: type[BrokerConfig]) -> dict[str, "dataclasses.Field[Any]"]:
    return {setting_name(field): field for field in dataclasses.fields(config) if field.metadata}


def _of_listener(name: str) -> tuple[str, str]:
    """The listener that a setting is for, and its name; no listener if it is for all."""
    if not name.startswith(OF_LISTENER):
        return "", name
    listener_name, dot, rest = name.removeprefix(OF_LISTENER).partition(".")
    if not dot or not listener_name:
        raise ConfigError(f"{name}: it is {OF_LISTENER}NAME.SETTING")
    return listener_name.lower(), rest


def _check_is_no_secret(name: str, value: str) -> None:
    """Arguments of a command are seen by everyone on the machine."""
    field = _by_name(BrokerConfig).get(_of_listener(name)[1])
    if field is None or not is_secret(field):
        return
    if value and not is_reference(value):
        raise ConfigError(
            f"{name} is a secret, which arguments would show to everyone on this machine: give it "
            f"as '{name}=${{env:NAME}}' or '{name}=${{file:PATH}}', or in the file of --config"
        )


def _dereferenced(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return dereferenced(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _unknown(name: str, known: Iterable[str]) -> str:
    if name.lower() in _OPTIONS:
        return f"{name} is not a setting but an option of its own: {_OPTIONS[name.lower()]}"
    return unknown_name("setting", name, known)


def about_settings() -> dict[str, SettingDescription]:
    return {name: description(field) for name, field in _by_name(BrokerConfig).items()}


def _in_ms(values: Mapping[str, object]) -> dict[str, object]:
    """Kafka has a setting in hours and one in minutes besides; the finest counts."""
    rest = dict(values)
    for name, unit_ms in COARSER_RETENTION_MS.items():
        if name in rest:
            count = parse_int(name, rest.pop(name), -1, INT64_MAX // unit_ms)
            rest.setdefault("log.retention.ms", -1 if count == -1 else count * unit_ms)
    return rest
