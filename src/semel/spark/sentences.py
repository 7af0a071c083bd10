"""Errors of ours, as Spark shows them: the sentence first, where a trace would stand before it.

A Python process of Spark's hands an exception to the JVM as text, the trace in front, and ends. The
trace of an error that is raised on purpose leads into this package and helps nobody.
"""

import os
import sys
from contextlib import ContextDecorator
from types import TracebackType

from semel.errors import SemelError

_WITHOUT_TRACES = "SPARK_HIDE_TRACEBACK"
"""Spark's own variable, which a process reads when it hands its last exception over."""


class SentenceFirst(ContextDecorator):
    """Around what Spark calls in a process of its own."""

    def __enter__(self) -> None:
        """Nothing is changed unless an error comes."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, SemelError) and is_of_spark():
            os.environ[_WITHOUT_TRACES] = "1"


def is_of_spark(module: str = "") -> bool:
    """Whether Spark has started this process, by this module of its own, or one that forked it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith(f"pyspark.{module}")


def told_first(error: SemelError) -> SemelError:
    """To be raised from, by what Spark calls in the driver's own process.

    There a trace cannot be left out. What has caused an error stands before its trace, and if that
    is the same error without one the sentence is both the first and the last that is said.
    """
    return type(error)(*error.args)
