"""Transactions that take their time, but less than their timeout: each must live to be committed.

A client that has lost a request goes on under another transactional id, so that nothing but the
timer can end what it has open.
"""

import asyncio
from collections.abc import Sequence
from itertools import count

from semel.records.records import Record, encode_batch
from semel.types import TopicPartition
from semel.verify.history import (
    Began,
    CommitSent,
    Ended,
    Outcome,
    TimedOut,
    WriteAcknowledged,
    Written,
)
from semel.verify.workloads.client import Client, Connection, Lost
from semel.verify.workloads.incarnation import FENCED, TV2
from semel.verify.workloads.producers import ACKS_ALL, outcomes, request_of
from semel.verify.world.loop import START_MS
from semel.wire.messages import end_txn, init_producer_id, produce

TIMEOUT_S = 1.0
ABANDONED_SHARE = 0.1


class SlowTransactions:
    def __init__(self, client: Client, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._partitions = partitions
        self._names = count()

    async def run(self) -> None:
        while True:
            connection = await self._client.connect(awaits_versions=True)
            try:
                await self._live(connection, f"{self._client.name}-{next(self._names)}")
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _live(self, connection: Connection, transactional_id: str) -> None:
        """Raises Lost when something has gone wrong, or a transaction is to be left open."""
        request = init_producer_id.InitProducerIdRequest(transactional_id, int(TIMEOUT_S * 1000))
        answer = (await connection.ask(init_producer_id, request)).message
        if answer.error_code:
            raise Lost
        given = (answer.producer_id, answer.producer_epoch)
        for number in count():
            given = await self._transact(connection, transactional_id, given, number)

    async def _transact(
        self, connection: Connection, transactional_id: str, given: tuple[int, int], number: int
    ) -> tuple[int, int]:
        """The producer id and epoch of the next one."""
        history, rng = self._client.history, self._client.rng
        attempt = f"{transactional_id}/{number}"
        history.note(Began(attempt, transactional_id, transactional_id, TV2.name))
        began_s = self._client.now_s()
        await self._write(connection, attempt, transactional_id, given)
        await asyncio.sleep(rng.uniform(0, TIMEOUT_S))
        if rng.random() < ABANDONED_SHARE:
            raise Lost
        history.note(CommitSent(self._client.now_s(), attempt))
        request = end_txn.EndTxnRequest(transactional_id, *given, True)
        reply = await connection.ask(end_txn, request, version_min=TV2.end.least)
        if reply.message.error_code in FENCED:
            history.note(TimedOut(reply.span, attempt, began_s, TIMEOUT_S))
        if reply.message.error_code:
            raise Lost
        history.note(Ended(reply.span, attempt, Outcome.COMMITTED))
        return reply.message.producer_id, reply.message.producer_epoch

    async def _write(
        self, connection: Connection, attempt: str, transactional_id: str, given: tuple[int, int]
    ) -> None:
        history = self._client.history
        partition = self._client.rng.choice(list(self._partitions))
        history.note(Written(attempt, partition, (attempt,)))
        producer_id, producer_epoch = given
        batch = encode_batch(
            [Record(None, f"{attempt} ".encode(), START_MS)],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        request = request_of(ACKS_ALL, [(partition, batch)])
        request.transactional_id = transactional_id
        reply = await connection.ask(produce, request, version_min=TV2.produce.least)
        code, base_offset = outcomes(reply.message)[partition]
        if code:
            raise Lost
        history.note(WriteAcknowledged(reply.span, attempt, partition, base_offset, 1))
