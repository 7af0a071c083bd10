"""An asyncio loop in a thread of its own, for those who wait for what runs on it."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from semel.errors import NotInOrder

_Result = TypeVar("_Result")

_THREAD_CHECK_S = 1.0


class LoopThread:
    """Runs `main` until it ends, which says by a call that it is ready.

    A forked process has the object and not the thread, so that every call is refused in it.
    """

    def __init__(
        self,
        subject: str,
        main: Callable[[Callable[[], None]], Coroutine[Any, Any, None]],
        when_forked: Callable[[NotInOrder], object] = lambda refusal: None,
    ) -> None:
        """`when_forked` is called in a forked process, where a lock may be held for ever.

        It is given what every call raises there: whoever has it may not have been made to its end.
        """
        self._subject = subject
        self._main = main
        self.when_forked = when_forked
        self.is_forked = False
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"semel-{subject}", daemon=True)
        _all.add(self)
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

    def check_alive(self) -> None:
        if not self.is_alive:
            raise self.closed() from self.failure

    def closed(self) -> NotInOrder:
        if self.is_forked:
            return NotInOrder(f"the {self._subject} is another process's: make one after the fork")
        return NotInOrder(f"the {self._subject} is closed")

    def check_may_wait(self) -> None:
        if threading.current_thread() is self._thread:
            raise NotInOrder(
                f"a callback in the {self._subject}'s thread may not wait: it would wait for itself"
            )

    def call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run this in the thread, and wait for it."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, _Result]) -> "Started[_Result]":
        """Run this in the thread, and wait for it later."""
        try:
            self.check_may_wait()
            self.check_alive()
        except NotInOrder:
            work.close()
            raise
        started = Started(self, work)
        try:
            self._hand_over(started.begin)
        except BaseException:
            started.give_up()
            raise
        return started

    def _hand_over(self, act: Callable[[], object]) -> None:
        assert self._loop is not None, "it is started"
        try:
            self._loop.call_soon_threadsafe(act)
        except RuntimeError:
            raise self.closed() from self.failure

    def wake(self, act: Callable[[], object]) -> None:
        """Let the thread do this; if it has ended, there is nothing to do."""
        # A forked process would write to the socket that wakes its parent's loop.
        if not self.is_forked:
            with suppress(NotInOrder):
                self._hand_over(act)

    def join(self) -> None:
        self._thread.join()


class Started(Generic[_Result]):
    """Work that one thread waits for and another does."""

    def __init__(self, thread: LoopThread, work: Coroutine[Any, Any, _Result]) -> None:
        self._thread = thread
        self._work = work
        self._task: asyncio.Task[_Result] | None = None
        self._has_ended = threading.Event()

    def begin(self) -> None:
        """Called in the thread."""
        if not self._has_ended.is_set():
            self._task = asyncio.get_running_loop().create_task(self._work)
            self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[_Result]) -> None:
        if not task.cancelled():
            # Looked at, in case that nobody waits for it any more.
            task.exception()
        self._has_ended.set()

    def result(self) -> _Result:
        """Wait for it; whoever is interrupted meanwhile gives it up."""
        try:
            self._wait()
        except BaseException:
            self.give_up()
            raise
        try:
            if self._task is not None:
                return self._task.result()
        except asyncio.CancelledError:
            pass
        raise self._thread.closed() from self._thread.failure

    def _wait(self) -> None:
        while not self._has_ended.wait(_THREAD_CHECK_S):
            # A loop that ends drops what was not begun, without a word.
            if not self._thread.is_alive and not self._has_ended.is_set():
                raise self._thread.closed() from self._thread.failure

    def give_up(self) -> None:
        """Cancel it, and return when it has ended.

        Whoever goes on after an interruption finds everything as the work has left it.
        """
        self._thread.wake(self._cancel)
        while self._thread.is_alive and not self._has_ended.wait(_THREAD_CHECK_S):
            pass
        if not self._has_ended.is_set():
            # Begun or not, a loop that is closed does not go on with it.
            with suppress(RuntimeError):
                self._cancel()

    def _cancel(self) -> None:
        if self._task is None:
            self._work.close()
            self._has_ended.set()
        else:
            self._task.cancel()


_all: "weakref.WeakSet[LoopThread]" = weakref.WeakSet()


def _forked() -> None:
    for each in _all:
        each.is_forked = True
        each.when_forked(each.closed())


os.register_at_fork(after_in_child=_forked)
