"""An asyncio loop in a thread of its own, for those who wait for what runs on it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from typing import Any, TypeVar

from semel.client.producing.transaction import NotInOrder

_Result = TypeVar("_Result")

_THREAD_CHECK_S = 1.0


class LoopThread:
    """Runs `main` until it ends, which is told that it is ready by a call."""

    def __init__(
        self, main: Callable[[Callable[[], None]], Coroutine[Any, Any, None]], name: str
    ) -> None:
        self._main = main
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._started.wait()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again where it can be seen.
            self.failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._main(self._started.set)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run this in the thread, and wait for it."""
        assert self._loop is not None, "it is started"
        if threading.current_thread() is self._thread:
            work.close()
            raise NotInOrder("a callback of this thread may not wait: it would wait for itself")
        try:
            self._check_alive()
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        except (RuntimeError, NotInOrder):
            work.close()
            raise NotInOrder("the consumer is closed") from self.failure
        try:
            while not wait([running], _THREAD_CHECK_S).done:
                # A loop that ends drops what was not begun, without a word.
                self._check_alive()
            return running.result()
        except CancelledError:
            raise NotInOrder("the consumer is closed") from self.failure
        except BaseException:
            running.cancel()
            raise

    def _check_alive(self) -> None:
        if not self.is_alive:
            raise NotInOrder("the consumer is closed") from self.failure

    def wake(self, act: Callable[[], object]) -> None:
        """Let the thread do this; if it has ended, there is nothing to do."""
        assert self._loop is not None, "it is started"
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    def join(self) -> None:
        self._thread.join()
