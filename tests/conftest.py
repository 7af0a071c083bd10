"""What every test shares: properties are judged by their outcome, not by the clock."""

import signal
import socket
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from support import drawing as drawing

settings.load_profile("repeated")

# A shell has what it runs in the background ignore interrupts, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

SPARK = "tests/spark/"
LONG = (
    "tests/mutants/",
    "tests/simulation/",
    "tests/cluster/",
    "tests/compaction/",
    "tests/workers/",
)

OF_ONE_SESSION = frozenset(
    f"tests/spark/test_{name}.py" for name in ("compacted_logs", "examples", "pipelines", "volume")
)
"""Those with the fixture `spark`, whose first queries take longer than all that follow."""


@pytest.fixture
def connects_in_vain_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests with kafka-python beside brokers that go away: it drops, without closing it, the
    socket of a connect that was refused, or given up because the client is closed."""
    # Here alone: most tests have nothing to do with it.
    from kafka.net import KafkaNetSocket

    connect = KafkaNetSocket.sock_connect

    async def sock_connect(self: Any, net: Any, sock: socket.socket, *to: Any, **until: Any) -> Any:
        try:
            return await connect(self, net, sock, *to, **until)
        except BaseException:
            sock.close()
            raise

    monkeypatch.setattr(KafkaNetSocket, "sock_connect", sock_connect)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file run in one process, and so do all that share a session of Spark."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = _scope
    return scheduling


def _scope(nodeid: str) -> str:
    file = _file(nodeid)
    return "a session of Spark" if file in OF_ONE_SESSION else file


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes early, so that nothing long is waited for alone at the end.

    Files with a Spark of their own are spread over the first half: they need both cores, so that
    two at once hold each other up.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(_file(item.nodeid), []).append(item)
    order = {file: -1.0 for file in files if file in OF_ONE_SESSION}
    with_spark = [file for file in files if file not in order and file.startswith(SPARK)]
    others = [file for file in files if file not in order and not file.startswith(SPARK)]
    others.sort(key=lambda file: not file.startswith(LONG))
    order.update((file, number) for number, file in enumerate(others))
    for number, file in enumerate(with_spark):
        order[file] = number * len(others) / (2 * len(with_spark)) - 0.5
    items[:] = [item for file in sorted(files, key=order.__getitem__) for item in files[file]]
