"""The asyncio client for code that has no event loop: Spark's workers, scripts, notebooks.

The loop runs in a thread of its own, so that replies are taken from the socket while the caller
works on earlier ones. A forked process gets a loop and connections of its own.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.loop_thread import LoopThread, Started
from semel.client.connecting.address import parse_bootstrap_servers
from semel.errors import NotInOrder
from semel.security import PLAINTEXT, Security

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ClientOptions:
    """What a connection is made from; can be pickled and compared."""

    bootstrap_servers: str
    client_id: str = "semel"
    timeout_ms: int = 30_000
    request_timeout_ms: int | None = None
    """Of one request; none may take longer than `timeout_ms` in any case."""
    connect_timeout_ms: int = 10_000
    security: Security = PLAINTEXT


class Connected:
    """A cluster, and the thread in which it is talked to."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.cluster = Cluster(
            parse_bootstrap_servers(options.bootstrap_servers),
            client_id=options.client_id,
            timeout_ms=options.timeout_ms,
            request_timeout_ms=options.request_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
            security=options.security,
        )
        self._ending = asyncio.Event()
        self._thread = LoopThread("client", self._main)

    async def _main(self, ready: Callable[[], None]) -> None:
        ready()
        try:
            await self._ending.wait()
        finally:
            await self.cluster.__aexit__(None, None, None)

    def run(self, job: Coroutine[Any, Any, _Result]) -> _Result:
        """The result of a coroutine of this package's that uses `cluster`.

        It has ended also if the wait for it is interrupted.
        """
        return self._thread.call(job)

    def start(self, job: Coroutine[Any, Any, _Result]) -> Started[_Result]:
        """As `run`, without waiting for the result."""
        return self._thread.start(job)

    def iterate(self, items: AsyncIterator[_Result]) -> Iterator[_Result]:
        """The items of an asynchronous iterator, one step at a time."""
        nothing = object()

        async def step() -> _Result | object:
            return await anext(items, nothing)

        async def close() -> None:
            if hasattr(items, "aclose"):
                await items.aclose()

        try:
            while (item := self.run(step())) is not nothing:
                yield item  # type: ignore[misc]
        finally:
            # A thread that has ended has closed its iterators.
            with suppress(NotInOrder):
                self.run(close())

    def close(self) -> None:
        self._thread.check_may_wait()
        self._thread.wake(self._ending.set)
        self._thread.join()
        if self._thread.failure is not None:
            raise self._thread.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_shared: dict[tuple[int, ClientOptions], Connected] = {}
_sharing = threading.Lock()


def shared(options: ClientOptions) -> Connected:
    """One connection per process and options, kept until the process ends.

    A fork inherits the entries of its parent, whose threads it does not have: they are passed
    over and left alone, since their sockets are the parent's.
    """
    with _sharing:
        key = (os.getpid(), options)
        if key not in _shared:
            _shared[key] = Connected(options)
        return _shared[key]


def _renew_lock() -> None:
    global _sharing  # noqa: PLW0603 - a fork may come while another thread holds the lock.
    _sharing = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
