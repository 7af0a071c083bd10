"""All members of an application, from their start to the end of the last one, or to a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import NamedTuple

from semel.app.failure import ListenerFailed
from semel.app.listener import Listener
from semel.app.member import Equipment, ListenerMember
from semel.app.outbox import Outbox, Transaction
from semel.app.pauses import Pauses
from semel.app.progress import Counts, added
from semel.app.watch import Idleness, Watch
from semel.client.connecting.address import chosen_bootstrap_servers
from semel.client.connecting.security_settings import as_security
from semel.client.consuming.asynchronous import AsyncConsumer
from semel.client.consuming.settings import ConsumerOptions
from semel.client.payloads import encode
from semel.client.producing.asynchronous import AsyncProducer
from semel.client.producing.intake import serializers_of
from semel.client.producing.settings import ProducerOptions
from semel.security import PLAINTEXT, SecurityLike
from semel.world import SystemRandomness

_RANDOM_SIZE = 8

INTERRUPTED = 130


class AppSettings(NamedTuple):
    """What all listeners of an application share."""

    bootstrap_servers: str | Sequence[str] | None
    transactional_id_prefix: str
    stop_timeout_ms: int
    producer_options: ProducerOptions
    pauses: Pauses

    def at(
        self, bootstrap_servers: str | Sequence[str] | None, security: SecurityLike | None
    ) -> "AppSettings":
        """With these servers, if there are any; else those it has, or the environment's."""
        known = self.bootstrap_servers if bootstrap_servers is None else bootstrap_servers
        options = self.producer_options.copy()
        if security is not None:
            options["security"] = as_security(security)
        return self._replace(
            bootstrap_servers=chosen_bootstrap_servers(known), producer_options=options
        )


class RunningApp:
    """Listeners at work."""

    def __init__(self, settings: AppSettings, listeners: Sequence[Listener]) -> None:
        assert isinstance(settings.bootstrap_servers, str), "the servers have been looked up"
        self._settings = settings
        self._servers = settings.bootstrap_servers
        self._randomness = SystemRandomness()
        self._members = {
            listener: [
                ListenerMember(listener, self._equipment(listener, number))
                for number in range(listener.concurrency)
            ]
            for listener in listeners
        }
        security = as_security(settings.producer_options.get("security", PLAINTEXT))
        self._watch = Watch(self._servers, security, self._members)
        self._idleness = Idleness(self._servers, security, self._members, settings.pauses)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self.failure: ListenerFailed | None = None
        self.is_watched = True
        """Whether the block that the listeners run for is still entered."""

    def stop(self) -> None:
        """Let every member finish what it is at, and end."""
        self._stopping.set()
        for member in self._all():
            member.stop()

    def counts(self) -> dict[str, Counts]:
        """What each listener has done so far, by its name."""
        counts = {}
        for listener, members in self._members.items():
            counts[listener.name] = together = added([member.counts for member in members])
            together.trouble = together.trouble or self._watch.troubles.get(listener)
        return counts

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def until_ended(self) -> None:
        """Return when the last member has ended."""
        await self._ended.wait()

    async def idle(self, timeout_s: float = 60) -> None:
        """Return when every record there is has been worked on, but for paused listeners."""
        async with asyncio.timeout(timeout_s):
            await self._idleness.reached()

    def _all(self) -> list[ListenerMember]:
        return [member for members in self._members.values() for member in members]

    # Making members

    def _equipment(self, listener: Listener, number: int) -> Equipment:
        options = self._settings.producer_options
        serializers = serializers_of(options)
        outbox_type = Transaction if listener.is_transactional else Outbox
        return Equipment(
            consumer=AsyncConsumer(
                self._servers, listener.group, **self._consumer_options(listener, number)
            ),
            make_transactional_producer=self._transactional_producer,
            make_producer=self._producer,
            make_outbox=lambda: outbox_type(*serializers),
            random=self._random,
            is_paused=lambda: listener.name in self._settings.pauses,
        )

    def _consumer_options(self, listener: Listener, number: int) -> ConsumerOptions:
        options = listener.consumer_options.copy()
        options["enable_auto_commit"] = False
        shared = self._settings.producer_options
        options.setdefault("security", shared.get("security", PLAINTEXT))
        options.setdefault("client_id", shared.get("client_id", f"semel-{listener.name}"))
        instance_id = options.get("group_instance_id")
        if instance_id is not None and listener.concurrency > 1:
            options["group_instance_id"] = f"{instance_id}-{number}"
        return options

    def _producer_options(self) -> ProducerOptions:
        options = self._settings.producer_options.copy()
        # The outbox has made bytes of everything already.
        options["key_serializer"] = options["value_serializer"] = encode
        return options

    def _producer(self) -> AsyncProducer:
        return AsyncProducer(self._servers, **self._producer_options())

    def _transactional_producer(self) -> AsyncProducer:
        options = self._producer_options()
        random_part = self._randomness.token_bytes(_RANDOM_SIZE).hex()
        options["transactional_id"] = f"{self._settings.transactional_id_prefix}-{random_part}"
        return AsyncProducer(self._servers, **options)

    def _random(self) -> float:
        return int.from_bytes(self._randomness.token_bytes(2), "big") / 2**16

    # Running them

    async def run(self) -> None:
        """Until all members have ended; one that fails stops the others."""
        with self._settings.pauses.watched(self._wake_soon):
            await self._run()
        self._ended.set()

    def _wake_soon(self) -> None:
        """Called in any thread."""
        with suppress(RuntimeError):  # It has ended meanwhile.
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for member in self._all():
            member.wake()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch.run())
            running = [tasks.create_task(self._run_member(member)) for member in self._all()]
            await self._stopping.wait()
            _, late = await asyncio.wait(running, timeout=self._settings.stop_timeout_ms / 1000)
            for task in late:
                task.cancel()
            watching.cancel()

    async def _run_member(self, member: ListenerMember) -> None:
        try:
            await member.run()
        except ListenerFailed as failure:
            self.failure = self.failure or failure
        finally:
            self.stop()


@asynccontextmanager
async def run_members(
    settings: AppSettings, listeners: Sequence[Listener]
) -> AsyncIterator[RunningApp]:
    run = RunningApp(settings, listeners)
    loop = asyncio.get_running_loop()
    running = loop.create_task(run.run())
    try:
        async with asyncio.timeout(None) as block:

            def leave(_: object) -> None:
                # Whoever waits for what a failed listener should have done would wait for ever.
                if run.failure is not None and run.is_watched:
                    block.reschedule(loop.time())

            running.add_done_callback(leave)
            try:
                yield run
            finally:
                run.is_watched = False
    except BaseException as error:
        run.stop()
        await running
        if run.failure is None:
            raise
        if not isinstance(error, TimeoutError):
            error.add_note(f"and {run.failure}")
            raise
    run.stop()
    await running
    if run.failure is not None:
        raise run.failure


def _say(sentence: str) -> None:
    sys.stderr.write(f"semel: {sentence}\n")
    sys.stderr.flush()


async def run_until_told(
    running: AbstractAsyncContextManager[RunningApp],
    watch: Callable[[RunningApp], Awaitable[None]],
    notify: Callable[[str], None] = _say,
) -> None:
    """Run, and watch it, until SIGTERM or Ctrl-C has ended it or a listener failed."""
    async with running as run:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, run, notify)
        await watch(run)


def _stop(run: RunningApp, notify: Callable[[str], None]) -> None:
    if run.is_stopping:
        # Someone does not want to wait for what is being worked on; what it may have open is
        # aborted by the coordinator.
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    notify("finishing what is in work; once more ends it at once")
    run.stop()
