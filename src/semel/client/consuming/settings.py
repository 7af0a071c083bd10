"""What a consumer may be told, and what it does unless told otherwise."""

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple, TypedDict

from semel.client.cluster.offsets import Isolation
from semel.client.connecting.security_settings import as_security
from semel.client.options import check_names, check_numbers
from semel.errors import ConfigError
from semel.security import PLAINTEXT, SecurityLike

_RESETS = ("earliest", "latest", "none")
_ASSIGNORS = {
    "range": "range",
    "round_robin": "roundrobin",
    "roundrobin": "roundrobin",
    "cooperative-sticky": "cooperative-sticky",
    "cooperative_sticky": "cooperative-sticky",
}
"""Names as they may be written, and as groups know them."""

_POLL_NUMBERS = {"timeout_ms": float}


class ConsumerOptions(TypedDict, total=False):
    """What a consumer's constructor takes by name."""

    client_id: str
    security: SecurityLike
    """Also a dictionary with the names that Kafka's clients have."""
    group_instance_id: str | None
    """Makes the member a static one: its partitions wait for it while it restarts."""
    assignor: str | Sequence[str]
    """`cooperative-sticky`, `range`, `round_robin`, or several of them in order of preference."""
    isolation: str
    auto_offset_reset: str
    """Where to begin without a committed offset: `earliest`, `latest`, or `none` for an error."""
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    """How long a member may be silent before its group goes on without it."""
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    """How long the application may stay away from `poll`, also while the group rebalances."""
    max_poll_records: int
    fetch_size_min: int
    fetch_size_max: int
    fetch_wait_ms_max: int
    partition_size_max: int
    """Bytes asked of one partition at a time."""
    buffered_size_max: int
    """Bytes fetched ahead; no more is asked for while there are as many."""
    metadata_age_ms_max: int
    """When new partitions and new topics of a pattern are noticed at the latest."""
    allow_auto_create_topics: bool
    request_timeout_ms: int
    block_timeout_ms: int
    """How long a commit, a position or an offset is waited for."""
    key_deserializer: Callable[[bytes], Any]
    """Not called for records without a key; nor is that of values without one."""
    value_deserializer: Callable[[bytes], Any]


class ConsumerSettings(NamedTuple):
    group: str | None = None
    group_instance_id: str | None = None
    assignors: tuple[str, ...] = ("cooperative-sticky",)
    isolation: Isolation = Isolation.READ_COMMITTED
    auto_offset_reset: str = "earliest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    fetch_size_min: int = 1
    fetch_size_max: int = 16 * 1024 * 1024
    fetch_wait_ms_max: int = 500
    partition_size_max: int = 1024 * 1024
    buffered_size_max: int = 32 * 1024 * 1024
    metadata_age_ms_max: int = 300_000
    allow_auto_create_topics: bool = False
    request_timeout_ms: int = 30_000
    block_timeout_ms: int = 60_000
    backoff_first_ms: int = 50
    backoff_max_ms: int = 1_000

    def count_max(self, max_records: int | None) -> int:
        """How many records one poll may give, if it is told and if it is not; 0 is none."""
        if max_records is None:
            return self.max_poll_records
        try:
            count = index(max_records)
        except TypeError:
            raise ConfigError(
                f"max_records is {max_records!r}: it has to be a whole number"
            ) from None
        if count < 0:
            raise ConfigError(f"max_records is {count}, and cannot be negative")
        return count


def settings_of(group: str | None, options: ConsumerOptions) -> ConsumerSettings:
    known = ConsumerOptions.__annotations__
    check_names("consumer", options, known, also=["group"])
    check_numbers(options, known)
    as_security(options.get("security", PLAINTEXT))
    named: dict[str, Any] = {
        name: value for name, value in options.items() if name in ConsumerSettings._fields
    }
    named["group"] = group
    named["assignors"] = parse_assignors(options.get("assignor", "cooperative-sticky"))
    named["isolation"] = parse_isolation(options.get("isolation", "read_committed"))
    # Without a group there is nothing to commit to.
    named["enable_auto_commit"] = group is not None and options.get("enable_auto_commit", True)
    return check(ConsumerSettings(**named))


def seconds_of(timeout_ms: float | None) -> float | None:
    """How long a poll may wait; None is without end."""
    if timeout_ms is None:
        return None
    check_numbers({"timeout_ms": timeout_ms}, _POLL_NUMBERS)
    return timeout_ms / 1000


def parse_assignors(names: str | Sequence[str]) -> tuple[str, ...]:
    wanted = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in wanted if name not in _ASSIGNORS]
    if unknown or not wanted:
        raise ConfigError(
            f"{unknown[0] if unknown else names!r} is not an assignor: "
            "give range, round_robin or cooperative-sticky"
        )
    return tuple(dict.fromkeys(_ASSIGNORS[name] for name in wanted))


def parse_isolation(name: str) -> Isolation:
    if name.upper() not in Isolation.__members__:
        raise ConfigError(f"isolation {name!r} is neither read_committed nor read_uncommitted")
    return Isolation[name.upper()]


def check(settings: ConsumerSettings) -> ConsumerSettings:
    if not isinstance(settings.group, str | None):
        raise ConfigError(f"the group is {settings.group!r}: it has to be text")
    if settings.group == "":
        raise ConfigError("a group has at least one character")
    if settings.group_instance_id == "":
        raise ConfigError("a group_instance_id has at least one character")
    if settings.group_instance_id is not None and settings.group is None:
        raise ConfigError("a group_instance_id needs a group")
    if settings.auto_offset_reset not in _RESETS:
        raise ConfigError(
            f"auto_offset_reset is one of {', '.join(_RESETS)}, not {settings.auto_offset_reset!r}"
        )
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise ConfigError("heartbeat_interval_ms has to be less than session_timeout_ms")
    for name, value in settings._asdict().items():
        if name.endswith(("_ms", "_max", "_records")) and value < 1:
            raise ConfigError(f"{name} is {value}, and must be positive")
    return settings
