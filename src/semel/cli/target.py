"""What every command takes: which cluster to talk to, how, and how to print."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from semel.cli.properties import read_properties
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import (
    BOOTSTRAP_SERVERS_DEFAULT,
    BOOTSTRAP_SERVERS_VARIABLE,
    parse_bootstrap_servers,
)
from semel.client.connecting.security_settings import SECURITY_SETTINGS, security_from
from semel.client.security import PLAINTEXT, Security
from semel.errors import ConfigError

_Result = TypeVar("_Result")


@Parameter(name="*")
@dataclass(frozen=True)
class Target:
    bootstrap_server: Annotated[
        str | None,
        Parameter(
            name=["-b", "--bootstrap-server", "--brokers"],
            help="Brokers to ask first, as HOST:PORT, separated by commas; else those that "
            f"{BOOTSTRAP_SERVERS_VARIABLE} names, or {BOOTSTRAP_SERVERS_DEFAULT}.",
        ),
    ] = None
    command_config: Annotated[
        Path | None,
        Parameter(
            name="--command-config",
            help="A file with Kafka's settings for TLS and SASL, as Kafka's own commands take it.",
        ),
    ] = None
    timeout_ms: Annotated[
        int, Parameter(name="--timeout-ms", help="How long one request may take.")
    ] = 30_000
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")
    ] = False

    def security(self) -> Security:
        return PLAINTEXT if self.command_config is None else _read_security(self.command_config)

    def run(self, work: Callable[[Cluster], Awaitable[_Result]]) -> _Result:
        """Connect, do this work, and close the connections."""
        bootstrap_servers = parse_bootstrap_servers(self.bootstrap_server)
        security = self.security()

        async def connected() -> _Result:
            async with Cluster(
                bootstrap_servers, timeout_ms=self.timeout_ms, security=security
            ) as cluster:
                return await work(cluster)

        return asyncio.run(connected())


DEFAULT_TARGET = Target()


def _read_security(file: Path) -> Security:
    """Whatever else a client is told there is not for commands, and is passed over."""
    given = read_properties(file)
    for name in sorted(given.keys() - SECURITY_SETTINGS):
        if name.startswith(("sasl.", "security.", "ssl.")):
            known = ", ".join(sorted(SECURITY_SETTINGS))
            raise ConfigError(f"{file}: {name} cannot be honoured: there are {known}")
    return security_from(given.get, f"{file}: ")
