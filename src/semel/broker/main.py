"""Runs a broker in this process: opens its folder, listens, and ends cleanly on a signal."""

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

from semel.broker import log
from semel.broker.between import BETWEEN_WORKERS, OnlyNodes
from semel.broker.broker import Broker, Storage, Workers
from semel.broker.config import BrokerConfig
from semel.broker.endpoints import address
from semel.broker.listeners import Listener, advertised_by, listeners_of, shown
from semel.broker.listening import Listening
from semel.broker.monitoring import Monitor
from semel.broker.options import ServeOptions, fit, static_config
from semel.broker.service_manager import ServiceManager
from semel.broker.serving import BACKLOG, data_folder, naming, once_free, read_until_end, say
from semel.errors import ConfigError
from semel.journal.file.disk import FileDevice
from semel.journal.file.lane_folders import held, lane_count, lane_folder
from semel.volumes.binding import bind, check_named
from semel.world import SystemClock, SystemRandomness

if TYPE_CHECKING:
    from semel.broker.on_store import BrokerOnStore

GC_THRESHOLD = 20_000
"""Every request makes and drops some objects; almost none of them are cycles."""
FREED_SIZE_KEPT = 31 * 2**20
"""Just below the largest piece that glibc learns from."""


def serve(options: ServeOptions) -> None:
    """Returns after SIGTERM or SIGINT. Raises SemelError or OSError with one clear sentence."""
    if options.as_worker is not None:
        _serve_as_worker()
        return
    config = static_config(options)
    _serve_alone(config, options, _monitor(options.metrics))


def _monitor(listening: str | None) -> Monitor | None:
    if listening is None:
        return None
    with naming(listening):
        return Monitor(*address(listening))


def _serve_alone(config: BrokerConfig, options: ServeOptions, monitor: Monitor | None) -> None:
    listeners = listeners_of(config)
    if options.store is not None:
        _run(_serve_on_store(config, options.store, options, listeners, monitor))
        return
    if options.journal is not None or (options.store_options and options.volumes is None):
        raise ConfigError("--journal and --store-option are about a store: name it with --store")
    if options.volumes is not None:
        _run(_serve_tiered(config, options.volumes, options, listeners, monitor))
        return
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(data_folder(options))
        check_named(folder, None)
        lanes = lane_count(folder)
        if lanes > 1:
            stack.enter_context(held(folder))
        folders = [lane_folder(folder, number) for number in range(lanes)]
        broker = Broker(
            config,
            [FileDevice(each, synced=not options.ephemeral) for each in folders],
            _storage(folder, folders),
            SystemClock(),
            SystemRandomness(),
            advertised=advertised_by(listeners),
        )
        _settle_in()
        _run(_serve(broker, options, str(folder), listeners, monitor))


def _serve_as_worker() -> None:
    from semel.broker.assignment import read_assignment
    from semel.broker.lines import Lines
    from semel.broker.worker import PATIENCE_S, Worker
    from semel.cluster.channel import connect
    from semel.cluster.keys import OnlyKey

    assignment = read_assignment()
    log.configure(assignment.log_level, assignment.log_format)
    config = BrokerConfig.from_sources(assignment.config, assignment.settings)
    config = fit(config, is_ephemeral=not assignment.is_synced)
    leaders = assignment.neighbours()
    own = next(each for each in leaders if each.node_id == assignment.own_id)
    config = replace(config, node_id=own.node_id, listeners=assignment.listeners)
    folder = Path(assignment.folder)
    numbers = assignment.own_lanes()
    folders = [lane_folder(folder, number) for number in numbers]
    randomness = SystemRandomness()
    key = OnlyKey(assignment.key)
    neighbours = tuple(each for each in leaders if each is not own)
    workers = Workers(assignment.lane_count, numbers, neighbours)

    monitor = _monitor(assignment.metrics)

    def opened() -> Broker:
        return Broker(
            config,
            [FileDevice(each, synced=assignment.is_synced) for each in folders],
            _storage(folder, folders),
            SystemClock(),
            randomness,
            workers=workers,
            advertised=own.advertised,
        )

    broker = once_free(opened)
    worker = Worker(
        broker,
        own.node_id,
        [leaders[assignment.leader_index(lane)] for lane in range(assignment.lane_count)],
        key,
        randomness,
    )
    _settle_in()
    options = ServeOptions(metrics=assignment.metrics, stop_with_stdin=True)
    listeners = listeners_of(config)
    between, *sockets = (socket.socket(fileno=each) for each in assignment.sockets)

    def begin(tasks: asyncio.TaskGroup) -> None:
        lines = Lines(key, randomness, connect, tasks.create_task, PATIENCE_S, stay_on_machine=True)
        worker.begin(tasks, lines)

    beginning = Beginning(begin, worker.may_serve, worker.knows_all)
    opened_sockets = OpenedSockets(sockets, between)
    _run(
        _serve(
            broker,
            options,
            assignment.folder,
            listeners,
            monitor,
            worker=beginning,
            sockets=opened_sockets,
        )
    )


