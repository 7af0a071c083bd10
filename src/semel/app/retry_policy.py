"""How often a record that failed is tried again, and after what pause."""

from typing import NamedTuple

from semel.client.options import check_numbers
from semel.client.payloads import PayloadRefused
from semel.errors import ConfigError

_FACTOR = 2
_DOUBLINGS_MAX = 64


class RetryPolicy(NamedTuple):
    retries: int = 3
    backoff_ms: int = 100
    """The pause before the first retry; each further one is twice as long."""
    backoff_ms_max: int = 10_000
    retry_on: tuple[type[Exception], ...] = (Exception,)
    """What may pass; any other exception is final at the first time."""

    @property
    def attempts_max(self) -> int:
        return self.retries + 1

    def allows(self, error: Exception, attempt: int) -> bool:
        """Whether to try again after this attempt, counted from 1."""
        if isinstance(error, PayloadRefused):
            return False  # What a record holds does not change.
        return attempt <= self.retries and isinstance(error, self.retry_on)

    def pause_ms(self, attempt: int, random: float) -> float:
        """How long to wait after this attempt; `random` is between 0 and 1.

        From the half to the whole, so that members that failed together come back apart.
        """
        factor: int = _FACTOR ** min(attempt - 1, _DOUBLINGS_MAX)
        whole_ms = min(self.backoff_ms * factor, self.backoff_ms_max)
        return whole_ms * (1 + random) / 2


def check_retry_policy(retry_policy: RetryPolicy) -> RetryPolicy:
    check_numbers(retry_policy._asdict(), RetryPolicy.__annotations__)
    for kind in retry_policy.retry_on:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise ConfigError(f"retry_on is {kind!r}: it has to be an exception type, or several")
    if retry_policy.retries < 0:
        raise ConfigError(f"retries is {retry_policy.retries}, and cannot be negative")
    if not 0 <= retry_policy.backoff_ms <= retry_policy.backoff_ms_max:
        raise ConfigError(
            f"backoff_ms is {retry_policy.backoff_ms}, and must be between 0 and backoff_ms_max, "
            f"{retry_policy.backoff_ms_max}"
        )
    return retry_policy
