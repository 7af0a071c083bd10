"""One member of a listener's group: it polls, lets the function work, and delivers, in cycles.

All that a cycle has done is delivered before the next poll, and only a poll gives partitions away.
So whoever gets a partition finds it committed up to the last cycle, and nothing of it in work.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from semel.app import portion as portions
from semel.app.backlog import Backlog
from semel.app.calling import OwnThread, in_thread, on_loop
from semel.app.cycle import CycleOutcome, Steps, all_at_once, doubt, one_by_one
from semel.app.delivery import (
    AtLeastOnce,
    Carrier,
    InTransactions,
    Meaning,
    NotDelivered,
    Offsets,
)
from semel.app.failure import Failure, ListenerFailed, failed_for_good, in_words
from semel.app.failure_log import FailureLog
from semel.app.listener import Listener
from semel.app.outbox import Outbox
from semel.app.pace import Pace
from semel.app.payload import CallShape
from semel.app.portion import Portion
from semel.app.progress import Counts, ListenerState
from semel.client.consuming.asynchronous import AsyncConsumer
from semel.client.consuming.record import Record
from semel.client.consuming.refusals import CommitFailed
from semel.client.producing.asynchronous import AsyncProducer
from semel.client.producing.coordination import GroupMetadata
from semel.errors import RequestError, SemelError
from semel.types import TopicPartition

_POLL_MS = 1_000
_REJOIN_MS = 50
_OUTBOX_SIZE_MAX = 8 * 1024 * 1024
_PAUSE_FIRST_S = 0.05
_PAUSE_S_MAX = 2.0
_CLOSE_S_MAX = 3.0


class Equipment(NamedTuple):
    """What a member is made with."""

    consumer: AsyncConsumer
    make_transactional_producer: Callable[[], AsyncProducer]
    make_producer: Callable[[], AsyncProducer]
    make_outbox: Callable[[], Outbox]
    random: Callable[[], float]
    is_paused: Callable[[], bool]


class ListenerMember:
    def __init__(self, listener: Listener, equipment: Equipment) -> None:
        self._listener = listener
        self.consumer = equipment.consumer
        self._make_outbox = equipment.make_outbox
        self._random = equipment.random
        self._is_paused = equipment.is_paused
        self._transactions = InTransactions(equipment.make_transactional_producer)
        self._carrier: Carrier = self._transactions
        if not listener.is_transactional:
            self._carrier = AtLeastOnce(equipment.make_producer, self._commit)
        self._backlog = Backlog(listener.rules.retry_policy)
        self._thread: OwnThread | None = None
        self._loop = asyncio.get_running_loop()
        self._interruptible: asyncio.Timeout | None = None
        self._is_stopping = False
        self._is_polling = False
        self._pace = Pace(listener)
        self._failure_log = FailureLog(listener.name, self._now_ms)
        self._undelivered_count = 0
        self.cycle_count = 0
        self.counts = Counts()

    def stop(self) -> None:
        """End after what is being worked on; may be called more than once."""
        self._is_stopping = True
        self.wake()

    def wake(self) -> None:
        """Let it see at once what is asked of it."""
        if self._interruptible is not None and not self._interruptible.expired():
            self._interruptible.reschedule(self._loop.time())

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for records, with nothing in work and nothing put off."""
        return self._is_polling and (self._is_paused() or not self._backlog.held)

    async def look_at_lag(self) -> None:
        """Count what waits to be read."""
        lag = await self.consumer.lag()
        self.counts.lag = sum(lag.values()) + self._backlog.held_count

    async def run(self) -> None:
        listener = self._listener
        if not listener.is_coroutine:
            self._thread = OwnThread(f"semel-{listener.name}")
        try:
            await self._run()
        except ListenerFailed:
            self.counts.state = ListenerState.FAILED
            raise
        except asyncio.CancelledError as error:
            if self._is_stopping:
                raise
            # By its own function, since whoever else ends it says so before.
            self.counts.state = ListenerState.FAILED
            raise ListenerFailed(listener.name, "its task was cancelled", error) from error
        except SemelError as error:
            self.counts.state = ListenerState.FAILED
            raise ListenerFailed(listener.name, str(error), error) from error
        except Exception as error:
            self.counts.state = ListenerState.FAILED
            sentence = f"{type(error).__name__}: {in_words(error)}"
            raise ListenerFailed(listener.name, sentence, error) from error
        finally:
            self._failure_log.tell_rest(is_over=True)
            self.counts.partitions = frozenset()
            self.counts.lag = 0
            if self._thread is not None:
                self._thread.end()
        self.counts.state = ListenerState.STOPPED

    async def _run(self) -> None:
        consumer = self.consumer
        try:
            await consumer.start()
            await consumer.subscribe(
                self._listener.topics,
                on_assigned=self._take,
                on_revoked=self._backlog.drop,
                on_lost=self._backlog.drop,
            )
            while not self._is_stopping:
                await self._run_cycle()
        finally:
            self.counts.state = ListenerState.STOPPING
            for each in (self._transactions, self._carrier, consumer):
                # With the cluster away there is nobody to say good-bye to.
                with suppress(TimeoutError, SemelError):
                    async with asyncio.timeout(_CLOSE_S_MAX):
                        await each.close()

    # Polling

    def _take(self, partitions: object) -> None:
        self.counts.partitions = self.consumer.assignment

    async def _run_cycle(self) -> None:
        if self._is_paused():
            await self._rest()
            return
        portion = await self._next()
        self.counts.partitions = self.consumer.assignment
        if portion is not None and portion.record_count and not self._is_stopping:
            self.counts.state = ListenerState.WORKING
            began_at_ms = self._now_ms()
            await self._work(portion)
            self.cycle_count += 1
            self.counts.cycles += 1
            self.counts.cycle_seconds += (self._now_ms() - began_at_ms) / 1000
        self._failure_log.tell_rest()
        self._show_rest()

    async def _rest(self) -> None:
        """Stay in the group, with whatever partitions it gives, and take no records of them."""
        self.counts.state = ListenerState.PAUSED
        await self._poll(_POLL_MS, 0)
        self.counts.partitions = self.consumer.assignment
        self._failure_log.tell_rest()

    def _show_rest(self) -> None:
        if self._is_paused():
            self.counts.state = ListenerState.PAUSED
        elif self._backlog.is_resting:
            self.counts.state = ListenerState.RESTING
        else:
            is_member = self.consumer.membership.generation_id >= 0
            self.counts.state = ListenerState.IDLE if is_member else ListenerState.JOINING

    async def _next(self) -> Portion | None:
        """What was put off, in turn with what is new; without either, what comes in a while."""
        now_ms = self._now_ms()
        wake_at_ms = self._backlog.wake(now_ms)
        if wake_at_ms is None:
            return await self._poll(_POLL_MS)
        if wake_at_ms > now_ms:
            return await self._poll(min(_POLL_MS, wake_at_ms - now_ms))
        # Also lest the group takes a member for dead that never asks.
        polled = await self._poll(0)
        if polled is not None:
            self._backlog.hold(polled.records(), polled.firsts)
        records = self._backlog.take(self._pace.count_max)
        self._hold_and_let_go()
        if self._listener.shape is CallShape.COLUMNS and records:
            return portions.of_columns(portions.columns_of(records))
        return portions.of_records(records)

    async def _poll(self, timeout_ms: float, count_max: int | None = None) -> Portion | None:
        count_max = self._pace.count_max if count_max is None else count_max
        self._is_polling = True
        try:
            async with asyncio.timeout(None) as self._interruptible:
                if self._listener.shape is CallShape.COLUMNS:
                    names = portions.column_names()
                    batch = await self.consumer.poll_arrow(timeout_ms, count_max, names)
                    return portions.of_columns(batch)
                return portions.of_records(await self.consumer.poll(timeout_ms, count_max))
        except TimeoutError:
            return None
        except RequestError as error:
            if not error.retriable:
                raise
            # The cluster may be started after its listeners; that it is away is seen by the watch.
            return None
        finally:
            self._is_polling = False
            self._interruptible = None

    def _hold_and_let_go(self) -> None:
        """Poll nothing of the partitions that have records held back, and all others again."""
        held, paused = self._backlog.held, self.consumer.paused
        self.consumer.pause(self._still_mine(held - paused))
        self.consumer.resume(self._still_mine(paused - held))

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    # Working

    async def _work(self, portion: Portion) -> None:
        # Taken with the records: a later one might stand for partitions that were lost since.
        membership = self.consumer.membership
        began_at_ms = self._now_ms()
        outcome = await self._perform(self._steps(portion, began_at_ms))
        took_ms = self._now_ms() - began_at_ms
        self._pace.adapt(portion, outcome, took_ms)
        outcome.too_slow = self._pace.too_slow(portion, outcome, took_ms)
        await self._deliver(portion, outcome, membership)

    def _steps(self, portion: Portion, began_at_ms: float) -> Steps:
        rules, outbox = self._listener.rules, self._make_outbox()
        attempts_of, given_up = self._backlog.attempts_of, self._backlog.given_up
        if self._listener.shape is not CallShape.RECORD:
            return all_at_once(portion, rules, outbox, attempts_of, given_up)
        over_at_ms = began_at_ms + self._listener.cycle_ms_max

        def is_over() -> bool:
            is_late = self._is_stopping or self._now_ms() > over_at_ms
            return is_late or outbox.size > _OUTBOX_SIZE_MAX

        return one_by_one(portion, rules, outbox, attempts_of, is_over, given_up)

    async def _perform(self, steps: Steps) -> CycleOutcome:
        if self._thread is None:
            return await on_loop(steps, self._listener.call)
        return await self._thread.call(partial(in_thread, steps, self._listener.call))

    # Delivering

    async def _deliver(
        self, portion: Portion, outcome: CycleOutcome, membership: GroupMetadata
    ) -> None:
        counts = self.counts
        counts.retries += len(outcome.failures) + bool(outcome.doubts)
        if outcome.done:
            # A letter and the offset of the record that it is about go together in any case.
            carrier = self._transactions if outcome.dead else self._carrier
            try:
                await carrier.deliver(outcome.outbox.records, outcome.done, membership)
            except NotDelivered as failure:
                counts.transactions_aborted += carrier.is_transactional
                await self._cope(portion, outcome, membership, failure)
                return
            counts.transactions_committed += carrier.is_transactional
            counts.records += outcome.done_count
            counts.dead_letters += len(outcome.dead)
            counts.trouble = None
            self._failure_log.laid_aside(outcome.dead, self._listener.rules.dead_letters)
            self._undelivered_count = 0
        self._backlog.done(outcome.done)
        if outcome.undone:
            self._backlog.hold(portion.records(), outcome.undone)
            self._backlog.failed(outcome, self._now_ms(), self._random())
            self._tell_of_retries(outcome, portion.record_count)
            self._hold_and_let_go()
        if outcome.final is not None:
            raise failed_for_good(self._listener.name, outcome.final)

    def _tell_of_retries(self, outcome: CycleOutcome, record_count: int) -> None:
        attempts_max = self._listener.rules.retry_policy.attempts_max
        self._failure_log.retried(outcome.failures.values(), attempts_max)
        if outcome.doubted_for is not None:
            self._failure_log.in_doubt(record_count, outcome.doubted_for)

    async def _commit(self, offsets: Offsets, membership: GroupMetadata) -> None:
        """As the member that was given the records."""
        if self.consumer.membership != membership:
            raise CommitFailed("the group has gone on without this member, which has joined anew")
        await self.consumer.commit(offsets)

    async def _cope(
        self,
        portion: Portion,
        outcome: CycleOutcome,
        membership: GroupMetadata,
        failure: NotDelivered,
    ) -> None:
        reason = failure.__cause__
        assert isinstance(reason, Exception)
        is_letter = bool(outcome.dead) and portion.record_count == 1
        if failure.meaning is Meaning.AGAIN:
            self.counts.trouble = str(reason)
            self._failure_log.set_back(reason, is_of_group=failure.is_of_group)
            if failure.is_of_group:
                if outcome.too_slow is not None:
                    self._count_too_slow(outcome.too_slow)
                await self._rejoin(membership)
            elif failure.is_of_gone_input:
                # Before anything is waited for: from where it is made anew it has a start of its
                # own, which must not be left again.
                self._return_to(portion.firsts)
                await self._pause()
                return
            else:
                await self._pause()
            lost = [each for each in portion.firsts if each.topic == failure.remade]
            self._backlog.drop(lost)
            kept = {each: at for each, at in portion.firsts.items() if each not in lost}
            await self._return_to_committed(kept)
        elif failure.meaning is Meaning.FINAL or is_letter:
            raise ListenerFailed(self._listener.name, str(reason), reason)
        else:
            refused = CycleOutcome(Outbox())
            if portion.record_count > 1:
                doubt(refused, portion, reason)
            else:
                record = portion.records()[0]
                attempt = self._backlog.attempts_of(record.topic_partition, record.offset) + 1
                refused.fail(self._listener.rules, Failure(record, reason, attempt))
            await self._deliver(portion, refused, membership)

    def _count_too_slow(self, record: Record) -> None:
        attempt = self._backlog.attempts_of(record.topic_partition, record.offset) + 1
        failure = Failure(record, self._pace.complaint(), attempt)
        fate = CycleOutcome(Outbox())
        fate.fail(self._listener.rules, failure)
        if fate.final is not None:
            raise failed_for_good(self._listener.name, failure)
        self.counts.retries += len(fate.failures)
        self.counts.trouble = str(failure.error)
        self._tell_of_retries(fate, 1)
        # A letter cannot be sent while the record is nobody's, or another's.
        self._backlog.too_slow(failure, is_given_up=bool(fate.dead))

    async def _rejoin(self, membership: GroupMetadata) -> None:
        """Work on nothing until the consumer, too, knows that it is not that member any more."""
        self.counts.state = ListenerState.WAITING
        while self.consumer.membership == membership and not self._is_stopping:
            await self._poll(_REJOIN_MS, 0)

    async def _return_to_committed(self, firsts: dict[TopicPartition, int]) -> None:
        """Go on where the group stands: what looked like a failure may have been committed."""
        while not self._is_stopping and (mine := self._still_mine(firsts)):
            try:
                committed = await self.consumer.committed(mine)
            except RequestError as error:
                if not error.retriable:
                    raise
                await self._pause()
            else:
                self._return_to({each: committed.get(each, firsts[each]) for each in mine})
                return

    def _return_to(self, offsets: dict[TopicPartition, int]) -> None:
        mine = self._still_mine(offsets)
        self._backlog.drop(mine)
        for partition in mine:
            self.consumer.seek(partition, offsets[partition])
        self._hold_and_let_go()

    def _still_mine(self, partitions: Any) -> list[TopicPartition]:
        return [partition for partition in partitions if partition in self.consumer.assignment]

    async def _pause(self) -> None:
        """The longer, the more often in a row nothing could be delivered."""
        self.counts.state = ListenerState.WAITING
        pause_s = min(_PAUSE_FIRST_S * 2 ** min(self._undelivered_count, 16), _PAUSE_S_MAX)
        self._undelivered_count += 1
        try:
            async with asyncio.timeout(None) as self._interruptible:
                if not self._is_stopping:
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            pass
        finally:
            self._interruptible = None
