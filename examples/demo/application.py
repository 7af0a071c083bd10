"""The Spark application as its supervisor sees it: start it, kill it, start it again."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from examples.demo.processes import task_workers

ROOT = Path(__file__).parent.parent.parent

_RESTARTS_MAX = 20
# Started again and again, it is done sooner with a Java that compiles less.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class ApplicationFails(Exception):
    """It ends again and again; the message is what it said last."""


class Plan(NamedTuple):
    """What the application is told; the same at each start."""

    delivery: str
    bootstrap_servers: str
    prefix: str
    folder: Path


class Application:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._log = plan.folder / "application.log"
        self.starts = 0
        self._is_finishing = False
        self._start()

    def kill_driver(self) -> None:
        """The driver and its JVM at once, as when their machine loses power."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def kill_workers(self) -> None:
        """Those that run its tasks."""
        workers = task_workers(self._process.pid)
        if not workers:
            raise ApplicationFails("no Python workers were found below the driver")
        for process_id in workers:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)

    def finish(self) -> None:
        """No more orders will come: end when all of them are processed."""
        self._is_finishing = True
        assert self._process.stdin is not None
        self._process.stdin.close()

    def has_finished(self) -> bool:
        """Start it again if it has died; true once it has ended well."""
        ended = self._process.poll()
        if ended is None:
            return False
        if ended == 0 and self._is_finishing:
            return True
        if self.starts > _RESTARTS_MAX:
            raise ApplicationFails(self._log.read_text()[-4_000:])
        self._start()
        return False

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill_driver()
        self._process.wait()

    def _start(self) -> None:
        self.starts += 1
        plan = self._plan
        command = [sys.executable, "-m", "examples.demo.pipeline"]
        command += [plan.delivery, plan.bootstrap_servers, plan.prefix]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, str(plan.folder / "checkpoint")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "JDK_JAVA_OPTIONS": _JAVA_OPTIONS},
                start_new_session=True,
            )
        if self._is_finishing:
            self.finish()
