"""What is said over one connection to another node: nothing waits, and what comes together leaves
together."""

import asyncio
from collections.abc import Callable
from typing import Final

TOGETHER_S: Final = 0.0001
"""What follows so closely upon something else may not be the last of it, and leaves with the rest
of this pass of the loop."""


class Outbox:
    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._said: list[bytes] = []
        self._said_s = -1.0

    def say(self, said: bytes) -> None:
        now_s = self._loop.time()
        if self._said:
            self._said.append(said)
        elif now_s - self._said_s < TOGETHER_S:
            self._said.append(said)
            self._loop.call_soon(self._empty)
        else:
            self._write(said)
        self._said_s = now_s

    @property
    def is_empty(self) -> bool:
        return not self._said

    def _empty(self) -> None:
        said, self._said = self._said, []
        self._write(b"".join(said))
