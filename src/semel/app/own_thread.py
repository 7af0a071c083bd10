"""The thread of a member, in which a function of its listener may take as long as it likes.

A daemon: a function that never returns must not keep the process when its application has ended,
as a thread of an executor would.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

_Result = TypeVar("_Result")


class OwnThread:
    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[[], _Result]) -> _Result:
        done: Future[_Result] = Future()

        def work() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(function())
                except BaseException as error:  # noqa: BLE001 - it is for whoever waits.
                    done.set_exception(error)

        self._work.put(work)
        return await asyncio.wrap_future(done)

    def end(self) -> None:
        """After what is in work, without waiting for it."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
