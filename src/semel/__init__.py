"""Semel: a log that speaks Kafka's protocol and delivers exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.client.columns.tables import read as read
    from semel.client.columns.tables import write as write

__version__ = "0.1.0"

_TABLES = "semel.client.columns.tables"


def __getattr__(name: str) -> Any:
    """`read` and `write` bring pyarrow along, which a broker does not need."""
    if name not in ("read", "write"):
        raise AttributeError(f"module 'semel' has no attribute {name!r}")
    try:
        return getattr(import_module(_TABLES), name)
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "pyarrow"):
            raise
        raise ImportError(f"semel.{name} needs pyarrow: pip install 'semel[arrow]'") from error
