"""What Spark's processes hand over of an error: our sentence, or the trace of another's."""

import subprocess
import sys

import pytest

_HAND_OVER = """
import io, sys
__spec__ = type(sys)("s")
__spec__.name = {module!r}
from pyspark.util import handle_worker_exception
from semel.errors import ConfigError
from semel.spark.sentences import SentenceFirst

@SentenceFirst()
def schema():
    raise {error}

handed = io.BytesIO()
try:
    schema()
except Exception as error:
    handle_worker_exception(error, handed)
sys.stdout.buffer.write(handed.getvalue()[8:])
"""


@pytest.mark.parametrize(
    ("module", "error", "has_trace"),
    [
        ("pyspark.daemon", "ConfigError('so')", False),
        ("pyspark.sql.streaming.python_streaming_source_runner", "ConfigError('so')", False),
        ("pyspark.daemon", "KeyError('so')", True),
        # A process of the user's, in which other errors may come later.
        ("pytest", "ConfigError('so')", True),
    ],
)
def test_a_trace_is_left_out_of_our_errors_in_sparks_processes(
    module: str, error: str, has_trace: bool
) -> None:
    program = _HAND_OVER.format(module=module, error=error)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *trace, last = done.stdout.splitlines()
    assert last in ("semel.errors.ConfigError: so", "KeyError: 'so'")
    assert bool(trace) == has_trace
