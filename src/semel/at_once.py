"""Coroutines that go on in the very step in which what they wait for happens.

A task goes on in a later pass of the event loop, each of which asks the kernel what else there is.
Where something passes through several coroutines, such as a call from one process to another, that
is most of what it takes. A `Run` needs no task as long as what it awaits is `Awaited`; with the
first thing that is not, such as a sleep, the rest of it becomes a task, whose owner ends it.

Law: before that nothing in a `Run` may need a task of its own, as `asyncio.timeout` does.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")

StartTask = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""In a group that owns it."""


class Awaited(asyncio.Future[T]):
    """Happens once. Who awaits it in a `Run` goes on before `give` or `fail` returns, so that these
    are the last that a step does."""

    run: "Run[Any] | None" = None
    """Which waits for it. One at most: others are tasks, or become them."""

    def give(self, result: T) -> None:
        """Nothing, if it has happened already."""
        if not self.done():
            self.set_result(result)
            self._go_on()

    def fail(self, error: BaseException) -> None:
        """As `give`. It may be that nobody is left who waits for it."""
        if not self.done():
            self.set_exception(error)
            self.exception()
            self._go_on()

    def _go_on(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.go_on()


class Runs:
    """Those of one owner, who ends them."""

    on_begun: ClassVar[Callable[["Run[Any]"], None] | None] = None
    """Told of each, of whoever it is, that has not ended at once."""

    def __init__(self, start_task: StartTask) -> None:
        self.start_task = start_task
        self.unfinished: dict[Run[Any], None] = {}
        """In the order in which they were begun."""

    def begin(
        self, work: Coroutine[Any, Any, T], then: Callable[[], None] | None = None
    ) -> "Run[T]":
        """`then` is called when it has ended, unless it ends at once."""
        run = Run(work, self)
        if not run.done():
            run.then = then
            self.unfinished[run] = None
            if Runs.on_begun is not None:
                Runs.on_begun(run)
        return run

    def stop(self) -> None:
        """As tasks are cancelled; those that have become tasks are ended as such."""
        for run in tuple(self.unfinished):
            run.stop()


class Run(Awaited[T]):
    """Of one coroutine; itself what its caller may await."""

    def __init__(self, work: Coroutine[Any, Any, T], owner: Runs) -> None:
        super().__init__()
        self.work = work
        self.then: Callable[[], None] | None = None
        self._owner = owner
        self._waits_for: Awaited[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self.go_on()

    def go_on(self) -> None:
        self._waits_for = None
        try:
            awaited = self.work.send(None)
        except StopIteration as ended:
            self.give(ended.value)
        except asyncio.CancelledError:
            self._cancelled()
        except Exception as error:  # noqa: BLE001 - whoever waits for it hears of it.
            self.fail(error)
        else:
            self._wait_for(awaited)

    def stop(self) -> None:
        """As a task is cancelled. Nothing, if it has ended."""
        if self._task is not None:
            self._task.cancel()
        elif self._waits_for is not None:
            self.detach()
            self.work.close()
            self._cancelled()

    @property
    def has_task(self) -> bool:
        """Which ends it, then."""
        return self._task is not None

    def detach(self) -> None:
        """Let it go on no more."""
        awaited, self._waits_for = self._waits_for, None
        if awaited is not None:
            awaited.run = None

    def _cancelled(self) -> None:
        self.cancel()
        self._go_on()

    def _go_on(self) -> None:
        self._owner.unfinished.pop(self, None)
        super()._go_on()
        if self.then is not None:
            self.then()

    def _wait_for(self, awaited: Any) -> None:
        if isinstance(awaited, Awaited) and awaited.run is None:
            # As a task does that begins to wait for a future.
            awaited._asyncio_future_blocking = False  # noqa: SLF001 - which says so there.
            awaited.run = self
            self._waits_for = awaited
        else:
            self._task = self._owner.start_task(self._as_task(awaited))

    async def _as_task(self, awaited: Any) -> None:
        try:
            result = await _Rest(self.work, awaited)
        except asyncio.CancelledError:
            self._cancelled()
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits for it hears of it.
            self.fail(error)
        else:
            self.give(result)


class _Rest:
    """Of a coroutine that waits for something, for the task that awaits this."""

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        work, awaited = self._work, self._awaited
        try:
            while True:
                try:
                    yield awaited
                except BaseException as error:  # noqa: BLE001 - it is for the coroutine.
                    awaited = work.throw(error)
                else:
                    awaited = work.send(None)
        except StopIteration as ended:
            return ended.value
