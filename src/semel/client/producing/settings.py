"""What a producer may be told, with the defaults that make it safe."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from semel.client.connecting.security_settings import as_security
from semel.client.options import check_names, check_numbers
from semel.errors import ConfigError
from semel.records.compression import Compression
from semel.security import PLAINTEXT, SecurityLike

ACKS_ALL = -1
ACKS_NONE = 0
_ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": ACKS_NONE}


class ProducerOptions(TypedDict, total=False):
    """What a producer's constructor takes by name."""

    client_id: str
    security: SecurityLike
    """Also a dictionary with the names that Kafka's clients have."""
    acks: int | str
    """Who must have a record before it counts as stored: "all", 1 or 0."""
    enable_idempotence: bool
    compression: str | Compression
    batch_size_max: int
    linger_ms: float
    """How long a record waits for others to share its batch with."""
    request_size_max: int
    buffered_size_max: int
    """Bytes of records that are not stored yet; `send` waits when there are more."""
    in_flight_max: int
    delivery_timeout_ms: int
    """When a record is given up; one that is under way then has its answer waited for."""
    request_timeout_ms: int
    block_timeout_ms: int
    """How long `send` waits for room or for a topic, and a transaction for its coordinator."""
    transactional_id: str
    transaction_timeout_ms: int
    partitioner: str | Callable[[str, bytes | None, int], int]
    key_serializer: Callable[[Any], bytes | str | None]
    value_serializer: Callable[[Any], bytes | str | None]


class ProducerSettings(NamedTuple):
    acks: int = ACKS_ALL
    is_idempotent: bool = True
    compression: Compression = Compression.NONE
    batch_size_max: int = 64 * 1024
    linger_ms: float = 5
    request_size_max: int = 1024 * 1024
    buffered_size_max: int = 32 * 1024 * 1024
    in_flight_max: int = 5
    """Requests under way to one broker; no broker remembers more batches of a producer."""
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    backoff_first_ms: int = 50
    backoff_max_ms: int = 1_000
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    block_timeout_ms: int = 60_000


def settings_of(options: ProducerOptions) -> ProducerSettings:
    known = ProducerOptions.__annotations__
    check_names("producer", options, known)
    check_numbers(options, known)
    as_security(options.get("security", PLAINTEXT))
    named: dict[str, Any] = {
        name: value for name, value in options.items() if name in ProducerSettings._fields
    }
    acks = parse_acks(options.get("acks", ACKS_ALL))
    is_idempotent = options.get("enable_idempotence", acks == ACKS_ALL)
    compression = parse_compression(options.get("compression", Compression.NONE))
    if "request_timeout_ms" not in named and "delivery_timeout_ms" in named:
        room_ms = named["delivery_timeout_ms"] - named.get("linger_ms", 5)
        named["request_timeout_ms"] = int(max(1, min(30_000, room_ms)))
    return check(
        ProducerSettings(
            **{**named, "acks": acks, "is_idempotent": is_idempotent, "compression": compression}
        )
    )


def parse_acks(acks: int | str) -> int:
    if str(acks) not in _ACKS:
        raise ConfigError(f"{acks!r} is not a value of acks: give 'all', 1 or 0")
    return _ACKS[str(acks)]


def parse_compression(name: str | Compression) -> Compression:
    if isinstance(name, Compression):
        return name
    if name.upper() not in Compression.__members__:
        known = ", ".join(each.lower() for each in Compression.__members__)
        raise ConfigError(f"{name!r} is not a compression: give one of {known}")
    return Compression[name.upper()]


def check(settings: ProducerSettings) -> ProducerSettings:
    if settings.is_idempotent and settings.acks != ACKS_ALL:
        raise ConfigError("an idempotent producer needs acks=all")
    if settings.transactional_id is not None and not settings.is_idempotent:
        raise ConfigError("a transactional producer is idempotent")
    if not isinstance(settings.transactional_id, str | None):
        raise ConfigError(f"transactional_id is {settings.transactional_id!r}: it has to be text")
    if settings.transactional_id == "":
        raise ConfigError("a transactional id has at least one character")
    if not 1 <= settings.in_flight_max <= 5:
        raise ConfigError(f"in_flight_max is 1 to 5, not {settings.in_flight_max}")
    if settings.linger_ms + settings.request_timeout_ms > settings.delivery_timeout_ms:
        raise ConfigError("delivery_timeout_ms has no room for linger_ms and request_timeout_ms")
    for name in ("batch_size_max", "request_size_max", "buffered_size_max", "request_timeout_ms"):
        if getattr(settings, name) < 1:
            raise ConfigError(f"{name} is {getattr(settings, name)}, and must be positive")
    for name in ("linger_ms", "block_timeout_ms"):
        if getattr(settings, name) < 0:
            raise ConfigError(f"{name} is {getattr(settings, name)}, and cannot be negative")
    return settings
