"""The process that starts the workers of a folder, and starts again those that die.

It holds what must outlive a worker: the sockets that clients connect to, so that who comes while a
worker is being started waits instead of being refused; the folder; and the key by which workers
know each other. It sees no request. Workers end with it, however it ends, as their standard input
does.
"""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from semel.broker import log
from semel.broker.assignment import Assignment, encoded
from semel.broker.certificates import server_context
from semel.broker.config import BrokerConfig
from semel.broker.endpoints import Address, Endpoint, address, written
from semel.broker.initial_users import initial_users
from semel.broker.listeners import Listener, listeners_of, shown
from semel.broker.options import ServeOptions, static_config
from semel.broker.service_manager import ServiceManager
from semel.broker.serving import BACKLOG, data_folder, naming, once_free, read_until_end, say
from semel.cluster.channel import named
from semel.errors import CannotListen, ConfigError
from semel.journal.file.lane_folders import add_lanes, held, lane_count

KEY_SIZE: Final = 32
LIVED_S_MIN: Final = 10.0
"""A worker that lives shorter waits before it is started again…"""
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 10.0
"""…twice as long each time."""
BETWEEN: Final = "127.0.0.1"
"""Where workers call each other, where the system has no sockets with names of their own."""
NAME_SIZE: Final = 16
WORKERS_MAX: Final = 64
ATTEMPTS_MAX: Final = 50
PORT_MAX: Final = 65_535
"""To find so many free ports in a row."""


def serve_workers(options: ServeOptions) -> int:
    """Returns an exit code after SIGTERM or SIGINT, or when a worker could not be started at all.
    Raises SemelError or OSError with one clear sentence."""
    config, count = static_config(options), options.workers
    if not 1 < count <= WORKERS_MAX:
        raise ConfigError(f"--workers {count}: between 1 and {WORKERS_MAX}")
    if options.store is not None or options.volumes is not None:
        raise ConfigError("--workers is for lanes in a folder: not with --store or --volumes")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(data_folder(options))
        listeners = listeners_of(config)
        # What is wrong is said once and not by each worker, and before the folder gets their lanes.
        initial_users(config.initial_users)
        for each in listeners:
            if each.protocol.has_tls:
                server_context(each.config)
        once_free(lambda: stack.enter_context(held(folder)))
        once_free(lambda: add_lanes(folder, count))
        listening = [
            once_free(lambda each=each: stack.enter_context(_listening(each, count)))  # type: ignore[misc]
            for each in listeners
        ]
        between = stack.enter_context(_between(count))
        workers = list(zip(between, *listening, strict=True))
        parent = Parent(options, config, folder, lane_count(folder), listeners, workers)
        return asyncio.run(parent.run())


@contextlib.contextmanager
def _between(count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_between_workers()) for _ in range(count)]


def _between_workers() -> socket.socket:
    if sys.platform != "linux":
        return _bound(BETWEEN, 0)
    # No file has to be removed when it is gone.
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(f"\0semel-{secrets.token_hex(NAME_SIZE)}")
    bound.listen(BACKLOG)
    return bound


@contextlib.contextmanager
def _listening(listener: Listener, count: int) -> Iterator[list[socket.socket]]:
    """Ports that follow each other, also where any are wanted that are free."""
    host, port = listener.host, listener.port
    for attempt in range(ATTEMPTS_MAX):
        with contextlib.ExitStack() as stack:
            try:
                found = [stack.enter_context(_bound(host, port))]
                begin = found[0].getsockname()[1]
                found += [
                    stack.enter_context(_bound(host, begin + index)) for index in range(1, count)
                ]
            except (CannotListen, OverflowError):
                if port or attempt + 1 == ATTEMPTS_MAX:
                    raise
                continue
            yield found
            return


def _bound(host: str, port: int) -> socket.socket:
    if port > PORT_MAX:
        # The kernel would take another.
        raise CannotListen(f"cannot listen at port {port} of {host}: the last is {PORT_MAX}")
    with naming(written((host, port))):
        family, *_, found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(found[:2], family=family, backlog=BACKLOG)


def _next(first: Address, index: int) -> Address:
    """The address for a worker, if this is for the first."""
    host, port = first
    if port + index > PORT_MAX:
        raise ConfigError(f"port {port} has no {index} behind it, for the other workers")
    return host, port + index if port else 0


