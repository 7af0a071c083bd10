"""What systemd hears of a broker that it has started with Type=notify."""

import socket
from pathlib import Path

import pytest

from semel.testing import Broker


@pytest.mark.parametrize("workers", [1, 2])
def test_it_hears_when_the_broker_serves_and_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        with Broker(workers=workers):
            told = manager.recv(1000).decode().splitlines()
            assert told[0] == "READY=1"
            assert told[1].startswith("STATUS=serving ")
        assert manager.recv(1000) == b"STOPPING=1"
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(1000)
