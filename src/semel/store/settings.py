"""What can be chosen about a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from semel.errors import ConfigError

BUCKETS = frozenset({"s3", "gs", "az"})
POSTGRESQL = "postgresql"
LASTING = BUCKETS | {POSTGRESQL}
EPHEMERAL = frozenset({"file", "memory"})


CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "root_certificate",
        "user_agent",
    }
)
"""What the library is told about connections, and not about the store."""
SECONDS = frozenset({"connect_timeout_s", "request_timeout_s", "retry_s"})


@dataclass(frozen=True, slots=True)
class StoreSettings:
    url: str
    """s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH; for slots postgresql://HOST/DATABASE;
    file:///FOLDER and memory:///, which keep nothing over a power loss."""

    is_ephemeral: bool = False
    """Whether what is acknowledged may be lost with the machine."""

    endpoint: str | None = None
    """Where the store is, unless at its provider's address or the environment says so."""

    options: Mapping[str, str] = field(default_factory=dict)
    """For the library that speaks to it, by its names: `region`, `account_name`, ... What is not
    here comes from the environment: AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT, ..."""

    connect_timeout_s: float = 3.0

    request_timeout_s: float = 10.0
    """For the answer to one request, its bytes included."""

    retry_s: float = 10.0
    """How long reads, lists and deletes are tried again before they fail with StoreAway."""

    client_options: Mapping[str, str] = field(default_factory=dict)
    """For the connections of that library: `proxy_url`, `allow_invalid_certificates`, ..."""

    retry_pause_s: float = 0.05
    """Before the first of these; each pause may be twice as long as the one before, up to 1 s."""

    def __post_init__(self) -> None:
        scheme = self.scheme
        if scheme not in LASTING | EPHEMERAL:
            known = ", ".join(f"{name}://" for name in sorted(LASTING | EPHEMERAL))
            raise ConfigError(f"{self.url}: a store's URL begins with one of {known}")
        if scheme in BUCKETS and not urlsplit(self.url).netloc:
            raise ConfigError(f"{self.url} names no bucket")
        if scheme == "file" and (urlsplit(self.url).netloc or urlsplit(self.url).path in {"", "/"}):
            raise ConfigError(f"{self.url}: a folder is named from the root, file:///FOLDER")
        if scheme in EPHEMERAL and not self.is_ephemeral:
            raise ConfigError(
                f"{self.url} is never synced to a disk: a power loss takes what was acknowledged. "
                f"It is for tests, and has to be asked for with --ephemeral"
            )

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    @classmethod
    def of(cls, url: str, options: Sequence[str] = (), *, is_ephemeral: bool = False) -> Self:
        """As a command line names it; each option is KEY=VALUE. Raises ConfigError."""
        named = dict(map(_parsed, options))
        seconds = {key: _seconds(key, named.pop(key)) for key in SECONDS & named.keys()}
        client = {key: named.pop(key) for key in CLIENT_OPTIONS & named.keys()}
        return cls(
            url,
            is_ephemeral=is_ephemeral,
            endpoint=named.pop("endpoint", None),
            client_options=client,
            options=named,
            **seconds,
        )


def _parsed(option: str) -> tuple[str, str]:
    key, separator, value = option.partition("=")
    if not separator or not key:
        raise ConfigError(f"--store-option {option}: give KEY=VALUE, as in region=eu-central-1")
    return key.strip().lower().removeprefix("aws_"), value


def _seconds(key: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"--store-option {key}={value}: give seconds, as in {key}=10")
    return seconds


def shown(url: str) -> str:
    """Without what may be a password."""
    parts = urlsplit(url)
    if not parts.scheme:
        return url.rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
