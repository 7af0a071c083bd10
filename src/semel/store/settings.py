"""What can be chosen about a store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from semel.errors import ConfigError

BUCKETS = frozenset({"s3", "gs", "az"})
POSTGRESQL = "postgresql"
LASTING = BUCKETS | {POSTGRESQL}
EPHEMERAL = frozenset({"file", "memory"})


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
