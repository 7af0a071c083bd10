"""A broker inside the test's process, so that a test can take a rule away from it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import NoReturn, Self

from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.journal.file.disk import FileDevice
from semel.world import SystemClock
from support.handled import SeededRandomness

START_S_MAX = 60


class _StoppedError(Exception):
    """Ends the tasks of the broker."""


def _end_tasks() -> NoReturn:
    raise _StoppedError


class BrokerInThread:
    """Listens on a free port of the loopback interface while its block lasts."""

    def __init__(self, folder: Path) -> None:
        self.port = 0
        storage = Storage(str(folder), lambda: (2**30, 2**30))
        device = FileDevice(folder, synced=False)
        self.broker = Broker(
            BrokerConfig(), [device], storage, SystemClock(), SeededRandomness(Random(1))
        )
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_S_MAX)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def do(self, act: Callable[[Broker], None]) -> None:
        """On the broker's own loop; returns when all of it is durable."""

        async def done() -> None:
            act(self.broker)
            await self.broker.lanes.controller.until_durable()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(START_S_MAX)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                await self.broker.start(tasks)
                listener = await self._loop.create_server(self.broker.connection, "127.0.0.1", 0)
                async with listener:
                    self.port = listener.sockets[0].getsockname()[1]
                    self._ready.set()
                    await self._stopped.wait()
                self.broker.close()
                _end_tasks()
        except* _StoppedError:
            pass
        finally:
            await self.broker.stop()
