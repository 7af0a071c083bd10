"""A ready Spark session, local unless told otherwise, with a broker where none is named."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pyspark import SparkContext
from pyspark.sql import SparkSession

from semel.client.connecting.address import BOOTSTRAP_SERVERS_VARIABLE, named_bootstrap_servers
from semel.spark.java import find_java_home
from semel.spark.update_mode import explain_update_mode
from semel.testing import Broker

_LOGGING = Path(__file__).with_name("log4j2.properties")

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_LOCAL_DEFAULTS = {
    # A local session has no business on the network.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # What tasks of the default sink hand to the driver stays within one process here, and need
    # not be stored and fetched in between.
    "spark.task.maxDirectResultSize": "128m",
}


class Session(SparkSession):
    """A Spark session that knows its brokers, and ends the one that was started for it."""

    bootstrap_servers: str
    _servers_before: str | None = None
    _broker: Broker | None = None

    def __enter__(self) -> Self:
        return self

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            _restore(self._servers_before)
            broker, self._broker = self._broker, None
            if broker is not None:
                broker.stop()


def session(
    master: str = "local[2]",
    *,
    broker: str | Broker | None = None,
    app_name: str = "semel",
    config: Mapping[str, Any] | None = None,
) -> Session:
    """A Spark session on which `format("semel")` works, quiet and without the web interface.

    `broker` is the address of any cluster that speaks Kafka's protocol; without one, an ephemeral
    broker is started that ends with the session. `kafka.bootstrap.servers` may then be left out
    of every source and sink. `config` adds to Spark's configuration or overrides it.
    """
    _prepare_environment()
    named = broker or named_bootstrap_servers()
    own = None
    if named is None:
        own = named = Broker()
        own.start()
    servers = named if isinstance(named, str) else named.bootstrap_servers
    # Python workers inherit it from the JVM, and the JVM from here when it starts.
    _end_java_unless_it_knows(servers)
    before = os.environ.get(BOOTSTRAP_SERVERS_VARIABLE)
    os.environ[BOOTSTRAP_SERVERS_VARIABLE] = servers
    try:
        ready = _start(master, app_name, servers, config or {})
    except BaseException:
        _restore(before)
        if own is not None:
            own.stop()
        raise
    ready.bootstrap_servers = servers
    ready._servers_before = before
    ready._broker = own
    return ready


def _restore(servers: str | None) -> None:
    if servers is None:
        os.environ.pop(BOOTSTRAP_SERVERS_VARIABLE, None)
    else:
        os.environ[BOOTSTRAP_SERVERS_VARIABLE] = servers


def _prepare_environment() -> None:
    os.environ["JAVA_HOME"] = str(find_java_home())
    # Spark would take whatever `python3` comes first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


_java_knows: str | None = None
"""The brokers that were named when this process started its JVM, which outlives sessions."""


def _end_java_unless_it_knows(servers: str) -> None:
    global _java_knows  # noqa: PLW0603 - as the JVM, it is one for the process.
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if SparkContext._active_spark_context is not None:
        return
    if gateway is not None and process is not None and _java_knows != servers:
        SparkContext._gateway = SparkContext._jvm = None
        gateway.shutdown()
        # It ends with the pipe from here.
        process.stdin.close()
        process.wait()
    _java_knows = servers


def _start(master: str, app_name: str, servers: str, config: Mapping[str, Any]) -> Session:
    builder = SparkSession.builder.master(master).appName(app_name)
    settings = {
        **_DEFAULTS,
        **(_LOCAL_DEFAULTS if master.startswith("local") else {}),
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        f"spark.executorEnv.{BOOTSTRAP_SERVERS_VARIABLE}": servers,
        **config,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    plain = builder.getOrCreate()
    plain.sparkContext.setLogLevel("ERROR")
    explain_update_mode()
    return Session(plain.sparkContext, plain._jsparkSession)
