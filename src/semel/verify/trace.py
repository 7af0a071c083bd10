"""A fingerprint of everything that happened in a run: two runs of one seed must agree in it."""

import asyncio
import hashlib


class Trace:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, what: str, content: bytes = b"") -> None:
        self._digest.update(f"{self._loop.time():.9f} {what} {len(content)} ".encode())
        self._digest.update(content)

    @property
    def fingerprint(self) -> str:
        return self._digest.hexdigest()
