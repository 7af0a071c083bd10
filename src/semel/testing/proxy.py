"""TCP proxies in a process of their own, which cut, hold and delay what passes through them.

`with Proxies() as proxies: gate = proxies.open(target)`. The process, `python -m
semel.testing.proxy`, takes orders as lines of JSON and answers each when it is carried out.
"""

import asyncio
import enum
import json
import socket
import sys
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from semel.testing.child import Child

HOST: Final = "127.0.0.1"
READ_BYTES: Final = 2**18
CHUNK_COUNT_MAX: Final = 64
"""Read ahead of what is held or delayed; then the sender is not read from any more."""


class Course(enum.Enum):
    """What becomes of bytes."""

    PASS = "pass"
    CUT = "cut"
    """Connections are closed, and new ones refused."""
    HOLD = "hold"
    """Nothing passes and nothing is closed. What was sent meanwhile arrives late."""


class Gate:
    """One proxy, as its owner steers it."""

    def __init__(self, proxies: "Proxies", number: int, port: int) -> None:
        self._proxies = proxies
        self._number = number
        self.port = port
        self.course = Course.PASS

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def lead_to(self, port: int) -> None:
        """Where new connections go."""
        self._order(target=port)

    def cut(self) -> None:
        self._set_course(Course.CUT)

    def hold(self) -> None:
        self._set_course(Course.HOLD)

    def let_pass(self) -> None:
        """As if nothing had been; what was held goes on."""
        self._set_course(Course.PASS)

    def delay(self, delay_ms: float) -> None:
        """Each way; 0 ends it."""
        self._order(delay_s=delay_ms / 1000)

    def _set_course(self, course: Course) -> None:
        self._order(course=course.value)
        self.course = course

    def _order(self, **order: object) -> None:
        self._proxies.order({"gate": self._number, **order})


class Proxies:
    """The process, which ends with the block."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._count = 0

    def open(self, target: int = 0) -> Gate:
        """A port that leads to another; without one, to none yet."""
        number = self._count
        self._count += 1
        return Gate(self, number, self.order({"open": number, "target": target})["port"])

    def order(self, order: dict[str, object]) -> dict[str, Any]:
        assert self._child is not None, "the proxies are not running"
        self._child.tell(json.dumps(order))
        answer = self._child.line()
        assert answer, f"the proxies have ended: {self._child.last_words()}"
        answered: dict[str, Any] = json.loads(answer)
        return answered

    def __enter__(self) -> Self:
        self._child = Child(["-m", "semel.testing.proxy"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._child is not None, "the proxies are not running"
        self._child.stop()
        self._child = None


# In the process of the proxies


class Chunk(NamedTuple):
    due_s: float
    content: bytes
    """Empty at the end of what one side sends."""


class Forwarder:
    """One port, and what passes through it.

    Who comes in vain is refused, as where nobody listens. Some clients go elsewhere only then: they
    take a connection that is closed at once for one that they should have secured.
    """

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._target = 0
        # Keeps the port while nobody listens there.
        self._holder = _bound_to(0)
        self.port = int(self._holder.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._course = Course.PASS
        self._delay_s = 0.0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._connections: set[asyncio.Task[None]] = set()

    async def change(
        self, target: int | None = None, course: str | None = None, delay_s: float | None = None
    ) -> None:
        if target is not None:
            self._target = target
        if delay_s is not None:
            self._delay_s = delay_s
        if course is not None:
            self._set_course(Course(course))
        if self._course is Course.CUT or not self._target:
            self._refuse()
        elif self._server is None:
            self._server = await asyncio.start_server(self._accept, sock=_bound_to(self.port))

    def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _set_course(self, course: Course) -> None:
        self._course = course
        if course is Course.HOLD:
            self._is_open.clear()
        else:
            self._is_open.set()
        if course is Course.CUT:
            for connection in self._connections:
                connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self._tasks.create_task(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._is_open.wait()
            if self._course is Course.CUT:
                return
            there, onwards = await asyncio.open_connection(HOST, self._target)
            ends.append(onwards)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, onwards))
                both.create_task(self._pass(there, writer))
        except ConnectionRefusedError:
            # Until its owner says where to lead.
            self._refuse()
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            # Whoever is at either end sees it closed; cutting is all that cancels.
            pass
        finally:
            for end in ends:
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until this side has ended; the other may go on."""
        chunks: asyncio.Queue[Chunk] = asyncio.Queue(CHUNK_COUNT_MAX)
        loop = asyncio.get_running_loop()

        async def read() -> None:
            content = b"x"
            while content:
                content = await reader.read(READ_BYTES)
                await chunks.put(Chunk(loop.time() + self._delay_s, content))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            while (chunk := await chunks.get()).content:
                if (left_s := chunk.due_s - loop.time()) > 0:
                    await asyncio.sleep(left_s)
                await self._is_open.wait()
                writer.write(chunk.content)
                await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _bound_to(port: int) -> socket.socket:
    # Named, as asyncio sends at once only where it is told that this is TCP.
    bound = socket.socket(proto=socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((HOST, port))
    return bound


async def obey() -> None:
    """Carry out orders until there are none."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    forwarders: dict[int, Forwarder] = {}
    async with asyncio.TaskGroup() as tasks:
        while line := await orders.readline():
            order: dict[str, Any] = json.loads(line)
            answer = {}
            if "open" in order:
                opened = forwarders[order.pop("open")] = Forwarder(tasks)
                answer["port"] = opened.port
            else:
                opened = forwarders[order.pop("gate")]
            await opened.change(**order)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        raise _NoMoreOrders


class _NoMoreOrders(Exception):
    """Ends what still passes."""


def main() -> None:
    try:
        asyncio.run(obey())
    except* (_NoMoreOrders, KeyboardInterrupt):
        pass


if __name__ == "__main__":
    main()
