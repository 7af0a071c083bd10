"""What every command takes: which cluster to talk to, and how to print."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from semel.client.address import (
    BOOTSTRAP_SERVERS_DEFAULT,
    BOOTSTRAP_SERVERS_VARIABLE,
    parse_bootstrap_servers,
)
from semel.client.cluster import Cluster

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
    timeout_ms: Annotated[
        int, Parameter(name="--timeout-ms", help="How long one request may take.")
    ] = 30_000
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")
    ] = False

    def run(self, work: Callable[[Cluster], Awaitable[_Result]]) -> _Result:
        """Connect, do this work, and close the connections."""
        bootstrap_servers = parse_bootstrap_servers(self.bootstrap_server)

        async def connected() -> _Result:
            async with Cluster(bootstrap_servers, timeout_ms=self.timeout_ms) as cluster:
                return await work(cluster)

        return asyncio.run(connected())


DEFAULT_TARGET = Target()
