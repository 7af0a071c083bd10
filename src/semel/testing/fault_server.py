"""A server that speaks S3 and fails as it is told to: `python -m semel.testing.fault_server`.

One loop and one thread, so that a deed is whole or has not happened. What goes wrong is planned:
for the next requests of a kind (`plan`), by a seed and a rate, or until it is taken back.
Another process steers it by posting JSON to `/-/control`, where it also finds what was counted.
"""

import argparse
import asyncio
import contextlib
import enum
import json
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, Self

from semel.testing.s3 import WRITES, Bucket, Request, Response, parse, refusal

CONTROL: Final = "/-/control"
REASONS: Final = {
    200: "OK", 204: "No Content", 206: "Partial Content", 400: "Bad Request", 403: "Forbidden",
    404: "Not Found", 409: "Conflict", 412: "Precondition Failed", 416: "Range Not Satisfiable",
    500: "Internal Server Error", 501: "Not Implemented", 503: "Slow Down",
    507: "Insufficient Storage",
}  # fmt: skip
LATE_S: Final = 0.05
READ_AHEAD_BYTES: Final = 2**24
"""A whole slot, so that a body is not taken in by many small reads."""


class Ending(enum.Enum):
    """How a request ends that is not answered by another's word."""

    ANSWER = enum.auto()
    HALF = enum.auto()
    """Half of the answer, then the connection is cut."""
    CUT = enum.auto()
    HANG = enum.auto()


class Course(NamedTuple):
    done_count: int
    ending: Ending | Response
    is_late: bool = False
    """Done a while after the end."""


ERROR: Final = refusal(500, "InternalError", "We encountered an internal error.")


class Fault(enum.Enum):
    """What goes wrong with one request."""

    SLOW_DOWN = Course(0, refusal(503, "SlowDown", "Please reduce your request rate."))
    ERROR_BEFORE = Course(0, ERROR)
    ERROR_AFTER = Course(1, ERROR)
    CUT_BEFORE = Course(0, Ending.CUT)
    CUT_AFTER = Course(1, Ending.CUT)
    CUT_IN_BODY = Course(1, Ending.HALF)
    HANG_BEFORE = Course(0, Ending.HANG)
    HANG_AFTER = Course(1, Ending.HANG)
    LATE = Course(0, Ending.CUT, is_late=True)
    TWICE = Course(2, Ending.ANSWER)
    CONFLICT = Course(0, refusal(409, "ConditionalRequestConflict", "Please try again."))
    FORBIDDEN = Course(0, refusal(403, "AccessDenied", "Access Denied"))
    EXPIRED = Course(0, refusal(400, "ExpiredToken", "The provided token has expired."))


AS_PLANNED: Final = Course(1, Ending.ANSWER)
ANY_TIME: Final = (
    Fault.SLOW_DOWN, Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.CUT_BEFORE, Fault.CUT_AFTER,
    Fault.LATE, Fault.TWICE,
)  # fmt: skip
"""Drawn by rate: what a store does on a bad day and a client has to live with."""


@dataclass(slots=True)
class Planned:
    fault: Fault
    verb: str
    key: str
    count: int

    def fits(self, request: Request) -> bool:
        return self.verb in {"", request.verb} and self.key in request.key


@dataclass
class Weather:
    """What lasts until it is set otherwise."""

    latency_s: dict[str, float] = field(default_factory=dict)
    """By verb: PUT, GET, LIST, DELETE. Before the deed."""
    rate: float = 0.0
    """Of all requests, how many fail by chance."""
    late_s: float = LATE_S
    is_away: bool = False
    is_read_only: bool = False
    is_full: bool = False
    has_expired: bool = False

    def refuses(self, request: Request) -> Response | None:
        if self.has_expired:
            return refusal(403, "ExpiredToken", "The provided token has expired.")
        if request.method in WRITES and self.is_read_only:
            return refusal(403, "AccessDenied", "Access Denied")
        if request.method in WRITES and request.verb != "DELETE" and self.is_full:
            return refusal(507, "XMinioStorageFull", "Storage backend has reached its limit")
        return None


