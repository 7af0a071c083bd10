"""A broker without sockets: requests go straight to its handlers, on a disk in memory."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

from semel.access.principal import Caller
from semel.access.rights import UNRESTRICTED, Rights
from semel.broker.answer import Answer, Call
from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.broker.dispatch import route
from semel.broker.sign_in import SignIn
from semel.cluster.session import Session
from semel.journal.file.memory import MemoryDevice
from semel.lane.lane import Mark
from support.raw_client import BY_MODULE
from support.seeded_loop import run

CONFIG = BrokerConfig(
    message_max_bytes=20_000,
    journal_segment_bytes=2**21,
    offsets_topic_num_partitions=3,
    group_min_session_timeout_ms=1,
)

FREE_BYTES = 2**40
"""What the broker is told of the disk."""

SEED = 1


class LoopClock:
    """The time of the running loop, which is simulated, and a wall clock that a test may set."""

    def __init__(self) -> None:
        self.ahead_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.ahead_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


class SeededRandomness:
    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def token_bytes(self, size: int) -> bytes:
        return self._rng.randbytes(size)


class Peer:
    number = 1
    caller = Caller(host="127.0.0.1")
    rights: Rights = UNRESTRICTED
    client_host = "/127.0.0.1"
    software = ""
    was_sent_away = False
    listener = ("127.0.0.1", 9092)
    told_spent: tuple[int, int, int] | None = None
    put_off_count = 0
    session: Session | None = None
    sign_in: SignIn | None = None


def opened(
    device: MemoryDevice,
    rng: Random,
    config: BrokerConfig = CONFIG,
    clock: LoopClock | None = None,
) -> Broker:
    """Recovered, and not yet started."""
    storage = Storage("memory", lambda: (2**41, FREE_BYTES))
    return Broker(config, [device], storage, clock or LoopClock(), SeededRandomness(rng))


@asynccontextmanager
async def started(broker: Broker) -> AsyncIterator[Broker]:
    """Serves within the block; ends as a killed process does, without a last checkpoint."""

    async def serve(ready: "asyncio.Future[None]") -> None:
        async with asyncio.TaskGroup() as tasks:
            await broker.start(tasks)
            ready.set_result(None)

    ready = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve(ready))
        await ready
        yield broker
        serving.cancel()


async def reached(mark: Mark, *, durable: bool = True) -> None:
    """Return when what was decided before the mark survives a power loss, or a killed process."""
    done = asyncio.get_running_loop().create_future()

    def release() -> None:
        if not done.done():
            done.set_result(None)

    wait = mark.lane.when_durable if durable else mark.lane.when_written
    wait(mark.position, release)
    await done


class Machine:
    """A disk in memory, and the brokers that are started on it, one after the other."""

    def __init__(self, config: BrokerConfig = CONFIG, clock: LoopClock | None = None) -> None:
        self._rng = Random(SEED)
        self.device = MemoryDevice(self._rng)
        self.config = config
        self._clock = clock

    def opened(self) -> Broker:
        return opened(self.device, self._rng, self.config, self._clock)

    def broker(self) -> AbstractAsyncContextManager[Broker]:
        return started(self.opened())


Kind = TypeVar("Kind", bound=Machine)
Arguments = ParamSpec("Arguments")


def on_a(
    kind: Callable[..., Kind], *settings: Any
) -> Callable[
    [Callable[Concatenate[Kind, Arguments], Coroutine[Any, Any, None]]], Callable[Arguments, None]
]:
    """The test runs in simulated time, and its first argument is a machine of its own."""

    def decorated(
        test: Callable[Concatenate[Kind, Arguments], Coroutine[Any, Any, None]],
    ) -> Callable[Arguments, None]:
        @functools.wraps(test)
        def running(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
            machine = kind(*settings)
            run(Random(SEED), test(machine, *arguments, **named))

        # All others are fixtures and parameters, which pytest gives by their names.
        signature = inspect.signature(test)
        others = list(signature.parameters.values())[1:]
        running.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return running

    return decorated


async def call(
    broker: Broker, module: str, version: int, request: Any, peer: Peer | None = None
) -> Any:
    """The response, once the journal allows it to leave."""
    known = route(BY_MODULE[module].key)
    handled = known.handler(broker, request, Call(known.api, version, 1, None, peer or Peer()))
    answer = handled if isinstance(handled, Answer) else await handled
    for mark in broker.lanes.marks() if answer.marks is None else answer.marks:
        await reached(mark, durable=answer.durable)
    # Whatever a handler answers can be said in the version that was asked for.
    if answer.response is not None:
        known.api.encode_response(answer.response, version)
    return answer.response
