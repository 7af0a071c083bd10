"""The transactional ids of a lane as their values leave them.

`apply` is the only change that lasts. What else is kept here is an index over the values: by
producer id, those that are open, what their ends will take, and when the next of them is overdue.

Law: what ends by time does so by the lane's time and never by what a value says of its times,
which are those of a clock that can be set. Timers are volatile and start anew with the process.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from semel.arrivals import Arrivals
from semel.deadlines import Deadlines
from semel.transactions.participants import participants
from semel.transactions.transaction import Status, Transaction, TransactionsSnapshot
from semel.types import ProducerId, TransactionalId


class Kept:
    """What there is of one transactional id."""

    __slots__ = ("changed_ms", "number", "value")

    def __init__(self, value: Transaction, changed_ms: int) -> None:
        self.value = value
        self.changed_ms = changed_ms
        """When it was given its value."""
        self.number = -1
        """In the order in which ids came."""


class Transactions:
    def __init__(self, ending_size: Callable[[Transaction], int] = lambda value: 0) -> None:
        """`ending_size` tells how many bytes the end of an open transaction takes at most."""
        self.owed_size = 0
        """Bytes of the ends of all that are open."""
        self._ending_size = ending_size
        self._owed: dict[TransactionalId, int] = {}
        self.arrivals = Arrivals[Kept]()
        self.issued: list[TransactionalId] | None = None
        """Whose epochs were issued since somebody took note of it; None: nobody does."""
        self.before_change: Callable[[Kept], None] | None = None
        """Told of what is kept of an id before it changes or goes."""
        self._by_id: dict[TransactionalId, Kept] = {}
        self._by_producer_id: dict[ProducerId, Transaction] = {}
        self._open: dict[TransactionalId, Transaction] = {}
        self._deadline_ms: dict[TransactionalId, int] = {}
        """Of those that are ONGOING."""
        self._deadlines = Deadlines[TransactionalId]()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Transaction]:
        """All, as they are when their turns come: others may come and go meanwhile."""
        for _, kept in self.arrivals.walk():
            yield kept.value

    def get(self, transactional_id: TransactionalId) -> Transaction | None:
        kept = self._by_id.get(transactional_id)
        return None if kept is None else kept.value

    def of_producer(self, producer_id: ProducerId) -> Transaction | None:
        return self._by_producer_id.get(producer_id)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def open(self) -> tuple[Transaction, ...]:
        """Those that are ongoing or prepared, the longest unchanged ones not necessarily first."""
        return tuple(self._open.values())

    def owed_by(self, transactional_id: TransactionalId) -> int:
        """Bytes of the end of its transaction; 0 if none is open."""
        return self._owed.get(transactional_id, 0)

    def apply(self, value: Transaction, now_ms: int) -> None:
        """Believe one record of the log: the newest value of a transactional id wins."""
        transactional_id = value.transactional_id
        kept = self._by_id.get(transactional_id)
        if kept is not None:
            if self.before_change is not None:
                self.before_change(kept)
            if kept.value.producer_id != value.producer_id:
                self._by_producer_id.pop(kept.value.producer_id, None)
        self.owed_size -= self._owed.pop(transactional_id, 0)
        if value.status is Status.DEAD:
            if kept is not None:
                del self._by_id[transactional_id]
                self.arrivals.remove(kept.number)
            self._open.pop(transactional_id, None)
            return
        if kept is None:
            kept = self._by_id[transactional_id] = Kept(value, now_ms)
            kept.number = self.arrivals.add(kept)
            is_issued = True
        else:
            before = kept.value
            is_issued = (before.producer_epoch, before.producer_id) != (
                value.producer_epoch,
                value.producer_id,
            )
            kept.value = value
            kept.changed_ms = now_ms
        if is_issued and self.issued is not None:
            self.issued.append(transactional_id)
        self._by_producer_id[value.producer_id] = value
        if value.is_open:
            self._open[transactional_id] = value
            owed = self._owed[transactional_id] = self._ending_size(value)
            self.owed_size += owed
        else:
            self._open.pop(transactional_id, None)
        if value.status is not Status.ONGOING:
            self._deadline_ms.pop(transactional_id, None)
        elif transactional_id not in self._deadline_ms:
            self._start_timer(value, now_ms)

    def _start_timer(self, value: Transaction, now_ms: int) -> None:
        deadline_ms = now_ms + value.timeout_ms
        self._deadline_ms[value.transactional_id] = deadline_ms
        self._deadlines.schedule(value.transactional_id, deadline_ms)

    def start_timers(self, now_ms: int) -> None:
        """All values are applied: each transaction that is open gets its full timeout again."""
        self._deadline_ms.clear()
        self._deadlines = Deadlines[TransactionalId]()
        for value in self._open.values():
            if value.status is Status.ONGOING:
                self._start_timer(value, now_ms)

    def overdue(self, now_ms: int, count_max: int) -> list[TransactionalId]:
        """Those whose timer has rung, so many at most; named again until they have ended."""
        named: list[TransactionalId] = []
        while len(named) < count_max:
            transactional_id = self._deadlines.due(now_ms)
            if transactional_id is None:
                break
            self._deadlines.take(transactional_id)
            deadline_ms = self._deadline_ms.get(transactional_id)
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                named.append(transactional_id)
            else:
                self._deadlines.schedule(transactional_id, deadline_ms)
        for transactional_id in named:
            self._deadlines.schedule(transactional_id, self._deadline_ms[transactional_id])
        return named

    def next_deadline_ms(self) -> int | None:
        """When `overdue` is worth asking again; it may be too early, never too late."""
        return self._deadlines.next_ms()

    def idle_since(self, before_ms: int, looked_at_max: int) -> Iterator[TransactionalId | None]:
        """Ids without an open transaction that nothing has changed since.

        None whenever so many were looked at: ids may come and go then.
        """
        for count, (_, kept) in enumerate(self.arrivals.walk(), 1):
            if not kept.value.is_open and kept.changed_ms <= before_ms:
                yield kept.value.transactional_id
            if count % looked_at_max == 0:
                yield None

    def snapshot(self) -> TransactionsSnapshot:
        all_kept = [kept for _, kept in self.arrivals.walk()]
        return TransactionsSnapshot(
            tuple(kept.value for kept in all_kept), tuple(kept.changed_ms for kept in all_kept)
        )

    def restore(self, snapshot: TransactionsSnapshot) -> None:
        self.arrivals = Arrivals[Kept]()
        self._by_id.clear()
        self._by_producer_id.clear()
        self._open.clear()
        self._deadline_ms.clear()
        self._owed.clear()
        self.owed_size = 0
        self._deadlines = Deadlines[TransactionalId]()
        changed_ms = snapshot.changed_ms
        if changed_ms is None:
            changed_ms = tuple(value.last_update_ms for value in snapshot.values)
        for value, now_ms in zip(snapshot.values, changed_ms, strict=True):
            taking_part = participants(value.partitions)
            self.apply(replace(value, partitions=taking_part), now_ms)
