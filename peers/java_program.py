"""A Java program in a process of its own, which ends with its block."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_STOP_S_MAX = 90


class JavaProgram:
    """Can be killed and started again; what it says is kept in a file for all its lives."""

    def __init__(self, class_path: Sequence[Path | str], arguments: Sequence[str], folder: Path):
        folder.mkdir()
        temporary = folder / "temporary"
        temporary.mkdir()
        self._command = ["java", "-Xmx256m", f"-Djava.io.tmpdir={temporary}"]
        self._command += ["-cp", ":".join(str(each) for each in class_path), *arguments]
        self._output = folder / "output"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None, "the program is running"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def stop(self) -> None:
        """End it cleanly."""
        self._running().send_signal(signal.SIGTERM)
        try:
            self._running().wait(_STOP_S_MAX)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it as `kill -9` does, at whatever it is doing."""
        process = self._running()
        self._process = None
        process.kill()
        process.wait()

    def output(self) -> str:
        return self._output.read_text() if self._output.exists() else ""

    def require_running(self) -> None:
        assert self._running().poll() is None, f"it has ended: {self.output()}"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the program is not running"
        return self._process

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
            self.kill()
