"""What to do about update mode, which Spark refuses to sinks in Python before they are asked.

Its words are "semel does not support Update mode", from within the query. Nothing of a sink in
Python is run by then, so that they can be bettered only where a stream is started.
"""

import functools
import inspect
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from semel.errors import ConfigError

_FORMAT = "semel"

_original = DataStreamWriter.start
_signature = inspect.signature(_original)


def explain_update_mode() -> None:
    """From now on, in this process, starting such a stream fails at once and says what to do."""
    DataStreamWriter.start = _start  # type: ignore[assignment, method-assign]


@functools.wraps(_original)
def _start(writer: DataStreamWriter, *arguments: Any, **options: Any) -> StreamingQuery:
    given = _signature.bind(writer, *arguments, **options).arguments
    form = given.get("format") or _set_before(writer, "source")
    mode = given.get("outputMode") or _set_before(writer, "outputMode")
    if form.lower() == _FORMAT and mode.lower() == "update":
        raise ConfigError(
            "outputMode is update, which Spark gives to no sink written in Python: write with "
            "foreachBatch(semel.spark.exactly_once(topic=...)), which takes it"
        )
    return _original(writer, *arguments, **options)


def _set_before(writer: DataStreamWriter, name: str) -> str:
    """What Spark's own writer holds by this name; empty if there is nothing of this name."""
    java = writer._jwrite
    for field in java.getClass().getDeclaredFields():
        if field.getName() == name:
            field.setAccessible(True)
            return str(field.get(java))
    return ""
