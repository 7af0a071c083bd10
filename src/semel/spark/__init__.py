"""Exactly-once pipelines on PySpark: `format("semel")` and a ready session.

Needs pyspark: `pip install 'semel[spark]'`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.spark.session import Session as Session
    from semel.spark.session import session as session

__all__ = ["Session", "session"]

_HOMES = {"Session": "session", "session": "session"}


def __getattr__(name: str) -> Any:
    # Loaded when asked for, so that a task which only reads does not import the rest.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
