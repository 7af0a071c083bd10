"""The processes of a Spark application, found below its driver: the JVM and Python's workers."""

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Spark starts a daemon that forks a worker for each task that runs at the same time.
_DAEMON = "pyspark.daemon pyspark.worker"


class Process(NamedTuple):
    process_id: int
    parent_id: int
    command: str


def task_workers(driver_id: int) -> list[int]:
    """The Python processes in which the tasks of this driver run."""
    children: dict[int, list[Process]] = defaultdict(list)
    for process in _running():
        children[process.parent_id].append(process)
    workers = []
    below = list(children[driver_id])
    while below:
        process = below.pop()
        forked = children[process.process_id]
        if _DAEMON in process.command:
            workers += [each.process_id for each in forked]
        else:
            below += forked
    return workers


def _running() -> Iterator[Process]:
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        yield from _listed()
        return
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text()
                command = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # It has ended since.
            # The name before the last bracket may hold anything.
            parent = status.rpartition(")")[2].split()[1]
            yield Process(int(folder.name), int(parent), command)


def _listed() -> Iterator[Process]:
    command = ["ps", "-A", "-o", "pid=,ppid=,command="]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    ):
        fields = line.split(maxsplit=2)
        if len(fields) == 3:
            yield Process(int(fields[0]), int(fields[1]), fields[2])
