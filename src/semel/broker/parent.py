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
from semel.broker.config import BrokerConfig, address, listener
from semel.broker.options import ServeOptions, static_config
from semel.broker.service_manager import ServiceManager
from semel.broker.serving import BACKLOG, data_folder, naming, once_free, read_until_end, say
from semel.errors import CannotListen, ConfigError
from semel.journal.file.lane_folders import add_lanes, held, lane_count

KEY_SIZE: Final = 32
LIVED_S_MIN: Final = 10.0
"""A worker that lives shorter waits before it is started again…"""
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 10.0
"""…twice as long each time."""
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
WORKERS_MAX: Final = 64
ATTEMPTS_MAX: Final = 50
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
        once_free(lambda: stack.enter_context(held(folder)))
        once_free(lambda: add_lanes(folder, count))
        listening = once_free(lambda: stack.enter_context(_listening(options.listen, count)))
        parent = Parent(options, config, folder, lane_count(folder), listening)
        return asyncio.run(parent.run())


@contextlib.contextmanager
def _listening(first: str, count: int) -> Iterator[list[socket.socket]]:
    """Ports that follow each other, also where any are wanted that are free."""
    host, port = address(first)
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
    with naming(f"{host}:{port}"):
        family, *_, found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(found[:2], family=family, backlog=BACKLOG)


def _next(first: str | None, index: int) -> str | None:
    """The address for a worker, if this is for the first."""
    if first is None:
        return None
    host, port = address(first)
    return listener(host, port + index if port else 0)


class Parent:
    def __init__(
        self,
        options: ServeOptions,
        config: BrokerConfig,
        folder: Path,
        lanes: int,
        listening: Sequence[socket.socket],
    ) -> None:
        self._options = options
        self._folder = folder
        self._lane_count = lanes
        self._listening = listening
        self._key = secrets.token_bytes(KEY_SIZE)
        self._node_ids = tuple(config.node_id + index for index in range(len(listening)))
        self._processes: dict[int, Process] = {}
        self._unready = set(range(len(listening)))
        self._exit_code = 0
        self._stopping: asyncio.Event
        self._manager = ServiceManager()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if self._options.stop_with_stdin:
            loop.add_reader(sys.stdin.fileno(), read_until_end, loop, self._stopping)
        async with asyncio.TaskGroup() as tasks:
            for index in range(len(self._listening)):
                tasks.create_task(self._keep(index))
            await self._stopping.wait()
            self._manager.stopping()
            for each in self._listening:
                each.close()
            for process in self._processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
        return self._exit_code

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
            pass_fds=(assignment.listening,),
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
        options = self._options
        advertised = [_next(options.advertise, each) for each in range(len(self._listening))]
        return Assignment(
            self._node_ids,
            self._node_ids[index],
            tuple(_reached(each) for each in self._listening),
            tuple(address(each) for each in advertised if each is not None),
            self._lane_count,
            self._listening[index].fileno(),
            self._key,
            str(self._folder),
            not options.ephemeral,
            options.config,
            options.settings,
            _next(options.metrics, index),
            options.log_level,
            options.log_format,
        )

    def _announce(self) -> None:
        shown = ",".join(
            listener(*each.getsockname()[:2]).removeprefix("PLAINTEXT://")
            for each in self._listening
        )
        say(f"Semel is ready on {shown}, data in {self._folder}\n")
        self._manager.ready(f"serving {self._folder} with {len(self._listening)} workers")


def _reached(listening: socket.socket) -> tuple[str, int]:
    host, port = listening.getsockname()[:2]
    return EVERYWHERE.get(host, host), port


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"
