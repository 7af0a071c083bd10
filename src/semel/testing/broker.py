"""A broker in a process of its own, which ends with the block that started it."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from semel.errors import ConfigError, SemelError
from semel.testing.child import Child

_READY = re.compile(r"Semel is ready on [^,]+:(?P<port>\d+)(?:,\S+:\d+)*, data in (?P<folder>.+)\n")

_AS_WORKER = "--as-worker"
_PAUSE_S = 0.02


class BrokerDidNotStart(SemelError):
    """The broker's process ended before it was ready; the message is what it said."""


class Broker:
    """Starts with the `with` block and is ready when that is entered.

    Without `data` nothing outlives the broker, and nothing is synced to disk. With a folder it is
    a durable broker that can be killed and started again on the same port. Several `workers` are as
    many brokers of one cluster, at this port and the next ones. If the settings have `listeners`,
    `bootstrap_servers` are those of the first.
    """

    def __init__(
        self,
        *,
        data: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        arguments: Iterable[str] = (),
        workers: int = 1,
    ) -> None:
        if workers < 1:
            raise ConfigError(f"workers is {workers}: a broker has at least one")
        self._data = data
        self._workers = workers
        self._settings = dict(settings or {})
        self._arguments = tuple(arguments)
        self.port = port
        self.ready = ""
        """What it has said when it was: where each of its listeners is."""
        self._environment: Mapping[str, str] = {}
        self._child: Child | None = None
        self._folder: Path | None = None

    @property
    def bootstrap_servers(self) -> str:
        if not self.port:
            raise BrokerDidNotStart(
                "it has no port before it has started: ask within `with Broker() as broker:`, or "
                "after `broker.start()`"
            )
        ports = range(self.port, self.port + self._workers)
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    @property
    def is_running(self) -> bool:
        return self._child is not None

    @property
    def process_id(self) -> int:
        return self._running().process_id

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Begin to start it; `await_ready` is to follow. So several can start at once."""
        assert self._child is None, "the broker is running"
        command = ["-m", "semel", "serve", "--stop-with-stdin"]
        # Which would come before those of the settings.
        if "listeners" not in self._settings:
            command += ["--listen", f"127.0.0.1:{self.port}"]
        command += self._place()
        if self._workers != 1:
            command += ["--workers", str(self._workers)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        self._child = Child([*command, *self._arguments], self._environment)

    def await_ready(self) -> None:
        line = self._running().line()
        ready = _READY.fullmatch(line)
        if ready is None:
            said = line + self._running().last_words()
            self._ended()
            raise BrokerDidNotStart(said.strip() or "the broker ended without a word")
        self.ready = line
        self.port = int(ready["port"])
        self._folder = Path(ready["folder"])

    def _place(self) -> list[str]:
        """The options that say where its data is."""
        return ["--ephemeral"] if self._data is None else ["--data", str(self._data)]

    def stop(self) -> None:
        """End it cleanly, as SIGTERM does."""
        self._running().stop()
        self._ended()

    def kill(self) -> None:
        """End it as `kill -9` does, at whatever it is doing, with all its workers."""
        self._running().kill(with_group=self._workers > 1)
        self._ended()

    def restart(self) -> None:
        """Start it again on the same port and folder."""
        if self._child is not None:
            self.stop()
        self.start()

    def pause(self) -> None:
        self._running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().signal(signal.SIGCONT)

    def _running(self) -> Child:
        assert self._child is not None, "the broker is not running"
        return self._child

    @property
    def worker_process_ids(self) -> dict[int, int]:
        """Of several workers, by the ids of their nodes."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,args="], check=True, capture_output=True, text=True
        )
        found = {}
        for line in listed.stdout.splitlines():
            process_id, parent_id, *arguments = line.split()
            if int(parent_id) == self.process_id and _AS_WORKER in arguments:
                node_id = int(arguments[arguments.index(_AS_WORKER) + 1])
                found[node_id] = int(process_id)
        return found

    def kill_worker(self, node_id: int) -> None:
        """End one of several workers as `kill -9` does. It is started again by itself: return when
        it is."""
        self._end_worker(node_id, signal.SIGKILL)

    def stop_worker(self, node_id: int) -> None:
        """As `kill_worker`, but let it end in order."""
        self._end_worker(node_id, signal.SIGTERM)

    def _end_worker(self, node_id: int, how: signal.Signals) -> None:
        before = self.worker_process_ids[node_id]
        os.kill(before, how)
        while self.worker_process_ids.get(node_id) in (None, before):
            time.sleep(_PAUSE_S)

    def complaints(self) -> str:
        """What the running broker has logged so far."""
        return self._running().complaints()

    def _ended(self) -> None:
        child = self._running()
        self._child = None
        child.wait()
        if self._data is None and self._folder is not None:
            # One that was killed could not tidy up behind itself.
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._child is not None:
            self.stop()
