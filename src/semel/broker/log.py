"""The broker's log, on standard error. Never written per request.

It may be a file on the very disk that is full: what cannot be written is lost, and harms nobody.
"""

import contextlib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
"""By their numbers in Python's own logging."""
FORMATS: Final = ("text", "json")

_chosen = {"level": "info", "format": "text"}


def configure(level: str, its_format: str) -> None:
    """What is told from now on, and how: JSON is one object in each line."""
    _chosen.update(level=level, format=its_format)
    _logger.cache_clear()


@cache
def _logger() -> "FilteringBoundLogger":
    # Imported when there is something to say: it takes a fifth of the start-up time.
    import structlog

    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.dev.set_exc_info,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        # The other one shows the values of variables as well, of which some are passwords.
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]
    if _chosen["format"] == "json":
        processors = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[_chosen["level"]]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
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
