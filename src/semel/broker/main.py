"""Runs a broker in this process: opens its folder, listens, and ends cleanly on a signal."""

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from semel.broker import log
from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig, address, listener
from semel.errors import CannotListen, ConfigError
from semel.journal.file.disk import FileDevice
from semel.journal.file.segments import FULL
from semel.volumes.binding import bind, check_named
from semel.world import SystemClock, SystemRandomness

if TYPE_CHECKING:
    from semel.broker.member import Member

LOOPBACK = ("127.0.0.1", "::1", "localhost")
BACKLOG = 1024
GC_THRESHOLD = 20_000
"""Every request makes and drops some objects; almost none of them are cycles."""
FREED_SIZE_KEPT = 31 * 2**20
"""Just below the largest piece that glibc learns from."""
EPHEMERAL_SEGMENT_BYTES = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    listen: str = "127.0.0.1:9092"
    advertise: str | None = None
    data: Path = Path("semel-data")
    ephemeral: bool = False
    store: str | None = None
    store_options: tuple[str, ...] = ()
    journal: str | None = None
    node_id: int | None = None
    cache: Path | None = None
    volumes: str | None = None
    config: Path | None = None
    settings: tuple[str, ...] = ()
    metrics: str | None = None
    stop_with_stdin: bool = False
    """End when standard input does, so that a broker never outlives the process it belongs to."""


def serve(options: ServeOptions) -> None:
    """Returns after SIGTERM or SIGINT. Raises SemelError or OSError with one clear sentence."""
    config = BrokerConfig.from_sources(options.config, options.settings)
    if options.ephemeral and config.journal_segment_bytes == BrokerConfig.journal_segment_bytes:
        # A temporary folder is often memory, and two segments are allocated at once.
        config = replace(config, journal_segment_bytes=EPHEMERAL_SEGMENT_BYTES)
    if options.advertise:
        config = replace(config, advertised_listeners=listener(*address(options.advertise)))
    if options.node_id is not None:
        config = replace(config, node_id=options.node_id)
    if options.store is not None:
        _run(_serve_on_store(config, options.store, options))
        return
    if options.journal is not None or (options.store_options and options.volumes is None):
        raise ConfigError("--journal and --store-option are about a store: name it with --store")
    if options.volumes is not None:
        _run(_serve_tiered(config, options.volumes, options))
        return
    with _data_folder(options) as folder:
        check_named(folder, None)
        broker = Broker(
            config,
            [FileDevice(folder, synced=not options.ephemeral)],
            _storage(folder),
            SystemClock(),
            SystemRandomness(),
        )
        _settle_in()
        _run(_serve(broker, options, str(folder)))


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


async def _serve_on_store(config: BrokerConfig, url: str, options: ServeOptions) -> None:
    if options.node_id is None:
        raise ConfigError("--store needs --node-id N, a number that no other node has")
    # What speaks to stores is needed by those alone who have one.
    from semel.broker.lane_volumes import disk_cache, work_folder
    from semel.broker.member import joined
    from semel.cluster.opening import ClusterSettings
    from semel.store.settings import shown

    settings = ClusterSettings.of(
        url, options.store_options, options.journal, is_ephemeral=options.ephemeral
    )
    clock, randomness = SystemClock(), SystemRandomness()
    with work_folder(options.cache) as folder:
        cache = None
        if options.cache is not None and config.store_cache_bytes:
            cache = disk_cache(folder, config.store_cache_bytes)
        async with joined(settings, config, clock, randomness, folder, cache) as member:
            _settle_in()
            await _serve(member.broker, options, shown(url), member)


async def _serve_tiered(config: BrokerConfig, url: str, options: ServeOptions) -> None:
    if options.ephemeral:
        raise ConfigError("--volumes keeps data for good, and --ephemeral nothing: choose one")
    from semel.broker.lane_volumes import disk_cache, work_folder
    from semel.store.blocks import NO_CACHE, BlockCache
    from semel.store.opening import open_store
    from semel.store.settings import BUCKETS, StoreSettings, shown
    from semel.volumes.tiering import Tiering

    folder = options.data
    if urlsplit(url).scheme not in BUCKETS:
        known = ", ".join(f"{scheme}://" for scheme in sorted(BUCKETS))
        raise ConfigError(f"{shown(url)}: volumes lie in a store at one of {known}")
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
                _storage(folder),
                SystemClock(),
                randomness,
                tiering=tiering,
            )
            try:
                # Who has the folder may say so.
                tiering.claimed(await bind(folder, url, store, randomness))
            except BaseException:
                await broker.stop()
                raise
            _settle_in()
            log.info("old data lies in a store", volumes=shown(url))
            await _serve(broker, options, str(folder))
        finally:
            await store.close()


async def _serve(
    broker: Broker, options: ServeOptions, place: str, member: "Member | None" = None
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_exception)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if options.stop_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _read_until_end, loop, stopped)
    host, port = address(options.listen)
    try:
        async with asyncio.TaskGroup() as tasks:
            await broker.start(tasks)
            with _naming(options.listen):
                listener = await loop.create_server(
                    broker.connection, host, port, backlog=BACKLOG, reuse_address=True
                )
            try:
                listening = listener.sockets[0].getsockname()[:2]
                node = None if member is None else member.node(listening)
                if node is not None:
                    tasks.create_task(node.run())
                _announce(listening, broker, options, place)
                await stopped.wait()
                if node is not None:
                    await node.leave()
            finally:
                # Not waited for: since Python 3.12 that would be until the last client has gone.
                listener.close()
            broker.close()
            _end_tasks()
    except* _Stopped:
        pass
    finally:
        await broker.stop()


@contextlib.contextmanager
def _naming(address: str) -> Iterator[None]:
    """Say which address it is that cannot be listened on."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(f"cannot listen on {address}: {reason.lower()}") from error


class _Stopped(Exception):
    """Ends the tasks of a broker that was asked to stop."""


def _end_tasks() -> NoReturn:
    raise _Stopped


def _log_exception(loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
    log.error(details["message"], exc_info=details.get("exception"))


def _announce(
    listening: tuple[str, int], broker: Broker, options: ServeOptions, place: str
) -> None:
    host, port = listening
    if host not in LOOPBACK:
        log.warning(
            "anyone who can reach this address can read and write: there is no authentication yet",
            listen=f"{host}:{port}",
        )
    if options.metrics is not None:
        from semel.broker.metrics import serve_metrics

        with _naming(options.metrics):
            metrics_host, metrics_port = serve_metrics(broker, *address(options.metrics))
        log.info("metrics", address=f"http://{metrics_host}:{metrics_port}/metrics")
    shown = f"[{host}]" if ":" in host else host
    _say(f"Semel is ready on {shown}:{port}, data in {place}\n")


def _say(text: str) -> None:
    """On standard output, unless that is a file on a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in FULL:
            raise
        # What is left in the buffer would be tried again, in vain, when the process ends.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is needed.
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _read_until_end(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stopped.set()


@contextlib.contextmanager
def _data_folder(options: ServeOptions) -> Iterator[Path]:
    if not options.ephemeral:
        yield options.data
        return
    folder = Path(tempfile.mkdtemp(prefix="semel-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _storage(folder: Path) -> Storage:
    return Storage(
        str(folder.resolve()), lambda: _disk_bytes(folder), lambda: _folder_bytes(folder)
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
