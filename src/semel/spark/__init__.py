"""Exactly-once pipelines on PySpark: `format("semel")`, `exactly_once` and a ready session.

Needs pyspark: the extra `spark`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.spark.local_session import Session as Session
    from semel.spark.local_session import session as session
    from semel.spark.progress import last_progress as last_progress
    from semel.spark.progress import report_progress as report_progress
    from semel.spark.registration import register as register
    from semel.spark.volume import exactly_once as exactly_once

__all__ = ["Session", "exactly_once", "last_progress", "register", "report_progress", "session"]

_HOMES = {
    "Session": "local_session",
    "session": "local_session",
    "exactly_once": "volume",
    "register": "registration",
    "last_progress": "progress",
    "report_progress": "progress",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that a task which only reads does not import the rest.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
