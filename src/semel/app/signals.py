"""Ending an application by signals: the first one lets it finish, a second one does not."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from semel.app.running import Run

INTERRUPTED = 130


def _say(sentence: str) -> None:
    sys.stderr.write(f"semel: {sentence}\n")
    sys.stderr.flush()


async def run_until_told(
    running: AbstractAsyncContextManager[Run],
    watch: Callable[[Run], Awaitable[None]],
    notify: Callable[[str], None] = _say,
) -> None:
    """Run, and watch it, until SIGTERM or Ctrl-C has ended it or a listener failed."""
    async with running as run:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, run, notify)
        await watch(run)


def _stop(run: Run, notify: Callable[[str], None]) -> None:
    if run.is_stopping:
        # Someone does not want to wait for what is being worked on; what it may have open is
        # aborted by the coordinator.
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    notify("finishing what is in work; once more ends it at once")
    run.stop()
