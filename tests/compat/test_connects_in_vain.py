"""kafka-python's sockets that nobody has any more: a test that leaves one fails another."""

import socket
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net import KafkaNetSocket


class _Wait:
    def __await__(self) -> Generator[None, None, None]:
        yield


NET = SimpleNamespace(wait_write=lambda *_, **__: _Wait())


def connecting(connection: socket.socket, port: int) -> Any:
    connection.setblocking(False)
    return KafkaNetSocket().sock_connect(NET, connection, ("127.0.0.1", port))


def test_one_that_is_given_up_on_its_way_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as connection:
        work = connecting(connection, server.getsockname()[1])
        work.send(None)
        assert connection.getpeername() == server.getsockname()
        work.close()
        assert connection.fileno() == -1


def test_one_that_is_refused_is_closed() -> None:
    # Bound, so that nobody else takes the port, and without an ear.
    with socket.socket() as deaf, socket.socket() as connection:
        deaf.bind(("127.0.0.1", 0))
        work = connecting(connection, deaf.getsockname()[1])
        with pytest.raises(KafkaConnectionError):
            _driven(work)
        assert connection.fileno() == -1


def _driven(work: Any) -> None:
    while True:
        work.send(None)
