"""A broker with listeners in the test's process, so that a test can take a rule away from it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.broker.listeners import listeners_of
from semel.broker.listening import Listening
from semel.client.connecting.sasl import exchange
from semel.errors import SaslAuthenticationFailed
from semel.journal.file.disk import FileDevice
from semel.security import Sasl
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from semel.world import SystemClock
from support.broker_in_thread import BrokerInThread, _end_tasks, _StoppedError
from support.handled import SeededRandomness
from support.raw_client import RawClient

PATIENCE_S = 10.0


@dataclass
class At:
    port: int


class SecuredInThread(BrokerInThread):
    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        super().__init__(folder / "unused")
        self._config = BrokerConfig.from_sources(None, settings)
        self._listeners = listeners_of(self._config)
        self.broker = Broker(
            self._config,
            [FileDevice(folder / "data", synced=False)],
            Storage(str(folder), lambda: (2**30, 2**30)),
            SystemClock(),
            SeededRandomness(Random(1)),
        )
        self.listening: Listening

    def at(self, name: str) -> At:
        names = [each.name for each in self._listeners]
        return At(self.listening.addresses[names.index(name)][1])

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                server = await self.broker.start(tasks)
                self.listening = Listening(self.broker, server, self._listeners, SystemClock())
                await self.listening.begin(None)
                tasks.create_task(self.listening.watch())
                self.port = self.listening.addresses[0][1]
                self._ready.set()
                await self._stopped.wait()
                self.listening.close()
                self.broker.close()
                _end_tasks()
        except* _StoppedError:
            pass
        finally:
            await self.broker.stop()


class SignedIn(NamedTuple):
    error_code: int
    error_message: str | None
    offer: bytes
    """What came before a password was known; empty if nothing did."""
    lifetime_ms: int = 0


def sign_in(
    client: RawClient, user: str, password: str, mechanism: str = "SCRAM-SHA-256"
) -> SignedIn:
    """Says all messages of a sign-in on this connection."""
    shaken = client.call("sasl_handshake", 1, SaslHandshakeRequest(mechanism))
    assert shaken.error_code == 0, shaken
    messages = exchange(Sasl(mechanism, user, password), "0" * 32)
    message, offer = next(messages), b""
    while True:
        reply: SaslAuthenticateResponse
        reply = client.call("sasl_authenticate", 2, SaslAuthenticateRequest(message))
        if reply.error_code:
            return SignedIn(reply.error_code, reply.error_message, offer)
        try:
            offer, message = bytes(reply.auth_bytes), messages.send(bytes(reply.auth_bytes))
        except StopIteration:
            return SignedIn(0, None, offer, reply.session_lifetime_ms)
        except SaslAuthenticationFailed:
            return SignedIn(0, "the server did not prove itself", offer)


def until_users(server: SecuredInThread, name: str) -> None:
    """They are made beside the first clients."""
    until = time.monotonic() + PATIENCE_S
    while not server.broker.lanes.users or not server.broker.lanes.users.of(name):
        assert time.monotonic() < until
        time.sleep(0.01)
