"""What monitoring reads over HTTP: /metrics, /healthz and /readyz, from a thread of its own.

It listens before the data is opened, which may take a while, so that who asks can tell a start that
takes long from a process that hangs.
"""

import asyncio
import json
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from semel.broker.broker import Broker

LOOP_S_MAX: Final = 5.0
"""A loop that has no turn for this long hangs."""
HEALTH: Final = "/healthz"
READINESS: Final = "/readyz"
METRICS: Final = "/metrics"
PATHS: Final = f"There is {METRICS}, {HEALTH} and {READINESS}.\n"
NOBODY: Final = -1


class Draining(Protocol):
    """A node of a cluster: whether it is to lead no more, which health checks want to know."""

    @property
    def is_drained(self) -> bool: ...


class Readiness(NamedTuple):
    is_ready: bool
    state: str
    """starting, leading, standing by, drained or stopping."""
    may_write: bool
    """False while the disk is full, or if nothing is led here."""
    about: str


class Monitor:
    def __init__(self, host: str, port: int) -> None:
        """Raises OSError if it cannot listen there."""
        from prometheus_client import ProcessCollector, make_wsgi_app, start_http_server
        from prometheus_client.registry import CollectorRegistry

        self._broker: Broker | None = None
        self._node: Draining | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._metrics = make_wsgi_app(self._registry)
        server, self._thread = start_http_server(port, host, registry=self._registry)
        self._server = server
        server.set_app(self._answer)
        self.address: tuple[str, int] = server.server_address[:2]  # type: ignore[assignment]

    def close(self) -> None:
        """For a process that lives on; blocking."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def opened(self, stopped: asyncio.Event) -> None:
        """The loop runs, until it is asked to stop."""
        self._loop = asyncio.get_running_loop()
        self._stopped = stopped

    def serving(self, broker: "Broker", node: Draining | None) -> None:
        """Clients are let in."""
        from semel.broker.census import Census
        from semel.broker.metrics import Collector

        broker.census = Census(broker)
        broker.census.begin()
        self._registry.register(Collector(broker))
        self._node = node
        self._broker = broker

    def readiness(self) -> Readiness:
        if self._stopped is not None and self._stopped.is_set():
            return Readiness(False, "stopping", False, "it hands over what it leads, and ends")
        broker = self._broker
        if broker is None:
            return Readiness(False, "starting", False, "the data is being opened")
        lanes = ", ".join(str(lane.number) for lane in broker.lanes.led)
        if not lanes:
            return self._standing_by(broker)
        if broker.is_short_of_room:
            return Readiness(
                True, "leading", False, "the disk is full: writes are refused, reads are served"
            )
        return Readiness(True, "leading", True, f"it leads lane {lanes}")

    def _standing_by(self, broker: "Broker") -> Readiness:
        leader = broker.nodes.controller_id
        if self._node is not None and self._node.is_drained:
            return Readiness(False, "drained", False, "it is to lead nothing, and may be stopped")
        if leader == NOBODY:
            return Readiness(False, "standing by", False, "nobody is known to lead")
        return Readiness(True, "standing by", False, f"node {leader} leads; clients are sent there")

    # In the thread that was asked

    def _answer(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == METRICS and self._broker is not None:
            shown: Iterable[bytes] = self._metrics(environ, start_response)
            return shown
        if path == READINESS:
            return self._tell_readiness(environ, start_response)
        if path == HEALTH:
            is_alive = self._is_loop_alive()
            about = "alive" if is_alive else f"the loop had no turn for {LOOP_S_MAX:.0f} s"
            return _json(start_response, is_alive, {"alive": is_alive, "about": about})
        status = "404 Not Found" if path != METRICS else "503 Service Unavailable"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        # At these paths and nowhere else: who was told a wrong one must not take it for an answer.
        return [(PATHS if path != METRICS else "the data is being opened\n").encode()]

    def _tell_readiness(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        found = self.readiness()
        wants_writes = "writes" in parse_qs(environ.get("QUERY_STRING", "")).get("for", ())
        is_ready = found.is_ready and (found.may_write or not wants_writes)
        told = {
            "ready": is_ready,
            "state": found.state,
            "writes": found.may_write,
            "about": found.about,
        }
        return _json(start_response, is_ready, told)

    def _is_loop_alive(self) -> bool:
        if self._loop is None:
            # The data is opened before there is one, which may take a while.
            return True
        turned = threading.Event()
        try:
            self._loop.call_soon_threadsafe(turned.set)
        except RuntimeError:
            return False
        return turned.wait(LOOP_S_MAX)


def _json(start_response: "StartResponse", is_well: bool, told: dict[str, Any]) -> list[bytes]:
    status = "200 OK" if is_well else "503 Service Unavailable"
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(told).encode() + b"\n"]
