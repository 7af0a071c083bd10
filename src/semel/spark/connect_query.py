"""A query on a Connect server, where a function of `foreachBatch` has no JVM to ask.

The function is unpickled in a process of its own at the server, once for each run of its query. It
is given frames of the session in which the query runs, which does not know its queries; the
session that the user has started it from does, and is the active one at that moment.
"""

import io
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from pyspark.errors import PySparkException

from semel.errors import ConfigError
from semel.spark.checkpoint import consumed_offsets
from semel.spark.task import Origin
from semel.types import TopicPartition
from semel.world import SystemRandomness

_log = logging.getLogger(__name__)

# Where such a process finds the server: Spark sets it for these alone.
_SERVER_VARIABLE = "SPARK_CONNECT_LOCAL_URL"

_REDACTION = "spark.sql.redaction.string.regex"
_REDACTED = "*********(redacted)"
_CHECKPOINT = re.compile(r"\bcheckpointLocation=(.+?)(?:, [\w.]+=|$)", re.IGNORECASE)


class Home:
    """The session that a query was started from."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._found: ConnectQuery | None = None

    def query(self, spark: Any, checkpoint: str | None) -> "ConnectQuery":
        """The one that runs in the session `spark`; it stays the same in this process."""
        if self._found is None:
            own = _own_query(self._session.streams.active, spark)
            self._found = ConnectQuery(own, checkpoint or _checkpoint_of(own))
        return self._found


def home() -> Home | None:
    """Of a function that is being unpickled; None where that is not at a Connect server."""
    if _SERVER_VARIABLE not in os.environ:
        return None
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.getActiveSession()
    return None if session is None else Home(session)


class ConnectQuery:
    def __init__(self, query: Any, checkpoint: str | None) -> None:
        self._query = query
        self._checkpoint = checkpoint
        self.origin = Origin(query.id, query.runId, query_name=query.name or "")
        if checkpoint is None:
            _log.warning(
                "consumed offsets are left out: where query %s has its checkpoint is not known "
                "here; say it by options={'checkpointLocation': ...}",
                query.id,
            )

    def consumed(self, batch_id: int) -> dict[TopicPartition, int] | None:
        return None if self._checkpoint is None else consumed_offsets(self._checkpoint, batch_id)

    def is_stopped(self) -> bool:
        try:
            return not self._query.isActive
        except PySparkException:
            return False


def _own_query(queries: Sequence[Any], spark: Any) -> Any:
    own = queries if len(queries) == 1 else [each for each in queries if _runs_in(spark, each)]
    if len(own) != 1:
        raise ConfigError(
            f"exactly_once cannot tell which of the {len(queries)} queries of this session it "
            f"writes for: start it from a session of its own"
        )
    return own[0]


def _runs_in(spark: Any, query: Any) -> bool:
    """Whether this is the session of that query, whose plan is shown as its session says.

    What it is to hide is drawn at random, since another process may ask the same at this moment.
    """
    drawn = int.from_bytes(SystemRandomness().token_bytes(8), "big") | 1
    text = str(query.id)
    hidden = [at for at in range(len(text)) if drawn >> at & 1]
    pattern = "|".join(f"(?<={text[:at]}){text[at]}(?={text[at + 1 :]})" for at in hidden)
    expected = "".join(_REDACTED if at in hidden else letter for at, letter in enumerate(text))
    try:
        with _also_redacting(spark, pattern):
            return expected in _plan_of(query)
    except PySparkException as error:
        # It may have ended by now, or the server allows no such setting.
        _log.warning("whether query %s is the one that is written for: %s", query.id, error)
        return False


@contextmanager
def _also_redacting(spark: Any, pattern: str) -> Iterator[None]:
    before = spark.conf.get(_REDACTION, None)
    spark.conf.set(_REDACTION, f"{before}|{pattern}" if before else pattern)
    try:
        yield
    finally:
        if before:
            spark.conf.set(_REDACTION, before)
        else:
            spark.conf.unset(_REDACTION)


def _checkpoint_of(query: Any) -> str | None:
    """As its options say it, which are a part of its plan."""
    try:
        line = re.search(rf"\b{query.id}, \[(.*)\], \w+, \d+$", _plan_of(query), re.MULTILINE)
    except PySparkException:
        return None
    found = None if line is None else _CHECKPOINT.search(line[1])
    return None if found is None else found[1]


def _plan_of(query: Any) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        query.explain(True)
    return shown.getvalue()