class OpenedSockets(NamedTuple):
    """The sockets of a worker, which the parent has opened and keeps open."""

    of_listeners: Sequence[socket.socket]
    between: socket.socket
    """At which the other workers call."""


class Beginning(NamedTuple):
    """Of a worker."""

    begin: Callable[[asyncio.TaskGroup], None]
    may_serve: asyncio.Event
    is_ready: asyncio.Event


def _settle_in() -> None:
    """What has been made so far lives as long as the process; the collector need not look at it
    again and again."""
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    _keep_freed_memory()


def _run(serving: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        try:
            runner.run(serving)
        except BaseExceptionGroup as group:
            raise _first(group) from None


async def _serve_on_store(
    config: BrokerConfig,
    url: str,
    options: ServeOptions,
    listeners: Sequence[Listener],
    monitor: Monitor | None,
) -> None:
    if options.node_id is None:
        raise ConfigError("--store needs --node-id N, a number that no other node has")
    # What speaks to stores is needed by those alone who have one.
    from semel.broker.lane_volumes import disk_cache, work_folder
    from semel.broker.on_store import joined
    from semel.cluster.opening import ClusterSettings
    from semel.store.settings import shown as shown_url

    settings = ClusterSettings.of(
        url, options.store_options, options.journal, is_ephemeral=options.ephemeral
    )
    clock, randomness = SystemClock(), SystemRandomness()
    with work_folder(options.cache) as folder:
        cache = None
        if options.cache is not None and config.store_cache_bytes:
            cache = disk_cache(folder, config.store_cache_bytes)
        async with joined(
            settings, config, clock, randomness, folder, cache, advertised_by(listeners)
        ) as on_store:
            _settle_in()
            await _serve(on_store.broker, options, shown_url(url), listeners, monitor, on_store)


async def _serve_tiered(
    config: BrokerConfig,
    url: str,
    options: ServeOptions,
    listeners: Sequence[Listener],
    monitor: Monitor | None,
) -> None:
    if options.ephemeral:
        raise ConfigError("--volumes keeps data for good, and --ephemeral nothing: choose one")
    if lane_count(options.data) > 1:
        raise ConfigError(
            f"{options.data} has several lanes: old data of one alone can be kept away"
        )
    from semel.broker.lane_volumes import disk_cache, work_folder
    from semel.store.blocks import NO_CACHE, BlockCache
    from semel.store.opening import open_store
    from semel.store.settings import BUCKETS, StoreSettings
    from semel.store.settings import shown as shown_url
    from semel.volumes.tiering import Tiering

    folder = options.data
    if urlsplit(url).scheme not in BUCKETS:
        known = ", ".join(f"{scheme}://" for scheme in sorted(BUCKETS))
        raise ConfigError(f"--volumes {shown_url(url)}: volumes lie in a store at one of {known}")
    store = open_store(StoreSettings.of(url, options.store_options), Random())
    randomness = SystemRandomness()
    with work_folder(options.cache) as cache_folder:
        cache: BlockCache = NO_CACHE
        if options.cache is not None and config.store_cache_bytes:
            cache = disk_cache(cache_folder, config.store_cache_bytes).of_leader(0, ())
        tiering = Tiering(store, url, randomness, cache)
        try:
            broker = Broker(
                config,
                [FileDevice(folder)],
                _storage(folder, [folder]),
                SystemClock(),
                randomness,
                tiering=tiering,
                advertised=advertised_by(listeners),
            )
            try:
                # Who has the folder may say so.
                tiering.claimed(await bind(folder, url, store, randomness))
            except BaseException:
                await broker.stop()
                raise
            _settle_in()
            log.info("old data lies in a store", volumes=shown_url(url))
            await _serve(broker, options, str(folder), listeners, monitor)
        finally:
            await store.close()


async def _serve(
    broker: Broker,
    options: ServeOptions,
    place: str,
    listeners: Sequence[Listener],
    monitor: Monitor | None,
    on_store: "BrokerOnStore | None" = None,
    worker: "Beginning | None" = None,
    sockets: OpenedSockets | None = None,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_exception)
    stopped = asyncio.Event()
    manager = ServiceManager()
    _heed_end(options, loop, stopped)
    if monitor is not None:
        monitor.opened(stopped)
    try:
        async with asyncio.TaskGroup() as tasks:
            server = await broker.start(tasks)
            listening = Listening(broker, server, listeners, SystemClock())
            loop.add_signal_handler(signal.SIGHUP, listening.reload)
            if worker is not None:
                worker.begin(tasks)
                await _either(worker.may_serve, stopped)
            between = None
            if sockets is not None:
                create = (
                    loop.create_unix_server
                    if sockets.between.family == socket.AF_UNIX
                    else loop.create_server
                )
                between = await create(
                    partial(broker.connection, BETWEEN_WORKERS, OnlyNodes(server)),
                    sock=sockets.between,
                    backlog=BACKLOG,
                )
            await listening.begin(None if sockets is None else sockets.of_listeners)
            try:
                node = None if on_store is None else on_store.node(listening.for_others)
                if listening.is_watched:
                    tasks.create_task(listening.watch())
                if node is not None:
                    tasks.create_task(node.run())
                if worker is not None:
                    await _either(worker.is_ready, stopped)
                if monitor is not None:
                    monitor.serving(broker, node)
                _announce(listening, monitor, place)
                manager.ready(f"serving {place}")
                await stopped.wait()
                manager.stopping()
                if node is not None:
                    await node.leave()
            finally:
                listening.close()
                if between is not None:
                    between.close()
            broker.close()
            _end_tasks()
    except* _Stopped:
        pass
    finally:
        await broker.stop()


def _heed_end(
    options: ServeOptions, loop: asyncio.AbstractEventLoop, stopped: asyncio.Event
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    # Until there are certificates to be read anew.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    if options.stop_with_stdin:
        loop.add_reader(sys.stdin.fileno(), read_until_end, loop, stopped)


async def _either(event: asyncio.Event, other: asyncio.Event) -> None:
    """Return when one of them is set."""
    try:
        async with asyncio.TaskGroup() as waiting:
            for each in (event, other):
                waiting.create_task(_end_after(each))
    except* _Stopped:
        pass


async def _end_after(event: asyncio.Event) -> None:
    await event.wait()
    _end_tasks()


class _Stopped(Exception):
    """Ends the tasks of a broker that was asked to stop."""


def _end_tasks() -> NoReturn:
    raise _Stopped


def _log_exception(loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
    log.error(details["message"], exc_info=details.get("exception"))


def _announce(listening: Listening, monitor: Monitor | None, place: str) -> None:
    for each in listening.listeners:
        if each.is_open_to_all:
            log.warning(
                "anyone who can reach this listener can read and write: it asks nobody who they "
                "are, as allow.unauthenticated says",
                listener=each.name,
            )
    if monitor is not None:
        metrics_host, metrics_port = monitor.address
        log.info("metrics", address=f"http://{metrics_host}:{metrics_port}/metrics")
    where = shown(listening.listeners, listening.addresses)
    say(f"Semel is ready on {where}, data in {place}\n")


def _storage(folder: Path, lane_folders: Sequence[Path]) -> Storage:
    return Storage(
        str(folder.resolve()),
        lambda: _disk_bytes(folder),
        lambda: sum(map(_folder_bytes, lane_folders)),
    )


def _disk_bytes(folder: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(folder)
    return usage.total, usage.free


def _folder_bytes(folder: Path) -> int:
    byte_count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            # It may be gone by now.
            with contextlib.suppress(FileNotFoundError):
                byte_count += entry.stat().st_blocks * 512
    return byte_count


def _keep_freed_memory() -> None:
    """Teach the allocator of glibc to keep what replies give back, instead of returning it to the
    kernel and asking for it again with the next fetch. It learns from a large piece that is freed.
    """
    large = bytes(FREED_SIZE_KEPT)
    del large


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return]


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended the tasks of a group; the others only followed it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
