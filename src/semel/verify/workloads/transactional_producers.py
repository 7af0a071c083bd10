"""Transactional producers of both dialects: they commit, abort, give up, die and come back.

What one concludes from its answers is in the history; the checker holds it against the logs.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from semel.errors import OutOfOrderSequence, TransactionAbortable, UnknownTopicOrPartition
from semel.records.compression import Compression
from semel.records.records import encode_batch
from semel.types import TopicPartition
from semel.verify.history import (
    Began,
    CommitSent,
    Ended,
    Outcome,
    Span,
    Strayed,
    WriteAcknowledged,
    Written,
)
from semel.verify.workloads.client import Client, Connection, Lost, Reply
from semel.verify.workloads.incarnation import (
    AGAIN,
    FENCED,
    TV1,
    TV2,
    DialectVersions,
    Fatal,
    Incarnation,
)
from semel.verify.workloads.producers import (
    ACKS_ALL,
    IN_FLIGHT_MAX,
    Contents,
    outcomes,
    plain_contents,
    request_of,
)
from semel.wire.messages import end_txn, produce

GAVE_UP = -1
CHANGED_ITS_MIND = -2
COMMIT_TRIES_MAX = 40
STRAY_SHARE = 0.2
TWICE_SHARE = 0.03
END_TXN_VERSION_OF_LIBRDKAFKA = 1


@dataclass
class Errands:
    """Transactions that are left to do, for all incarnations of an id together."""

    left: int
    names: "count[int]" = field(default_factory=count)


class Batch:
    """Of one partition, under one sequence."""

    def __init__(self, partition: TopicPartition, sequence: int, labels: tuple[str, ...]) -> None:
        self.partition = partition
        self.sequence = sequence
        self.labels = labels
        self.content = b""


@dataclass(frozen=True)
class Habits:
    """By which one client differs from another."""

    transactional_id: str
    dialect: DialectVersions
    timeout_ms: int
    bumps_after_doubt: bool
    """TV1: asks for a new epoch when it does not know what has become of a batch."""
    aborts_by_init: bool
    """TV1: asks for a new epoch instead of aborting, when it is told that writes are lost."""
    is_reckless: bool = False
    """Now and then it has two tasks write under the same sequences, and does not await one."""


def habits_of(rng: Random, transactional_id: str, *, is_reckless: bool = False) -> Habits:
    return Habits(
        transactional_id,
        rng.choice((TV1, TV2)),
        rng.choice((300, 1000, 2000)),
        rng.random() < 0.5,
        rng.random() < 0.5,
        is_reckless,
    )


class TransactionalProducer:
    def __init__(
        self,
        client: Client,
        habits: Habits,
        partitions: Sequence[TopicPartition],
        errands: Errands,
        brief: Sequence[TopicPartition] = (),
        contents: Contents = plain_contents,
    ) -> None:
        self._client = client
        self._contents = contents
        self._rng = client.rng
        self._history = client.history
        self._habits = habits
        self._partitions = partitions
        self._errands = errands
        self._brief = brief
        """Partitions that may vanish at any time."""
        self._incarnation: Incarnation
        self._is_in_doubt = False
        self._last: dict[TopicPartition, Batch] = {}
        """Of the attempt."""

    async def run(self) -> None:
        for number in count():
            if not self._errands.left:
                return
            self._incarnation = Incarnation(
                self._client,
                f"{self._client.name}.{number}",
                self._transactional_id(),
                self._habits.dialect,
                self._habits.timeout_ms,
            )
            try:
                await self._live()
            except Fatal:
                await self._client.back_off()
            self._incarnation.drop()
            if self._client.is_replaced:
                return

    def _transactional_id(self) -> str:
        return self._habits.transactional_id

    async def _live(self) -> None:
        await self._incarnation.initialise()
        while self._errands.left:
            self._errands.left -= 1
            await self._attempt()
            await self._client.think()

    # One transaction

    async def _attempt(self) -> None:
        attempt = f"{self._habits.transactional_id}:{next(self._errands.names)}"
        incarnation = self._incarnation
        self._is_in_doubt = False
        self._last.clear()
        self._history.note(
            Began(attempt, incarnation.transactional_id, incarnation.name, incarnation.dialect.name)
        )
        added: set[TopicPartition] = set()
        code = await self._fill(attempt, added)
        if code == 0 and self._habits.is_reckless:
            code = await self._be_reckless(attempt, added)
        if code == 0 and self._rng.random() < 0.12:
            code = CHANGED_ITS_MIND
        if code == 0:
            code = await self._commit(attempt)
            if code == 0:
                return
        now_s = self._client.now_s()
        self._history.note(Ended(Span(now_s, now_s), attempt, Outcome.ABORTED))
        await self._abort(attempt, code, began=bool(added) or not incarnation.is_tv1)

    async def _fill(self, attempt: str, added: set[TopicPartition]) -> int:
        """Write all there is to write; an error code, or 0."""
        numbers: dict[TopicPartition, int] = {}
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            plan = self._plan(attempt, numbers, self._rng.choice((1, 3, 7)))
            code = await self._write(attempt, plan, added)
            if code:
                return code
            if self._rng.random() < 0.08:
                # Sometimes longer than the transaction may take.
                await asyncio.sleep(self._rng.choice((0.02, 0.2, 1.3)))
        return 0

    async def _write(
        self, attempt: str, plan: list[list[Batch]], added: set[TopicPartition]
    ) -> int:
        if self._incarnation.is_tv1:
            fresh = dict.fromkeys(
                batch.partition
                for batches in plan
                for batch in batches
                if batch.partition not in added
            )
            if fresh:
                code = await self._incarnation.add(attempt, list(fresh))
                if code:
                    return code
                added.update(fresh)
        return await self._send_all(attempt, plan)

    def _plan(
        self, attempt: str, numbers: dict[TopicPartition, int], request_count: int
    ) -> list[list[Batch]]:
        """Requests, each with a batch for one or more partitions."""
        plan = []
        sequences = dict(self._incarnation.sequences)
        for _ in range(request_count):
            chosen = self._rng.sample(
                self._partitions, self._rng.choice((1, 1, min(2, len(self._partitions))))
            )
            if self._brief and self._rng.random() < 0.3:
                chosen.append(self._brief[-1])
            batches = []
            for partition in chosen:
                record_count = self._rng.choice((1, 1, 2, 3))
                first = numbers.get(partition, 0)
                numbers[partition] = first + record_count
                labels = tuple(
                    f"{attempt}/{partition}/{number}"
                    for number in range(first, first + record_count)
                )
                batches.append(Batch(partition, sequences.get(partition, 0), labels))
                sequences[partition] = sequences.get(partition, 0) + record_count
            plan.append(batches)
        return plan

    async def _send_all(self, attempt: str, plan: list[list[Batch]]) -> int:
        """Up to five in flight, in order; all that is unanswered again on the next connection."""
        incarnation = self._incarnation
        for batches in plan:
            for batch in batches:
                batch.content = self._encoded(batch)
                incarnation.sequences[batch.partition] = batch.sequence + len(batch.labels)
                self._last[batch.partition] = batch
                self._history.note(Written(attempt, batch.partition, batch.labels))
        parts = self._by_lane(plan)
        if len(parts) == 1:
            return await self._send_part(attempt, parts[0])
        start = self._client.process.start
        sending = [start(self._send_part(attempt, each)) for each in parts]
        codes = [await each for each in sending]
        return next((code for code in codes if code), 0)

    def _by_lane(self, plan: list[list[Batch]]) -> list[list[list[Batch]]]:
        """For each lane what it is to be asked, in the order of the plan."""
        lane_of = self._client.surroundings.hosts.lane_of
        parts: dict[int, list[list[Batch]]] = {}
        for batches in plan:
            of_lane: dict[int, list[Batch]] = {}
            for batch in batches:
                of_lane.setdefault(lane_of(batch.partition), []).append(batch)
            for lane, some in of_lane.items():
                parts.setdefault(lane, []).append(some)
        return list(parts.values())

    async def _send_part(self, attempt: str, plan: list[list[Batch]]) -> int:
        """What lies in one lane."""
        incarnation = self._incarnation
        left = deque(plan)
        about = plan[0][0].partition
        code = 0
        for _ in range(self._rng.choice((1, 4, 40))):
            code = GAVE_UP
            connection = await incarnation.connection(about)
            try:
                code = await self._pipeline(attempt, connection, left)
                break
            except Lost as why:
                incarnation.lost(about, connection, why)
                await self._client.back_off()
        self._is_in_doubt |= bool(left)
        for batches in reversed(left):
            for batch in batches:
                # What was not acknowledged keeps no sequence: the next batch takes it.
                incarnation.sequences[batch.partition] = batch.sequence
        return code

    async def _pipeline(
        self, attempt: str, connection: Connection, left: deque[list[Batch]]
    ) -> int:
        incarnation = self._incarnation
        unsent = deque(left)
        in_flight: deque[asyncio.Future[Reply]] = deque()
        versions = incarnation.dialect.produce
        while left:
            while unsent and len(in_flight) < IN_FLIGHT_MAX:
                await self._client.breathe()
                request = request_of(
                    ACKS_ALL, [(batch.partition, batch.content) for batch in unsent.popleft()]
                )
                request.transactional_id = incarnation.transactional_id
                in_flight.append(
                    connection.send(
                        produce, request, version_min=versions.least, version_max=versions.most
                    )
                )
            reply = await connection.wait(in_flight.popleft(), max(0.1, incarnation.patience_s))
            for batch in left[0]:
                code, base_offset = outcomes(reply.message)[batch.partition]
                if code in AGAIN:
                    raise Lost
                if code:
                    self._check_refusal(attempt, code)
                    return code
                self._history.note(
                    WriteAcknowledged(
                        reply.span, attempt, batch.partition, base_offset, len(batch.labels)
                    )
                )
            left.popleft()
        return 0

    def _check_refusal(self, attempt: str, code: int) -> None:
        # A TV1 client may meet its own past under the same epoch; under TV2 there is none.
        others = [UnknownTopicOrPartition.code]
        if self._incarnation.is_tv1:
            others.append(OutOfOrderSequence.code)
        self._incarnation.expect(attempt, "Produce", code, *others)

    def _encoded(self, batch: Batch) -> bytes:
        return encode_batch(
            self._contents(self._client, batch.partition, batch.labels),
            compression=self._rng.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=self._incarnation.producer_id,
            producer_epoch=self._incarnation.producer_epoch,
            base_sequence=batch.sequence,
            is_transactional=True,
        )

    # Tasks of which one knows nothing of the other

    async def _be_reckless(self, attempt: str, added: set[TopicPartition]) -> int:
        """Seldom write something that its end does not wait for, or that must not be committed."""
        incarnation = self._incarnation
        if self._rng.random() < STRAY_SHARE and not incarnation.is_tv1:
            partition = self._rng.choice(self._elsewhere() or self._partitions)
            batch = Batch(
                partition,
                incarnation.sequences.get(partition, 0),
                (f"{attempt}/{partition}/stray",),
            )
            self._history.note(Strayed(attempt, partition, batch.labels))
            self._client.process.start(self._stray(batch, self._request_of(batch)))
            await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.02)))
        elif self._rng.random() < TWICE_SHARE and self._last:
            before = self._last[self._rng.choice(list(self._last))]
            labels = tuple(f"{label}-again" for label in before.labels)
            await self._write_twice(attempt, Batch(before.partition, before.sequence, labels))
        return 0

    def _elsewhere(self) -> list[TopicPartition]:
        """In lanes that the attempt has not written to."""
        lane_of = self._client.surroundings.hosts.lane_of
        joined = {lane_of(each) for each in self._last}
        return [each for each in self._partitions if lane_of(each) not in joined]

    def _request_of(self, batch: Batch) -> produce.ProduceRequest:
        request = request_of(ACKS_ALL, [(batch.partition, self._encoded(batch))])
        request.transactional_id = self._incarnation.transactional_id
        return request

    async def _stray(self, batch: Batch, request: produce.ProduceRequest) -> None:
        """Whatever becomes of it."""
        versions = self._incarnation.dialect.produce
        connection = await self._client.connect(batch.partition)
        with contextlib.suppress(Lost):
            await connection.ask(
                produce, request, version_min=versions.least, version_max=versions.most
            )
        connection.drop()

    async def _write_twice(self, attempt: str, batch: Batch) -> None:
        """Under sequences that stand for other records. If they are taken, or refused for that,
        both are a part of the transaction, or it cannot be committed."""
        incarnation = self._incarnation
        versions = incarnation.dialect.produce
        reply = await incarnation.ask(
            batch.partition, produce, self._request_of(batch), versions, tries=1
        )
        if reply is None:
            return
        code, _ = outcomes(reply.message)[batch.partition]
        # It is another task that has heard of it, and this one goes on to commit.
        if code in (0, TransactionAbortable.code):
            self._history.note(Written(attempt, batch.partition, batch.labels))

    # Its end

    async def _commit(self, attempt: str) -> int:
        """0, or the refusal that says that it was aborted. Raises Fatal if that is not known."""
        incarnation = self._incarnation
        self._history.note(CommitSent(self._client.now_s(), attempt))
        request = incarnation.end_request(commit=True)
        for try_count in range(1, COMMIT_TRIES_MAX):
            reply = await incarnation.ask(
                incarnation.coordinator, end_txn, request, incarnation.dialect.end, tries=1
            )
            if reply is None:
                continue
            code: int = reply.message.error_code
            if code in AGAIN:
                await self._client.back_off()
                continue
            incarnation.expect(attempt, "EndTxn(commit)", code)
            if code == 0:
                self._history.note(Ended(reply.span, attempt, Outcome.COMMITTED))
                if not incarnation.is_tv1:
                    incarnation.adopt(reply)
            elif code in FENCED and try_count > 1:
                raise Fatal
            return code
        raise Fatal

    async def _abort(self, attempt: str, code: int, *, began: bool) -> None:
        incarnation, habits = self._incarnation, self._habits
        if code in FENCED and (not incarnation.is_tv1 or self._rng.random() < 0.5):
            raise Fatal
        is_lost = incarnation.is_tv1 and code == incarnation.dialect.abortable
        if is_lost and habits.aborts_by_init:
            await incarnation.initialise(named=True)
            return
        if began and code not in FENCED:
            request = incarnation.end_request(commit=False)
            reply = await incarnation.insist(
                incarnation.coordinator, end_txn, request, incarnation.dialect.end
            )
            answer: int = reply.message.error_code
            if is_lost and answer == code and reply.version <= END_TXN_VERSION_OF_LIBRDKAFKA:
                # It hears so once after AddOffsetsToTxn, as it asks for a new epoch only then.
                await incarnation.initialise(named=True)
                return
            if answer and (answer not in FENCED or not incarnation.is_tv1):
                if answer not in FENCED:
                    incarnation.complain(attempt, "EndTxn(abort)", answer)
                raise Fatal
            if not incarnation.is_tv1:
                incarnation.adopt(reply)
            code = answer or code
        if not incarnation.is_tv1:
            return
        is_disturbed = is_lost or code in FENCED or code == OutOfOrderSequence.code
        if is_disturbed or (self._is_in_doubt and habits.bumps_after_doubt):
            await incarnation.initialise(named=True)
