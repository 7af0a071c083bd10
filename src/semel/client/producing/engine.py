"""The producer's core on an asyncio loop: its requests are sent, its clock is wound.

The core may be fed from another thread, so that every look at it is taken under `lock`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from semel.client import outcome
from semel.client.cluster.cluster import Cluster
from semel.client.outcome import ErrorKind
from semel.client.producing import requests
from semel.client.producing.batch import ProducerBatch
from semel.client.producing.coordination import new_producer_id
from semel.client.producing.core import ProducerCore
from semel.client.producing.intake import Intake
from semel.client.producing.requests import BatchAnswer, Request
from semel.client.producing.settings import ACKS_NONE
from semel.errors import NetworkException, RequestError
from semel.wire.messages import produce

_METADATA_AGE_MS_MAX = 300_000
_METADATA_PAUSE_MS = 100

Attendant = Callable[[], Coroutine[Any, Any, None]]


class ProducerEngine:
    def __init__(
        self,
        cluster: Cluster,
        core: ProducerCore,
        intake: Intake,
        lock: AbstractContextManager[Any],
        room_made: Callable[[], object],
    ) -> None:
        self.core = core
        self.lock = lock
        self._cluster = cluster
        self._intake = intake
        self._room_made = room_made
        self._loop = asyncio.get_running_loop()
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._attended: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._learnt_at_ms = self._now_ms()
        self._is_pump_due = False
        self._stopping = asyncio.Event()
        self.attend_to_transaction: Attendant | None = None

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    async def run(self) -> None:
        """Until `stop`: the owner of all that is under way."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.pump()
                await self._stopping.wait()
                for task in self._running:
                    task.cancel()
        finally:
            self._tasks = None
            if self._timer is not None:
                self._timer.cancel()
            with self.lock:
                self.core.fail(NetworkException("the producer is closed"))
                self.core.drop(NetworkException("the producer is closed"), with_in_flight=True)
            self._publish()

    def stop(self) -> None:
        self._stopping.set()

    def pump_soon(self) -> None:
        """Once in this tick of the loop, however many records come in it."""
        if not self._is_pump_due:
            self._is_pump_due = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Send what may be sent, and tell of what is done."""
        self._is_pump_due = False
        tasks = self._tasks
        if tasks is None or self._stopping.is_set():
            return
        try:
            self._pump(tasks)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends all that is under way.
            self._start(tasks, _raising(error))

    def _pump(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            now_ms = self._now_ms()
            with self.lock:
                work = self.core.drain(now_ms)
            for request in work.requests:
                self._start(tasks, self._exchange(request))
            if not work.requests:
                break
        self._attend(tasks, now_ms)
        self._publish()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if work.wake_at_ms is not None:
            self._timer = self._loop.call_at(work.wake_at_ms / 1000, self.pump)

    def _attend(self, tasks: asyncio.TaskGroup, now_ms: float) -> None:
        core = self.core
        if core.fatal is not None:
            return
        if core.wants_leaders or now_ms - self._learnt_at_ms > _METADATA_AGE_MS_MAX:
            self._once(tasks, "leaders", self._learn_leaders)
        if core.transaction is None:
            if core.wants_producer_id:
                self._once(tasks, "producer id", self._ask_producer_id)
        elif core.transaction.joining and self.attend_to_transaction is not None:
            self._once(tasks, "transaction", self.attend_to_transaction)

    def _once(self, tasks: asyncio.TaskGroup, name: str, attend: Attendant) -> None:
        if name in self._attended:
            return
        self._attended.add(name)

        async def attending() -> None:
            try:
                await attend()
            finally:
                self._attended.discard(name)
            self.pump()

        self._start(tasks, attending())

    def _start(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        task = tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _publish(self) -> None:
        with self.lock:
            settled, self.core.settled = self.core.settled, []
        for batch in settled:
            while batch.waiters:
                self._call(batch.waiters.popleft())
        if settled:
            self._room_made()

    def _call(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - a caller's callback must not end the sender.
            self._loop.call_exception_handler(
                {"message": "a delivery callback failed", "exception": error}
            )

    async def _exchange(self, request: Request) -> None:
        core = self.core
        try:
            message = requests.to_wire(request, core.settings, core.topic_ids)
            if core.settings.acks == ACKS_NONE:
                await self._cluster.tell(request.node_id, produce, message)
                # Nothing will be heard of it, which is what was asked for.
                answers = [BatchAnswer(None)] * len(request.batches)
            else:
                pending = await self._cluster.ask(request.node_id, produce, message)
                reply = await pending.reply(core.settings.request_timeout_ms)
                answers = requests.answers_of(request, reply)
            with self.lock:
                core.answered(request, answers, self._now_ms())
        except RequestError as error:
            with self.lock:
                core.lost(request, error, self._now_ms())
        self.pump()

    async def _learn_leaders(self) -> None:
        pause_ms = self._learnt_at_ms + _METADATA_PAUSE_MS - self._now_ms()
        while True:
            await asyncio.sleep(max(0, pause_ms) / 1000)
            pause_ms = _METADATA_PAUSE_MS
            try:
                described = await self._cluster.describe(list(self._intake.queues))
            except RequestError:
                continue
            self._learnt_at_ms = self._now_ms()
            with self.lock:
                for topic in described.topics.values():
                    self._intake.learn(topic)
                self.core.wants_leaders = False
            return

    async def _ask_producer_id(self) -> None:
        pause_ms = self.core.settings.backoff_first_ms
        while True:
            try:
                producer = await new_producer_id(self._cluster)
            except RequestError as error:
                if outcome.kind_from_coordinator(error) is not ErrorKind.RETRY:
                    with self.lock:
                        self.core.fail(error)
                    return
            else:
                with self.lock:
                    self.core.adopt(producer)
                return
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, self.core.settings.backoff_max_ms)

    async def learn(self, topic: str) -> None:
        """Know the partitions of this topic, which may be created by asking for it."""
        found = await self._cluster.topic_to_write(topic, self.core.settings.block_timeout_ms)
        with self.lock:
            self._intake.learn(found)

    async def learn_all(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic not in self._intake.queues:
                await self.learn(topic)

    async def flush(self) -> None:
        """Return when everything handed over before is stored or given up."""
        with self.lock:
            batches = self.core.close_batches()
        self.pump()
        for batch in batches:
            await self.settled(batch)

    async def answers(self) -> None:
        """Return when nothing is under way."""
        with self.lock:
            batches = self.core.in_flight()
        for batch in batches:
            await self.settled(batch)

    async def settled(self, batch: ProducerBatch) -> None:
        if not batch.is_done:
            done: asyncio.Future[None] = self._loop.create_future()
            batch.waiters.append(partial(release, done))
            await done


def release(waiting: asyncio.Future[None]) -> None:
    """End a wait that may have been given up."""
    if not waiting.done():
        waiting.set_result(None)


async def _raising(error: Exception) -> None:
    raise error
