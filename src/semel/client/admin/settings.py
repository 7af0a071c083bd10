"""What an administrator may be told, and how refusals of several subjects are raised."""

from collections.abc import Mapping
from typing import Any, TypedDict

from semel.client.connecting.security_settings import as_security
from semel.client.options import check_names, check_numbers
from semel.errors import ConfigError, RequestError
from semel.security import PLAINTEXT, SecurityLike

REQUEST_TIMEOUT_MS = 30_000

Setting = str | int | float | bool
"""A value of a setting, which a cluster keeps as text."""


class AdminOptions(TypedDict, total=False):
    """What its constructor takes by name."""

    client_id: str
    security: SecurityLike
    """Also a dictionary with the names that Kafka's clients have."""
    request_timeout_ms: int
    """How long one request may take, and how long passing refusals are retried."""


def check(options: AdminOptions) -> dict[str, Any]:
    """What a connection is made from."""
    known = AdminOptions.__annotations__
    check_names("admin", options, known)
    check_numbers(options, known)
    timeout_ms = options.get("request_timeout_ms", REQUEST_TIMEOUT_MS)
    if timeout_ms < 1:
        raise ConfigError(f"request_timeout_ms is {timeout_ms}, and must be positive")
    return {
        "client_id": options.get("client_id", "semel"),
        "timeout_ms": timeout_ms,
        "security": as_security(options.get("security", PLAINTEXT)),
    }


def as_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def raise_refused(
    outcomes: Mapping[str, RequestError | None], *passing: type[RequestError]
) -> None:
    """The first refusal of another kind, with the others as its notes."""
    refused = [
        error for error in outcomes.values() if error is not None and not isinstance(error, passing)
    ]
    if refused:
        first, *others = refused
        for other in others:
            first.add_note(f"and {other}")
        raise first
