"""How often a record that failed is tried again, and after what pause."""

from typing import NamedTuple

from semel.client.options import check_numbers
from semel.errors import ConfigError

_FACTOR = 2
_DOUBLINGS_MAX = 64


class Patience(NamedTuple):
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
        return attempt <= self.retries and isinstance(error, self.retry_on)

    def pause_ms(self, attempt: int, dice: float) -> float:
        """How long to wait after this attempt; `dice` is between 0 and 1.

        From the half to the whole, so that members that failed together come back apart.
        """
        factor: int = _FACTOR ** min(attempt - 1, _DOUBLINGS_MAX)
        whole_ms = min(self.backoff_ms * factor, self.backoff_ms_max)
        return whole_ms * (1 + dice) / 2


def check(patience: Patience) -> Patience:
    check_numbers(patience._asdict(), Patience.__annotations__)
    if patience.retries < 0:
        raise ConfigError(f"retries is {patience.retries}, and cannot be negative")
    if not 0 <= patience.backoff_ms <= patience.backoff_ms_max:
        raise ConfigError(
            f"backoff_ms is {patience.backoff_ms}, and must be between 0 and backoff_ms_max, "
            f"{patience.backoff_ms_max}"
        )
    return patience
