"""Everything an operator may set, under Kafka's name where Kafka has one.

A field `num_partitions` is the setting `num.partitions`. Unknown names are refused with the nearest
one that exists, if one is near.
"""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from semel.access.principal import Principal
from semel.access.rights import super_users
from semel.broker.endpoints import endpoints
from semel.errors import ConfigError
from semel.references import dereferenced, is_reference
from semel.spelling import SHOWN_MAX, unknown_name
from semel.store.prices import S3_PRICES, PriceList

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

OPTIONS_TABLE: Final = "serve"
"""The table of a file that holds options of `semel serve`, without their dashes."""

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's name for the way in which rules are read here."""
DETECTION_MS_MAX_OF_ACCESS = 9_000
"""A leader finds out whether it still leads three times as often, and what it says of access counts
for five seconds."""
OF_LISTENER = "listener.name."
"""Before the name of a listener in small letters, and a setting that is to hold there alone."""
DELETE = "delete"
"""The cleanup policy that keeps records for a time, or so many bytes of them."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_REFERENCES = ({"file"}, {"env"})
"""Tables that say where a value stands."""
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,30}")


class Secret(str):
    """Shown to nobody."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


def _setting(
    default: int | bool | str,
    about: str,
    *,
    least: int = 0,
    most: int = INT64_MAX,
    is_fixed: bool = False,
    one_of: tuple[str, ...] = (),
    is_text: bool = False,
    of_listeners: bool = False,
) -> Any:
    """A fixed one holds as long as the broker runs; all others count as soon as they are set. One
    of listeners may be another for each, behind `listener.name.NAME.`."""
    metadata = {
        "about": about,
        "least": least,
        "most": most,
        "is_fixed": is_fixed or of_listeners,
        "one_of": one_of,
        "is_text": is_text or bool(one_of) or isinstance(default, Secret),
        "of_listeners": of_listeners,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    node_id: int = _setting(1, "The broker's number in Metadata.", most=INT32_MAX, is_fixed=True)
    listeners: str = _setting(
        "",
        "Where to listen, as NAME://HOST:PORT, separated by commas; empty: PLAINTEXT on "
        "127.0.0.1:9092. `--listen` is a short form of it.",
        is_fixed=True,
        is_text=True,
    )
    advertised_listeners: str = _setting(
        "",
        "Where clients find these listeners, as NAME://HOST:PORT; HOST:PORT alone is for the only "
        "one. Those that are not named: the address that each client came to.",
        is_fixed=True,
        is_text=True,
    )
    listener_security_protocol_map: str = _setting(
        "",
        "How listeners are secured, as NAME:PROTOCOL, separated by commas: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL. Those that are called as a protocol need not be named.",
        is_fixed=True,
        is_text=True,
    )
    inter_broker_listener_name: str = _setting(
        "",
        "The listener at which nodes on a store find each other; empty: the first.",
        is_fixed=True,
        is_text=True,
    )
    allow_unauthenticated: bool = _setting(
        default=False,
        about="Let everybody in who reaches a listener beyond this machine that asks nobody who "
        "they are.",
        of_listeners=True,
    )
    ssl_keystore_location: str = _setting(
        "",
        "A PEM file with the certificate of the listener, those that lead to its root, and the "
        "key. It is read anew when it changes, and upon SIGHUP.",
        is_text=True,
        of_listeners=True,
    )
    ssl_keystore_type: str = _setting(
        "PEM", "The only type there is.", one_of=("PEM",), of_listeners=True
    )
    ssl_key_location: str = _setting(
        "",
        "A PEM file with the key, if it does not stand beside the certificate.",
        is_text=True,
        of_listeners=True,
    )
    ssl_key_password: str = _setting(
        Secret(),
        "What the key is encrypted with: { file = PATH } or { env = NAME }.",
        of_listeners=True,
    )
    ssl_truststore_location: str = _setting(
        "",
        "A PEM file of those who may have signed the certificates of clients, and of other nodes.",
        is_text=True,
        of_listeners=True,
    )
    ssl_truststore_type: str = _setting(
        "PEM", "The only type there is.", one_of=("PEM",), of_listeners=True
    )
    ssl_client_auth: str = _setting(
        "none",
        "Whether clients show a certificate: required, requested or none.",
        one_of=("none", "requested", "required"),
        of_listeners=True,
    )
    ssl_principal_mapping_rules: str = _setting(
        "DEFAULT",
        "What a client is called by the name in its certificate: RULE:pattern/replacement/ with L "
        "or U behind it, the first that fits, or DEFAULT.",
        is_text=True,
        of_listeners=True,
    )
    ssl_enabled_protocols: str = _setting(
        "TLSv1.2,TLSv1.3", "Versions of TLS.", is_text=True, of_listeners=True
    )
    ssl_endpoint_identification_algorithm: str = _setting(
        "https",
        "How nodes check where their calls arrive: https, or empty to take the certificate of any "
        "host.",
        is_text=True,
        of_listeners=True,
    )
    sasl_enabled_mechanisms: str = _setting(
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "How clients may sign in: SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, and over TLS PLAIN.",
        is_text=True,
        of_listeners=True,
    )
    sasl_server_max_receive_size: int = _setting(
        64 * 2**10,
        "Bytes that a client may send before it has signed in.",
        least=4096,
        most=2**20,
        of_listeners=True,
    )
    connections_max_reauth_ms: int = _setting(
        0,
        "After this time a client has to sign in again; 0: when its token has expired.",
        of_listeners=True,
    )
    connection_failed_authentication_delay_ms: int = _setting(
        100, "A sign-in that failed is answered after this time.", most=10_000, is_fixed=True
    )
    signin_timeout_ms: int = _setting(
        10_000,
        "So long a client may take for a TLS handshake and to sign in.",
        least=100,
        most=600_000,
        is_fixed=True,
    )
    signin_max_connections: int = _setting(
        1000,
        "Connections on which nobody has signed in yet; the oldest makes room for the next.",
        least=1,
        is_fixed=True,
    )
    signin_max_connections_per_ip: int = _setting(
        20, "The same of one address; more are closed at once.", least=1, is_fixed=True
    )
    sasl_oauthbearer_jwks_endpoint_url: str = _setting(
        "",
        "Where the keys are found that tokens are signed with: https://… or file:///PATH.",
        is_text=True,
        of_listeners=True,
    )
    sasl_oauthbearer_expected_audience: str = _setting(
        "",
        "Whom a token has to be for; one of several, separated by commas.",
        is_text=True,
        of_listeners=True,
    )
    sasl_oauthbearer_expected_issuer: str = _setting(
        "", "Who has to have given a token.", is_text=True, of_listeners=True
    )
    sasl_oauthbearer_sub_claim_name: str = _setting(
        "sub", "What of a token says who it is.", is_text=True, of_listeners=True
    )
    sasl_oauthbearer_clock_skew_seconds: int = _setting(
        30, "So far the clock of who gives tokens may go wrong.", most=3600, of_listeners=True
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = _setting(
        3_600_000, "The keys are read anew after this time.", least=1000, of_listeners=True
    )
    https_ca_location: str = _setting(
        "",
        "A PEM file of those who may have signed the certificate of where the keys are found.",
        is_text=True,
        of_listeners=True,
    )
    proxy_protocol_from: str = _setting(
        "",
        "Addresses of proxies that say by PROXY protocol v2 for whom they connect, as "
        "10.0.0.0/24, separated by commas.",
        is_text=True,
        of_listeners=True,
    )
    initial_users: str = _setting(
        "",
        'A TOML file of users and their passwords, as ana = "…". Those that there are not are '
        "made at the start, and when the broker comes to lead.",
        is_fixed=True,
        is_text=True,
    )
    max_connections_per_ip: int = _setting(
        INT32_MAX, "Connections of one address; more are closed at once.", least=1, most=INT32_MAX
    )
    num_partitions: int = _setting(
        1, "Partitions of a topic whose creator names no number.", least=1, most=100_000
    )
    auto_create_topics_enable: bool = _setting(
        default=True, about="Create a topic when a client first asks for it."
    )
    delete_topic_enable: bool = _setting(default=True, about="Let clients delete topics.")
    default_replication_factor: int = _setting(
        1, "Shown for Kafka's sake; the journal is the only copy.", least=1, most=1, is_fixed=True
    )
    message_max_bytes: int = _setting(
        1_048_588, "The largest record batch of a topic that sets no other.", least=1024, most=2**30
    )
    socket_request_max_bytes: int = _setting(
        100 * 2**20,
        "A longer request closes the connection before it is buffered.",
        least=1024,
        most=2**30,
        is_fixed=True,
    )
    queued_max_request_bytes: int = _setting(
        256 * 2**20,
        "Bytes of undecided requests that all connections together may hold.",
        least=2**20,
    )
    queued_max_response_bytes: int = _setting(
        128 * 2**20,
        "Bytes of unread replies of all connections together above which fetches get one batch.",
        least=2**20,
    )
    max_connections: int = _setting(10_000, "More are closed at once.", least=1)
    quota_window_num: int = _setting(
        11,
        "Windows of time in which it is counted what clients with quotas use.",
        least=1,
        most=10_000,
        is_fixed=True,
    )
    quota_window_size_seconds: int = _setting(
        1, "How long each of these windows is.", least=1, most=3_600, is_fixed=True
    )
    connections_max_idle_ms: int = _setting(600_000, "A silent connection is closed.", least=1000)
    fetch_max_bytes: int = _setting(
        8 * 2**20,
        "The most that one fetch is answered with. Kafka's 55 MiB, read from a cold disk, would "
        "hold up everyone else.",
        least=1024,
        most=2**30,
    )
    fetch_max_wait_ms: int = _setting(
        60_000, "A fetch that asks to wait longer is answered at this limit.", most=600_000
    )
    log_flush_interval_ms: int = _setting(
        5,
        "With no one waiting, unsynced bytes are synced after this time.",
        least=1,
        most=60_000,
        is_fixed=True,
    )
    log_cleanup_policy: str = _setting(
        DELETE, "cleanup.policy of topics that set none: delete, compact, or both."
    )
    log_retention_ms: int = _setting(
        604_800_000, "retention.ms of topics that set none; -1: for ever.", least=-1
    )
    log_retention_bytes: int = _setting(
        -1, "retention.bytes of topics that set none; -1: all.", least=-1
    )
    log_roll_ms: int = _setting(604_800_000, "segment.ms of topics that set none.", least=1)
    log_cleaner_delete_retention_ms: int = _setting(
        86_400_000, "delete.retention.ms of topics that set none."
    )
    log_cleaner_min_compaction_lag_ms: int = _setting(
        0, "min.compaction.lag.ms of topics that set none."
    )
    log_cleaner_max_compaction_lag_ms: int = _setting(
        INT64_MAX, "max.compaction.lag.ms of topics that set none.", least=1
    )
    log_cleaner_dedupe_buffer_size: int = _setting(
        128 * 2**20,
        "Memory for the keys of one pass of compaction; with more keys it takes several.",
        least=2**20,
    )
    log_retention_check_interval_ms: int = _setting(
        300_000,
        "How often records are looked for that topics keep no longer, and room is given back.",
        least=1,
    )
    retention_enforce: bool = _setting(
        default=False,
        about="Let topics delete what they keep no longer, also in a folder that was written "
        "before this was enforced. It is remembered: new folders need it not.",
        is_fixed=True,
    )
    journal_settle_bytes: int = _setting(
        2**30,
        "Full journal files, from which on what lives in the oldest is settled in a volume.",
        least=2**20,
        is_fixed=True,
    )
    journal_volume_bytes: int = _setting(
        2**30,
        "Journal files that one volume is made of.",
        least=2**20,
        most=2**34,
        is_fixed=True,
    )
    journal_segment_bytes: int = _setting(
        64 * 2**20,
        "Size of a journal file; a checkpoint is taken at its end. Half of it bounds how wide a "
        "transaction may be, which takes about 90 bytes for each partition to be ended.",
        least=1_500_000,
        most=2**32,
        is_fixed=True,
    )
    journal_tail_bytes: int = _setting(
        8 * 2**20,
        "Memory for the newest records, which are read without touching a file.",
        least=0,
        most=2**32,
        is_fixed=True,
    )
    journal_group_commit: bool = _setting(
        default=True,
        about="One sync for all who wait; off only to measure what that is worth.",
        is_fixed=True,
    )
    producer_id_expiration_ms: int = _setting(
        86_400_000, "A partition forgets a producer that has been silent this long.", least=1
    )
    producer_id_expiration_check_interval_ms: int = _setting(
        600_000, "How often silent producers are looked for.", least=1
    )
    transaction_max_timeout_ms: int = _setting(
        900_000,
        "The longest timeout a producer may ask for: an open transaction holds back every "
        "read_committed reader of its partitions.",
        least=1,
        most=INT32_MAX,
    )
    transactional_id_expiration_ms: int = _setting(
        604_800_000, "A transactional id that has been idle this long is forgotten.", least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _setting(
        3_600_000, "How often idle transactional ids are looked for.", least=1
    )
    transaction_state_log_num_partitions: int = _setting(
        50,
        "Partitions of __transaction_state, fixed when it is created.",
        least=1,
        most=10_000,
        is_fixed=True,
    )
    offsets_topic_num_partitions: int = _setting(
        50,
        "Partitions of __consumer_offsets, fixed when it is created.",
        least=1,
        most=10_000,
        is_fixed=True,
    )
    offsets_retention_minutes: int = _setting(
        10_080, "Offsets of a group expire after it has been empty this long.", least=1
    )
    offsets_retention_check_interval_ms: int = _setting(
        600_000, "How often expired offsets are looked for.", least=1
    )
    offset_metadata_max_bytes: int = _setting(
        4096, "The longest text that may be committed with an offset.", most=2**20
    )
    group_min_session_timeout_ms: int = _setting(
        6_000, "The shortest session that a member of a group may ask for.", most=INT32_MAX
    )
    group_max_session_timeout_ms: int = _setting(
        1_800_000, "The longest session that a member of a group may ask for.", most=INT32_MAX
    )
    group_initial_rebalance_delay_ms: int = _setting(
        0,
        "How long a new group waits for more members. Kafka's code says 3000 and its shipped "
        "configuration 0, as nobody who starts one consumer wants to wait.",
        most=INT32_MAX,
    )
    cluster_detection_ms: int = _setting(
        6_000,
        "A leader that was not heard of for this long is taken for gone, on a store that nodes "
        "share; one that hears nothing from the store for this long steps down.",
        least=200,
        most=600_000,
        is_fixed=True,
    )
    store_flush_interval_ms: int = _setting(
        100,
        "With no one waiting, what was appended is stored after this time, on a store.",
        least=1,
        most=60_000,
        is_fixed=True,
    )
    store_linger_ms: int = _setting(
        0,
        "How long what somebody waits for is held back before it is stored, so that more comes "
        "with it: fewer requests to the store, for a longer wait.",
        most=10_000,
        is_fixed=True,
    )
    store_prices: str = _setting(
        S3_PRICES,
        "What the store costs, in US dollars, by which metrics show the cost of a month: put, get, "
        "list and delete for 1,000 requests, gb_month to keep 10^9 bytes, gb_read to read them.",
        is_fixed=True,
        is_text=True,
    )
    store_cache_bytes: int = _setting(
        2**30,
        "What a node keeps of slots and volumes in the folder of --cache.",
        is_fixed=True,
    )
    metrics_labels_max: int = _setting(
        1000,
        "How many topics, and topics of groups, metrics show each, the largest; all others are "
        "shown in sums.",
        most=1_000_000,
    )
    metrics_interval_ms: int = _setting(
        10_000,
        "How often it is counted for the metrics how far groups are behind, and how many groups "
        "and transactional ids there are in each state.",
        least=100,
    )
    group_max_size: int = _setting(INT32_MAX, "Members of a group.", least=1, most=INT32_MAX)
    authorizer_class_name: str = _setting(
        "",
        f"Switches access control on: {AUTHORIZER}. Without it everybody may do everything.",
        is_fixed=True,
        is_text=True,
    )
    super_users: str = _setting(
        "",
        "Who may do everything whatever the access list says, as in User:ann;User:bob.",
        is_fixed=True,
        is_text=True,
    )
    allow_everyone_if_no_acl_found: bool = _setting(
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
        return bool(self.authorizer_class_name)

    @property
    def principals_of_super_users(self) -> frozenset[Principal]:
        return super_users(self.super_users)

    @classmethod
    def from_sources(cls, file: Path | None, settings: Iterable[str]) -> Self:
        """From a TOML file (names quoted or nested) and `NAME=VALUE` texts; the later wins."""
        values: dict[str, object] = {}
        if file is not None:
            told = _read_toml(file)
            told.pop(OPTIONS_TABLE, None)
            values.update(_flatten(told, file.parent))
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
            parsed = _parse(field, _dereferenced(name, value))
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

    def shown(self) -> dict[str, str]:
        """Every setting by its Kafka name, as DescribeConfigs shows it."""
        return {
            name: "" if isinstance(field.default, Secret) else text_of(getattr(self, field.name))
            for name, field in _by_name(type(self)).items()
        }


def changed(config: BrokerConfig, values: Mapping[str, str]) -> BrokerConfig:
    """With other values for these settings. Raises ConfigError."""
    if not values:
        return config
    known = _by_name(BrokerConfig)
    chosen: dict[str, Any] = {
        known[name].name: _parse(known[name], value) for name, value in values.items()
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
    if field is None or not isinstance(field.default, Secret):
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


class SettingDescription(NamedTuple):
    default: str
    kind: str
    about: str
    is_fixed: bool
    """Whether it holds as long as the broker runs."""
    least: int
    most: int
    is_secret: bool = False


def about_settings() -> dict[str, SettingDescription]:
    return {
        name: SettingDescription(
            text_of(field.default),
            _kind(field),
            field.metadata["about"],
            field.metadata["is_fixed"],
            field.metadata["least"],
            field.metadata["most"],
            isinstance(field.default, Secret),
        )
        for name, field in _by_name(BrokerConfig).items()
    }


def _kind(field: "dataclasses.Field[Any]") -> str:
    """As DescribeConfigs names it."""
    if isinstance(field.default, bool):
        return "boolean"
    if isinstance(field.default, str):
        return "string" if field.metadata["is_text"] else "list"
    return "int" if field.metadata["most"] <= INT32_MAX else "long"


def setting_name(field: "dataclasses.Field[Any]") -> str:
    return field.name.replace("_", ".")


def text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_bool(name: str, value: object) -> bool:
    text = text_of(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={value}: must be true or false")
    return text == "true"


def parse_int(name: str, value: object, least: int, most: int) -> int:
    text = str(value)
    # Python would also take "1_000", blanks, other scripts' digits, and thousands of digits.
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ConfigError(f"{name}={text[:SHOWN_MAX]}: must be a whole number")
    number = int(text)
    if not least <= number <= most:
        raise ConfigError(f"{name}={number}: must be between {least} and {most}")
    return number


def _parse(field: "dataclasses.Field[Any]", value: object) -> object:
    name = setting_name(field)
    if isinstance(field.default, bool):
        return parse_bool(name, value)
    if isinstance(field.default, str):
        return _parse_text(field, str(value).strip())
    return parse_int(name, value, field.metadata["least"], field.metadata["most"])


def _parse_access(name: str, text: str) -> str:
    if name == "authorizer.class.name":
        if text not in ("", AUTHORIZER):
            raise ConfigError(f"{name}={text[:SHOWN_MAX]}: must be {AUTHORIZER}")
        return text
    try:
        super_users(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
    return text


def _parse_text(field: "dataclasses.Field[Any]", text: str) -> str:
    name, one_of = setting_name(field), field.metadata["one_of"]
    if isinstance(field.default, Secret):
        return Secret(text)
    if field.name == "store_prices":
        PriceList.parse(text)
    elif field.name in ("listeners", "advertised_listeners"):
        return ",".join(map(str, endpoints(name, text)))
    elif field.name in ("authorizer_class_name", "super_users"):
        return _parse_access(name, text)
    elif one_of:
        return _one_of(name, text, one_of)
    elif not field.metadata["is_text"]:
        return _parse_policy(name, text)
    return text


def _one_of(name: str, text: str, known: tuple[str, ...]) -> str:
    for each in known:
        if text.lower() == each.lower():
            return each
    if known == ("PEM",):
        raise ConfigError(f"{name}={text[:SHOWN_MAX]}: export the certificates as PEM")
    raise ConfigError(f"{name}={text[:SHOWN_MAX]}: must be of {', '.join(known)}")


def _parse_policy(name: str, value: object) -> str:
    policies = [part.strip() for part in str(value).split(",")]
    if not all(part in ("delete", "compact") for part in policies):
        raise ConfigError(f"{name}={str(value)[:SHOWN_MAX]}: must be of delete, compact")
    return ",".join(policies)


COARSER_RETENTION_MS: Final = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
"""Settings that stand for log.retention.ms at a start, with their units."""


def _in_ms(values: Mapping[str, object]) -> dict[str, object]:
    """Kafka has a setting in hours and one in minutes besides; the finest counts."""
    rest = dict(values)
    for name, unit_ms in COARSER_RETENTION_MS.items():
        if name in rest:
            count = parse_int(name, rest.pop(name), -1, INT64_MAX // unit_ms)
            rest.setdefault("log.retention.ms", -1 if count == -1 else count * unit_ms)
    return rest


def options_in(file: Path) -> list[str]:
    """What the file says of the options of `semel serve`, as a command line. Raises ConfigError."""
    table = _read_toml(file).get(OPTIONS_TABLE, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{file}: {OPTIONS_TABLE} must be a table of options")
    told: list[str] = []
    for name, value in table.items():
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        for each in values:
            if isinstance(each, Mapping):
                raise ConfigError(f"{file}: {OPTIONS_TABLE}.{name} must not be a table")
            if each is True:
                told.append(option)
            elif each is not False:
                told += [option, str(each)]
    return told


def _read_toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error


def _flatten(table: Mapping[str, object], folder: Path, prefix: str = "") -> dict[str, object]:
    """`num.partitions = 3` in TOML is a table `num` with a key `partitions`."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if not isinstance(value, Mapping):
            flat[prefix + key] = value
        elif value.keys() in _REFERENCES and all(isinstance(each, str) for each in value.values()):
            flat[prefix + key] = _reference(value, folder)
        else:
            flat.update(_flatten(value, folder, f"{prefix}{key}."))
    return flat


def _reference(table: Mapping[str, str], folder: Path) -> str:
    if "env" in table:
        return f"${{env:{table['env']}}}"
    return f"${{file:{folder / Path(table['file']).expanduser()}}}"
