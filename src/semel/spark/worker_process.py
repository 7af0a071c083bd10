"""The Python processes that Spark keeps: it runs one task after the other in them.

After each task, and after each call at the driver, Spark's daemon collects garbage. What is loaded
by then is some hundred thousand objects of modules, none of which is ever garbage, and looking at
all of them takes longer than a small task.
"""

import gc
import sys

_DAEMON = "pyspark.daemon"
_FROZEN_AT = 2
"""At the second task: the first one has loaded all that is used, and its garbage is collected."""

_task_count = 0


def begin_task() -> None:
    """At the beginning of a task: what is loaded by now is kept out of later collections.

    Does nothing in a process that is not Spark's.
    """
    global _task_count  # noqa: PLW0603 - it is the process that is counted for.
    _task_count += 1
    if _task_count == _FROZEN_AT and _is_kept_by_spark():
        gc.freeze()


def _is_kept_by_spark() -> bool:
    """Whether this is the daemon, or was forked by it."""
    spec = sys.modules["__main__"].__spec__
    return spec is not None and spec.name == _DAEMON
