"""Semel: a log that speaks Kafka's protocol and delivers exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel import security as security
    from semel.app.application import App as App
    from semel.app.outbox import Outbox as Outbox
    from semel.app.outbox import Transaction as Transaction
    from semel.client.admin.acls import Acl as Acl
    from semel.client.admin.asynchronous import AsyncAdmin as AsyncAdmin
    from semel.client.admin.blocking import Admin as Admin
    from semel.client.columns.tables import read as read
    from semel.client.columns.tables import write as write
    from semel.client.consuming.asynchronous import AsyncConsumer as AsyncConsumer
    from semel.client.consuming.blocking import Consumer as Consumer
    from semel.client.consuming.record import Record as Record
    from semel.client.producing.asynchronous import AsyncProducer as AsyncProducer
    from semel.client.producing.blocking import Producer as Producer
    from semel.types import TopicPartition as TopicPartition

# Not `read` and `write`: without pyarrow they would let all the others fail.
__all__ = [
    "Acl",
    "Admin",
    "App",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "Outbox",
    "Producer",
    "Record",
    "TopicPartition",
    "Transaction",
    "security",
]

__version__ = "0.2.0"

# Imported at the first use: a broker needs none of them, and pyarrow is not always there.
_HOMES = {
    "Acl": "semel.client.admin.acls",
    "Admin": "semel.client.admin.blocking",
    "App": "semel.app.application",
    "AsyncAdmin": "semel.client.admin.asynchronous",
    "AsyncConsumer": "semel.client.consuming.asynchronous",
    "AsyncProducer": "semel.client.producing.asynchronous",
    "Consumer": "semel.client.consuming.blocking",
    "Outbox": "semel.app.outbox",
    "Producer": "semel.client.producing.blocking",
    "Record": "semel.client.consuming.record",
    "TopicPartition": "semel.types",
    "Transaction": "semel.app.outbox",
    "read": "semel.client.columns.tables",
    "write": "semel.client.columns.tables",
}


_MODULES = frozenset({"security"})

# Packages for users, which are there when they have been imported.
_PACKAGES = frozenset({"client", "errors", "spark", "testing"})


def __dir__() -> list[str]:
    special = {name for name in globals() if name.startswith("__")}
    return sorted(special | _HOMES.keys() | _MODULES | (_PACKAGES & globals().keys()))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"semel.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'semel' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "pyarrow"):
            raise
        raise ImportError(
            f"semel.{name} needs pyarrow and numpy: install Semel with its extra arrow, as "
            f"`pip install '.[arrow]'` does in a checkout"
        ) from error