class FaultServer:
    """`async with FaultServer() as server:` listens at `server.endpoint` until the block ends."""

    def __init__(self, bucket: str = "bucket", *, port: int = 0, seed: int = 0) -> None:
        self.bucket = Bucket(bucket)
        self.weather = Weather()
        self.counts: Counter[str] = Counter()
        """Requests by verb, and faults by verb and name."""
        self.port = port
        self._random = Random(f"fault server {seed}")
        self._planned: list[Planned] = []
        self._under_way = 0
        self._all_landed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def plan(self, fault: Fault, verb: str = "", *, key: str = "", count: int = 1) -> None:
        """For the next requests of this verb whose key contains this."""
        self._planned.append(Planned(fault, verb, key, count))

    async def landed(self) -> None:
        """Return when all that is late has been done, once something was."""
        await self._all_landed.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=READ_AHEAD_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                await self._serve_one(reader, writer)
        except (EOFError, ConnectionError, asyncio.CancelledError, ConnectionCut):
            # Who was cancelled is at the end of the server, which is all that this task does.
            pass
        finally:
            self._tasks.discard(task)
            # Not aborted: what was written is sent before the end.
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        fields = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        size = int(headers.get("content-length", "0"))
        body = await reader.readexactly(size) if size else b""
        if target == CONTROL:
            write(writer, self._control(method, body))
            return
        if "transfer-encoding" in headers:
            write(writer, refusal(501, "NotImplemented", "Transfer-Encoding"))
            return
        if self.weather.is_away:
            raise ConnectionCut
        request = parse(method, target, headers, body)
        if delay_s := self.weather.latency_s.get(request.verb, 0.0):
            await asyncio.sleep(delay_s)
        self.counts[request.verb] += 1
        await self._answer(request, writer)
        await writer.drain()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        refused = self.weather.refuses(request)
        if refused is not None:
            write(writer, refused)
            return
        fault = self._draw(request)
        if fault is not None:
            self.counts[f"{request.verb} {fault.name}"] += 1
        course = AS_PLANNED if fault is None else fault.value
        answer = Response(500)
        for _ in range(course.done_count):
            answer = self.bucket.answer(request)
        if course.is_late:
            self._under_way += 1
            self._all_landed.clear()
            loop = asyncio.get_running_loop()
            loop.call_later(self.weather.late_s, self._land, request)
        if isinstance(course.ending, Response):
            write(writer, course.ending)
        elif course.ending is Ending.ANSWER:
            write(writer, answer)
        elif course.ending is Ending.HANG:
            await asyncio.get_running_loop().create_future()
        else:
            if course.ending is Ending.HALF:
                write(writer, answer, cut_at=len(answer.body) // 2)
            raise ConnectionCut

    def _land(self, request: Request) -> None:
        self.bucket.answer(request)
        self._under_way -= 1
        if not self._under_way:
            self._all_landed.set()

    def _draw(self, request: Request) -> Fault | None:
        for planned in self._planned:
            if planned.fits(request):
                planned.count -= 1
                if planned.count == 0:
                    self._planned.remove(planned)
                return planned.fault
        if self.weather.rate and self._random.random() < self.weather.rate:
            return self._random.choice(ANY_TIME)
        return None

    def _control(self, method: str, body: bytes) -> Response:
        if method == "POST":
            asked: dict[str, Any] = json.loads(body)
            for planned in asked.pop("plan", []):
                fault = Fault[planned.pop("fault")]
                self.plan(fault, **planned)
            for name, value in asked.items():
                if not hasattr(self.weather, name):
                    return refusal(400, "InvalidArgument", name)
                setattr(self.weather, name, value)
        sizes = [len(content) for content in self.bucket.objects.values()]
        counted = {"counts": self.counts, "objects": len(sizes), "bytes": sum(sizes)}
        return Response(200, json.dumps(counted).encode())


class ConnectionCut(Exception):
    """This connection is over."""


def write(writer: asyncio.StreamWriter, response: Response, *, cut_at: int | None = None) -> None:
    size = len(response.body) if response.size is None else response.size
    head = [f"HTTP/1.1 {response.status} {REASONS[response.status]}", f"Content-Length: {size}"]
    head += [f"{name}: {value}" for name, value in response.headers.items()]
    writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
    writer.write(response.body[:cut_at])


async def serve(server: FaultServer, *, ends_with_stdin: bool = False) -> None:
    """Until this process is told to end."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if ends_with_stdin:
        # Nothing is ever written to it: it can be read when it is closed.
        loop.add_reader(sys.stdin.fileno(), told.set)
    async with server:
        sys.stdout.write(f"The fault server is ready on {server.endpoint}\n")
        sys.stdout.flush()
        await told.wait()


def main() -> None:
    reader = argparse.ArgumentParser(
        prog="python -m semel.testing.fault_server", description=__doc__
    )
    reader.add_argument("--port", type=int, default=0, help="0: any that is free")
    reader.add_argument("--bucket", default="bucket")
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--rate", type=float, default=0.0, help="of requests that fail by chance")
    reader.add_argument("--stop-with-stdin", action="store_true", help=argparse.SUPPRESS)
    for verb in ("put", "get", "list", "delete"):
        reader.add_argument(f"--{verb}-ms", type=float, default=0.0, help="before each is done")
    chosen = reader.parse_args()
    server = FaultServer(chosen.bucket, port=chosen.port, seed=chosen.seed)
    server.weather.rate = chosen.rate
    server.weather.latency_s = {
        verb.upper(): getattr(chosen, f"{verb}_ms") / 1000
        for verb in ("put", "get", "list", "delete")
    }
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(server, ends_with_stdin=chosen.stop_with_stdin))


if __name__ == "__main__":
    main()
