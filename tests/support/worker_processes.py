"""The processes of a broker with several workers, found as an operator would find them."""

import os
import signal
import time
from pathlib import Path

from semel.testing import Broker

PATIENCE_S = 30.0


def worker_processes(broker: Broker) -> dict[int, int]:
    """Process ids by the ids of nodes."""
    found = {}
    for child in _children(broker.process_id):
        try:
            arguments = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--as-worker" in arguments:
            found[int(arguments[arguments.index(b"--as-worker") + 1])] = child
    return found


def _children(process_id: int) -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                status = (each / "stat").read_text()
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) == process_id:
                found.append(int(each.name))
    return found


def kill_worker(broker: Broker, node_id: int) -> int:
    """As `kill -9`; gives the process id that it had."""
    process_id = worker_processes(broker)[node_id]
    os.kill(process_id, signal.SIGKILL)
    return process_id


def until_started_anew(broker: Broker, node_id: int, before: int) -> int:
    """Until its parent has started this worker again; gives its process id."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        now = worker_processes(broker).get(node_id)
        if now not in (None, before):
            assert now is not None
            return now
        time.sleep(0.01)
    raise AssertionError(f"worker {node_id} was not started again")


def until_ended(process_id: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"process {process_id} lives on")
