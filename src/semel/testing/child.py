"""A process that was started for a test, and that ends with it, whatever becomes of the test."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence


class Child:
    """Its command ends when its standard input does, so that a killed owner takes it along.

    One that is stopped by SIGSTOP at that moment would not notice. It leads a process group of its
    own, which nobody can let go on once the owner is dead: such a group the kernel ends.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """`arguments` are for the Python that runs this."""
        # A file and not a pipe: nobody reads it, and a full pipe would stop the process.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when it ends.
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            process_group=0,
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def line(self) -> str:
        """The next line of its standard output; empty if it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def tell(self, line: str) -> None:
        """On its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def complaints(self) -> str:
        """What it has written to standard error so far."""
        # Not by seek and read: the process writes wherever this open file stands.
        size = os.fstat(self._complaints.fileno()).st_size
        return os.pread(self._complaints.fileno(), size, 0).decode()

    def last_words(self) -> str:
        """What it has complained of, once it has ended by itself."""
        self._process.wait()
        return self.complaints()

    def stop(self) -> None:
        """End it as SIGTERM does, also if it is frozen."""
        self._process.send_signal(signal.SIGTERM)
        self._process.send_signal(signal.SIGCONT)
        self.wait()

    def kill(self, *, with_group: bool = False) -> None:
        """End it as `kill -9` does, at whatever it is doing; also those that it has started."""
        if with_group:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self.wait()

    def wait(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()
        self._complaints.close()
