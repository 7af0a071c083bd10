"""What a handler returns: a response, and the point of the journal it has to wait for."""

from collections.abc import Coroutine
from typing import Any, NamedTuple

from semel.types import Position
from semel.wire.apis import Api


class Answer(NamedTuple):
    response: Any
    """The message to send; None: this request is not answered (acks=0)."""
    position: Position = Position(0)
    """Nothing leaves before the journal has reached this position…"""
    durable: bool = True
    """…durably; or, if False, has handed it to the kernel."""


Handled = Answer | Coroutine[Any, Any, Answer]
"""A handler has decided when it returns. If the answer must wait for others (a fetch for records,
a member for its group), it returns the coroutine that waits."""


class Call:
    """The circumstances of one request."""

    __slots__ = ("_client_id", "api", "client_host", "correlation_id", "listener", "version")

    def __init__(
        self,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: memoryview | None,
        client_host: str,
        listener: tuple[str, int],
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self._client_id = client_id
        self.client_host = client_host
        self.listener = listener
        """The address that the client connected to."""

    @property
    def client_id(self) -> str:
        """Read only where it is wanted, as every request brings it."""
        return str(self._client_id or b"", "utf-8", "replace")
