"""The transactional ids of a lane as their values leave them.

`apply` is the only change. What else is kept here is an index over the values: by producer id,
those that are open, and when the next of them is overdue.
"""

from collections.abc import Iterator

from semel.deadlines import Deadlines
from semel.transactions.snapshot import TransactionsSnapshot
from semel.transactions.states import Status
from semel.transactions.transaction import Transaction
from semel.types import ProducerId, TransactionalId


class Transactions:
    def __init__(self) -> None:
        self._by_id: dict[TransactionalId, Transaction] = {}
        self._by_producer_id: dict[ProducerId, Transaction] = {}
        self._open: dict[TransactionalId, Transaction] = {}
        self._deadlines = Deadlines[TransactionalId]()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def get(self, transactional_id: TransactionalId) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def of_producer(self, producer_id: ProducerId) -> Transaction | None:
        return self._by_producer_id.get(producer_id)

    def open(self) -> tuple[Transaction, ...]:
        """Those that are ongoing or prepared, the longest unchanged ones not necessarily first."""
        return tuple(self._open.values())

    def apply(self, value: Transaction) -> None:
        """Believe one record of the log: the newest value of a transactional id wins."""
        transactional_id = value.transactional_id
        before = self._by_id.get(transactional_id)
        if before is not None and before.producer_id != value.producer_id:
            self._by_producer_id.pop(before.producer_id, None)
        if value.status is Status.DEAD:
            self._by_id.pop(transactional_id, None)
            self._open.pop(transactional_id, None)
            return
        self._by_id[transactional_id] = value
        self._by_producer_id[value.producer_id] = value
        if value.is_open:
            self._open[transactional_id] = value
        else:
            self._open.pop(transactional_id, None)
        deadline_ms = value.deadline_ms
        if deadline_ms is not None:
            self._deadlines.schedule(transactional_id, deadline_ms)

    def overdue(self, now_ms: int) -> list[TransactionalId]:
        """Those whose timer has rung; they are named again until they have ended."""
        named = []
        for transactional_id in self._deadlines.take_due(now_ms):
            value = self._open.get(transactional_id)
            deadline_ms = None if value is None else value.deadline_ms
            if deadline_ms is None:
                continue
            self._deadlines.schedule(transactional_id, deadline_ms)
            if deadline_ms <= now_ms:
                named.append(transactional_id)
        return named

    def next_deadline_ms(self) -> int | None:
        """When `overdue` is worth asking again; it may be too early, never too late."""
        return self._deadlines.next_ms()

    def idle_since(self, before_ms: int) -> Iterator[TransactionalId]:
        """Ids without an open transaction that nothing has changed since; looks at all of them."""
        for transactional_id, value in self._by_id.items():
            if value.last_update_ms <= before_ms and not value.is_open:
                yield transactional_id

    def snapshot(self) -> TransactionsSnapshot:
        return TransactionsSnapshot(tuple(self._by_id.values()))

    def restore(self, snapshot: TransactionsSnapshot) -> None:
        self._by_id.clear()
        self._by_producer_id.clear()
        self._open.clear()
        self._deadlines = Deadlines[TransactionalId]()
        for value in snapshot.values:
            self.apply(value)
