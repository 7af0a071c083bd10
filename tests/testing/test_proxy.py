"""`semel.testing.proxy`: what passes is passed, cut, held or late, as it was told."""

import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from semel.testing.proxy import Gate, Proxies

PATIENCE_S = 30.0


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    with Proxies() as running:
        yield running


class Ends:
    """A connection through a proxy, at both its ends."""

    def __init__(self, gate: Gate, listener: socket.socket) -> None:
        self._listener = listener
        self.near = socket.create_connection(("127.0.0.1", gate.port), PATIENCE_S)
        self._far: socket.socket | None = None

    @property
    def far(self) -> socket.socket:
        if self._far is None:
            self._far, _ = self._listener.accept()
            self._far.settimeout(PATIENCE_S)
        return self._far

    def close(self) -> None:
        self.near.close()
        if self._far is not None:
            self._far.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


@pytest.fixture
def gate(proxies: Proxies, listener: socket.socket) -> Gate:
    return proxies.open(listener.getsockname()[1])


def test_both_ends_hear_each_other_until_one_has_gone(gate: Gate, listener: socket.socket) -> None:
    with closing(Ends(gate, listener)) as ends:
        ends.near.sendall(b"asked")
        assert ends.far.recv(100) == b"asked"
        ends.far.sendall(b"answered")
        assert ends.near.recv(100) == b"answered"
        ends.near.shutdown(socket.SHUT_WR)
        assert ends.far.recv(100) == b""
        ends.far.sendall(b"still there")
        assert ends.near.recv(100) == b"still there"


def test_what_is_cut_is_closed_at_both_ends_and_what_comes_later_is_refused(
    gate: Gate, listener: socket.socket
) -> None:
    with closing(Ends(gate, listener)) as ends:
        ends.near.sendall(b"x")
        assert ends.far.recv(100) == b"x"
        gate.cut()
        assert ends.near.recv(100) == ends.far.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        Ends(gate, listener)
    gate.let_pass()
    with closing(Ends(gate, listener)) as ends:
        ends.near.sendall(b"again")
        assert ends.far.recv(100) == b"again"


def test_what_is_held_arrives_when_it_may(gate: Gate, listener: socket.socket) -> None:
    with closing(Ends(gate, listener)) as ends, closing(Ends(gate, listener)) as silent:
        ends.near.sendall(b"first")
        assert ends.far.recv(100) == b"first"
        gate.hold()
        ends.near.sendall(b"second")
        ends.far.setblocking(False)
        with pytest.raises(BlockingIOError):
            ends.far.recv(100)
        gate.let_pass()
        ends.far.settimeout(PATIENCE_S)
        assert ends.far.recv(100) == b"second"
        silent.near.sendall(b"third")
        assert silent.far.recv(100) == b"third"


def test_a_port_leads_where_it_is_told_to(proxies: Proxies, listener: socket.socket) -> None:
    gate = proxies.open()
    with pytest.raises(ConnectionRefusedError):
        Ends(gate, listener)
    gate.lead_to(listener.getsockname()[1])
    gate.delay(1)
    with closing(Ends(gate, listener)) as ends:
        ends.near.sendall(b"x")
        assert ends.far.recv(100) == b"x"


def test_a_port_behind_which_nobody_listens_refuses_as_that_does(
    proxies: Proxies, listener: socket.socket
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        gate = proxies.open(gone.getsockname()[1])
    # It cannot be known before somebody has come.
    with closing(Ends(gate, listener)) as first, suppress(ConnectionResetError):
        assert first.near.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        Ends(gate, listener)
    gate.lead_to(listener.getsockname()[1])
    with closing(Ends(gate, listener)) as ends:
        ends.near.sendall(b"x")
        assert ends.far.recv(100) == b"x"
