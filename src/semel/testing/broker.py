"""A broker in a process of its own, which ends with the block that started it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from semel.errors import SemelError

_READY = re.compile(r"Semel is ready on .+:(?P<port>\d+), data in (?P<folder>.+)\n")


class BrokerDidNotStart(SemelError):
    """The broker's process ended before it was ready; the message is what it said."""


class Broker:
    """Starts with the `with` block and is ready when that is entered.

    Without `data` nothing outlives the broker, and nothing is synced to disk. With a folder it is
    a durable broker that can be killed and started again on the same port.
    """

    def __init__(
        self,
        *,
        data: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        arguments: Iterable[str] = (),
    ) -> None:
        self._data = data
        self._settings = dict(settings or {})
        self._arguments = tuple(arguments)
        self.port = port
        self._process: subprocess.Popen[str] | None = None
        self._folder: Path | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def process_id(self) -> int:
        return self._running().pid

    def start(self) -> None:
        assert self._process is None, "the broker is running"
        command = [sys.executable, "-m", "semel", "serve", "--stop-with-stdin"]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        command += ["--ephemeral"] if self._data is None else ["--data", str(self._data)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        # A file and not a pipe: nobody reads it, and a full pipe would stop the broker.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when it ends.
        self._process = subprocess.Popen(
            [*command, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = _READY.fullmatch(line)
        if ready is None:
            self._running().wait()
            said = line + self.complaints()
            self._wait()
            raise BrokerDidNotStart(said.strip() or "the broker ended without a word")
        self.port = int(ready["port"])
        self._folder = Path(ready["folder"])

    def stop(self) -> None:
        """End it cleanly, as SIGTERM does."""
        self._running().send_signal(signal.SIGTERM)
        self._wait()

    def kill(self) -> None:
        """End it as `kill -9` does, at whatever it is doing."""
        self._running().kill()
        self._wait()

    def restart(self) -> None:
        """Start it again on the same port and folder."""
        if self._process is not None:
            self.stop()
        self.start()

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the broker is not running"
        return self._process

    def complaints(self) -> str:
        """What the running broker has logged so far."""
        # Not by seek and read: the broker writes wherever this open file stands.
        size = os.fstat(self._complaints.fileno()).st_size
        return os.pread(self._complaints.fileno(), size, 0).decode()

    def _wait(self) -> None:
        process = self._running()
        self._process = None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait()
        self._complaints.close()
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
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self.stop()