class Parent:
    def __init__(
        self,
        options: ServeOptions,
        config: BrokerConfig,
        folder: Path,
        lanes: int,
        listeners: Sequence[Listener],
        sockets: Sequence[Sequence[socket.socket]],
    ) -> None:
        """`sockets` are those of each worker: where others call, and where it listens."""
        self._options = options
        self._folder = folder
        self._lane_count = lanes
        self._listeners = listeners
        self._sockets = sockets
        self._key = secrets.token_bytes(KEY_SIZE)
        self._node_ids = tuple(config.node_id + index for index in range(len(sockets)))
        self._processes: dict[int, Process] = {}
        self._unready = set(range(len(sockets)))
        self._exit_code = 0
        self._stopping: asyncio.Event
        self._manager = ServiceManager()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        if self._options.stop_with_stdin:
            loop.add_reader(sys.stdin.fileno(), read_until_end, loop, self._stopping)
        async with asyncio.TaskGroup() as tasks:
            for index in range(len(self._sockets)):
                tasks.create_task(self._keep(index))
            await self._stopping.wait()
            self._manager.stopping()
            for sockets in self._sockets:
                for each in sockets:
                    each.close()
            for process in self._processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
        return self._exit_code

    def _reload(self) -> None:
        """Workers read their certificates anew. Those that are starting read them anyway."""
        for index, process in self._processes.items():
            if index not in self._unready:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGHUP)

    async def _keep(self, index: int) -> None:
        """Let this worker live until all are to stop."""
        loop = asyncio.get_running_loop()
        pause_s = 0.0
        while not self._stopping.is_set():
            started_s = loop.time()
            code = await self._live(index)
            if self._stopping.is_set():
                self._exit_code = self._exit_code or max(code, 0)
                return
            if index in self._unready:
                # It has said why.
                self._exit_code = code if code > 0 else 1
                self._stopping.set()
                return
            if loop.time() - started_s >= LIVED_S_MIN:
                pause_s = 0.0
            log.warning(
                "a worker has ended, and is started again",
                worker=self._node_ids[index],
                reason=_reason(code),
                pause_s=pause_s,
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(PAUSE_S_MAX, max(PAUSE_S_MIN, 2 * pause_s))

    async def _live(self, index: int) -> int:
        """From the start of a worker to its exit code."""
        assignment = self._assignment(index)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "semel",
            "serve",
            "--as-worker",
            str(self._node_ids[index]),
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=assignment.sockets,
        )
        self._processes[index] = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encoded(assignment))
        if self._stopping.is_set():
            process.terminate()
        if await process.stdout.readline() and index in self._unready:
            self._unready.remove(index)
            if not self._unready:
                self._announce()
        return await process.wait()

    def _assignment(self, index: int) -> Assignment:
        options, own = self._options, self._sockets[index]
        metrics = None
        if options.metrics is not None:
            metrics = written(_next(address(options.metrics), index))
        return Assignment(
            self._node_ids,
            self._node_ids[index],
            tuple(_reached_at(sockets[0]) for sockets in self._sockets),
            tuple(map(self._advertised, range(len(self._sockets)))),
            self._lane_count,
            tuple(each.fileno() for each in own),
            ",".join(map(str, self._endpoints(own))),
            self._key,
            str(self._folder),
            not options.ephemeral,
            options.config,
            options.settings,
            metrics,
            options.log_level,
            options.log_format,
        )

    def _advertised(self, index: int) -> dict[str, Address]:
        """At its own port, where clients have found this machine, unless an address is told for the
        first worker."""
        found = {}
        for listener, each in zip(self._listeners, self._sockets[index][1:], strict=True):
            if listener.advertised is None:
                found[listener.name] = ("", each.getsockname()[1])
            else:
                found[listener.name] = _next(listener.advertised, index)
        return found

    def _endpoints(self, sockets: Sequence[socket.socket]) -> list[Endpoint]:
        return [
            Endpoint(listener.name, *each.getsockname()[:2])
            for listener, each in zip(self._listeners, sockets[1:], strict=True)
        ]

    def _announce(self) -> None:
        where = [
            shown(self._listeners, [each.getsockname()[:2] for each in sockets[1:]])
            for sockets in self._sockets
        ]
        say(f"Semel is ready on {','.join(where)}, data in {self._folder}\n")
        self._manager.ready(f"serving {self._folder} with {len(self._sockets)} workers")


def _reached_at(bound: socket.socket) -> Address:
    where = bound.getsockname()
    return (named(where), 0) if isinstance(where, bytes) else where[:2]


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"
