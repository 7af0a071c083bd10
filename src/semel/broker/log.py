"""The broker's log, on standard error. Never written per request.

It may be a file on the very disk that is full: what cannot be written is lost, and harms nobody.
"""

import contextlib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@cache
def _logger() -> "FilteringBoundLogger":
    # Imported when there is something to say: it takes a fifth of the start-up time.
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    logger: FilteringBoundLogger = structlog.get_logger("semel")
    return logger


def info(event: str, **values: Any) -> None:
    with contextlib.suppress(OSError):
        _logger().info(event, **values)


def error(event: str, **values: Any) -> None:
    with contextlib.suppress(OSError):
        _logger().error(event, **values)


def warning(event: str, **values: Any) -> None:
    with contextlib.suppress(OSError):
        _logger().warning(event, **values)
