"""`python -m bench.instructions --beside REV [LOAD …]`: what a request costs, where time is noise.

The instructions of the server's process for each request of a load, here and in another version, as
valgrind counts them: those of a run with twice as many requests, less those of one with as many.
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from bench import load
from bench.beside import Version, other_version, this_version
from bench.transactions import TOPIC, TransactionalClient

COUNTED: Final = re.compile(r"I +refs: +([\d,]+)")
READY: Final = re.compile(r"Semel is ready on .+:(\d+), ")
IN_FLIGHT: Final = 5
WARMING: Final = 50
"""Requests before those that count: what is imported once is no part of a load."""


def _sends(frame: bytes) -> Callable[[int, int], None]:
    def send(port: int, count: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as link:
            for _ in range(count // IN_FLIGHT):
                link.sendall(frame * IN_FLIGHT)
                for _ in range(IN_FLIGHT):
                    load.receive_exactly(link)

    return send


def _transactions(partition_count: int) -> Callable[[int, int], None]:
    def send(port: int, count: int) -> None:
        client = TransactionalClient(port, "tx")
        for _ in range(count):
            client.send(partition_count)
            client.commit()
        client.close()

    return send


def _tail_fetches(port: int, count: int) -> None:
    one = load.produce_request(TOPIC, 1, 1024, acks=-1)
    load.ask(port, one)
    _sends(load.fetch_request(TOPIC, [1], 1 << 20))(port, count)


class Load(NamedTuple):
    send: Callable[[int, int], None]
    """To a port, so many requests."""
    request_count: int
    settings: tuple[str, ...] = ()
    """Of the server."""


ACCESS_LISTS: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
LOADS: Final = {
    "produce acks=1, 1 KB": Load(_sends(load.produce_request(TOPIC, 0, 1024, 1)), 1000),
    "produce acks=1, 1 KB, with access lists": Load(
        _sends(load.produce_request(TOPIC, 0, 1024, 1)), 1000, ACCESS_LISTS
    ),
    "produce acks=all, 1 KB": Load(_sends(load.produce_request(TOPIC, 0, 1024, -1)), 1000),
    "produce acks=1, ten partitions": Load(
        _sends(load.produce_request(TOPIC, 0, 1024, 1, 10)), 500
    ),
    "fetch at the tail": Load(_tail_fetches, 1000),
    "fetch at the tail, with access lists": Load(_tail_fetches, 1000, ACCESS_LISTS),
    "transaction over one partition": Load(_transactions(1), 300),
    "transaction over 64 partitions": Load(_transactions(64), 30),
}


def instructions(version: Version, one: Load, count: int) -> int:
    """Of a server's whole life."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        server = subprocess.Popen(
            ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
             sys.executable, "-m", "semel", "serve", "--listen", "127.0.0.1:0", "--data", folder,
             *(f"--set={setting}" for setting in ("num.partitions=64", *one.settings))],
            env={**os.environ, "PYTHONPATH": str(version.import_path), "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            ready = READY.search(server.stdout.readline())
            assert ready is not None, server.communicate()
            port = int(ready[1])
            load.wait_for_topic(port, TOPIC)
            one.send(port, WARMING)
            one.send(port, count)
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate()
        finally:
            server.kill()
            server.communicate()
    counted = COUNTED.search(said)
    assert counted is not None, said
    return int(counted[1].replace(",", ""))


def per_request(version: Version, one: Load) -> float:
    twice, once = (instructions(version, one, times * one.request_count) for times in (2, 1))
    return (twice - once) / one.request_count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="LOAD", help=", ".join(LOADS))
    parser.add_argument("--beside", metavar="REV", required=True)
    options = parser.parse_args()
    here, there = this_version(), other_version(options.beside)
    table = Table("instructions for each", "here", options.beside, "here / there")
    for name in options.names or LOADS:
        mine, other = per_request(here, LOADS[name]), per_request(there, LOADS[name])
        table.add_row(name, f"{mine:,.0f}", f"{other:,.0f}", f"{mine / other:.3f}")
    Console().print(f"compiled: {Path(here.import_path).name != 'src'}", table)


if __name__ == "__main__":
    main()
