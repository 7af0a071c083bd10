"""Servers under measurement, each in a process of its own, and what the kernel says of them."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def bare_server(*kind: str) -> Iterator[tuple[int, int]]:
    """The port and the process id of a bare server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.bare_server", *kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.communicate()


def cpu_seconds(process_id: int) -> float:
    """User and system time of all threads so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def own_cpu_seconds() -> float:
    return sum(os.times()[:2])


def resident_mb(process_id: int) -> float:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {process_id} has no VmRSS")


def file_reads(process_id: int) -> int:
    """How often it has read from a file so far; what comes from sockets does not count."""
    for line in Path(f"/proc/{process_id}/io").read_text().splitlines():
        if line.startswith("syscr:"):
            return int(line.split()[1])
    raise LookupError(f"process {process_id} has no syscr")


def metric(port: int, name: str) -> float:
    """The sum of a metric of the broker over its labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    values = [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith((f"{name}{{", f"{name} "))
    ]
    if not values:
        raise LookupError(f"the broker shows no metric {name}")
    return sum(values)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
