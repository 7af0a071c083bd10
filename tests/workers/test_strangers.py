"""At the sockets where workers call each other nobody is heard without the key of their parent."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cluster import messages
from semel.cluster.messages import LaneCall, Numbered
from semel.cluster.session import CODE_SIZE, NONCE_SIZE, Session
from semel.lane.calls import AskOutcomes, encode_call
from semel.testing import Broker
from semel.wire.messages.metadata import MetadataRequest
from support.raw_client import encoded, request_frame

PATIENCE_S = 30.0
CHALLENGE, CALL = 20_000, 20_001
SAID = messages.encode(Numbered(1, messages.encode(LaneCall(0, encode_call(AskOutcomes(()))))))

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere they are ports, which strangers find otherwise"
)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Of the sockets at which the workers of a broker are called."""
    folder = tmp_path_factory.mktemp("workers") / "data"
    with Broker(data=folder, workers=2) as broker:
        own = set()
        for process_id in broker.worker_process_ids.values():
            for each in Path(f"/proc/{process_id}/fd").iterdir():
                own.add(str(each.readlink()).removeprefix("socket:[").removesuffix("]"))
        listed = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
        found = {row[7] for row in listed if len(row) == 8 and row[6] in own}
        yield sorted(name for name in found if name.startswith("@semel-"))


def connected(name: str) -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stranger.settimeout(PATIENCE_S)
    stranger.connect("\0" + name.removeprefix("@"))
    return stranger


def call(key: int, body: bytes) -> bytes:
    return request_frame("metadata", 0, body, key=key)


def is_ended(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(1) == b""
    except ConnectionError:
        return True


def test_each_worker_has_one(names: list[str]) -> None:
    assert len(names) == 2


def test_clients_are_not_served_there(names: list[str]) -> None:
    for name in names:
        with connected(name) as stranger:
            asked = encoded("metadata", 9, MetadataRequest(None))
            stranger.sendall(request_frame("metadata", 9, asked))
            assert is_ended(stranger)


def test_who_was_not_challenged_is_not_heard(names: list[str]) -> None:
    for name in names:
        with connected(name) as stranger:
            stranger.sendall(call(CALL, SAID))
            assert is_ended(stranger)


@pytest.mark.parametrize("how", ["unsigned", "any code", "another key"])
def test_who_does_not_have_the_key_is_not_heard(names: list[str], how: str) -> None:
    for name in names:
        with connected(name) as stranger:
            own = os.urandom(NONCE_SIZE)
            stranger.sendall(call(CHALLENGE, own))
            answer = stranger.recv(8 + NONCE_SIZE, socket.MSG_WAITALL)
            session = Session(os.urandom(32), own, answer[8:], stays_on_machine=True)
            said = {
                "unsigned": SAID,
                "any code": os.urandom(CODE_SIZE) + SAID,
                "another key": session.sign_call(SAID),
            }[how]
            # Also not in what follows, which carries no code.
            stranger.sendall(call(CALL, said) + call(CALL, SAID))
            assert is_ended(stranger)
