"""A Spark session that somebody else has started, and the Python in which it looks for sources."""

import os
import re
import subprocess
import sys
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from semel.errors import ConfigError

# The modules that are not Spark's own, which it brings to whatever Python it starts.
_NEEDED = "import semel, pyarrow"
_MISSING = re.compile(r"No module named '[^']+'")


def register(spark: Any) -> None:
    """Let `format("semel")` and `exactly_once` work on a session, however it was started.

    Spark starts `python3` as it finds it on the path unless PYSPARK_PYTHON names another, and in a
    virtual environment that is not activated that is not the one in which this package is. A local
    session is told to start the Python that calls this. A cluster has to be told by
    PYSPARK_PYTHON, as that Python has to be on every machine, and so has a server of Spark
    Connect, as it has chosen its Python when it started.
    """
    from semel.spark.source import SemelSource

    if isinstance(spark, SparkSession):
        _choose_python(spark)
        spark.dataSource.register(SemelSource)
    else:
        spark.dataSource.register(SemelSource)
        _check_server(spark)


def _choose_python(spark: SparkSession) -> None:
    context = spark.sparkContext
    if "PYSPARK_PYTHON" not in os.environ and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable
        return
    try:
        subprocess.run([context.pythonExec, "-c", _NEEDED], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            f"Spark starts {context.pythonExec!r}, which cannot import semel and pyarrow "
            f"({_last_words(error)}): set PYSPARK_PYTHON to a Python that can, on every machine, "
            f"before the session starts"
        ) from error


def _check_server(spark: Any) -> None:
    """Have the server make a source and tell its columns, for which no broker is asked."""
    named = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "any"}
    try:
        spark.read.format("semel").options(**named).load().schema  # noqa: B018
    except AnalysisException as error:
        missing = _MISSING.search(str(error))
        if missing is None:
            raise
        raise ConfigError(
            f"the Python that the server of Spark Connect starts lacks a package ({missing[0]}): "
            f"set PYSPARK_PYTHON, where that server is started and before it is, to a Python "
            f"that has semel[spark]; for remote('local') that is before the session"
        ) from None


def _last_words(error: Exception) -> str:
    said = getattr(error, "stderr", b"") or b""
    return said.decode(errors="replace").strip().rpartition("\n")[2] or str(error)
