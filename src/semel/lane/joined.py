"""What a lane keeps of transactions whose coordinator is in another lane, or that others take part
in: those that are open here, how the last one of each producer ended, and what was decided here and
has not been confirmed by all.

Law: at most one transaction of a producer is open here. It is ended by what names its key, and by a
new term if it is not prepared.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

import msgspec

from semel.lane import facts
from semel.lane.calls import Outcome
from semel.transactions.key import TransactionKey, Turn
from semel.transactions.participants import NOBODY, participants
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition


class JoinedTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A value: what happens gives another."""

    key: TransactionKey
    transactional_id: str
    partitions: Set[TopicPartition] = NOBODY
    """Of this lane, those with data, and those of `__consumer_offsets` with pending offsets."""
    is_prepared: bool = False
    """All that was written here is sure to stay, and nothing more is."""
    is_doomed: bool = False
    """It must not be committed, which is for the coordinator to hear when it asks."""


class LastEnded(msgspec.Struct, frozen=True, array_like=True):
    """What is remembered of a producer once nothing of it is open."""

    turn: Turn
    """Of the last that has ended."""
    committed: TransactionKey | None
    """The last that was committed, which may be an earlier one: a coordinator that has lost its
    completion asks again, and is to hear what it has heard before."""
    ended_ms: int


def outcomes_of(decided: facts.Decided) -> Iterator[tuple[int, Outcome]]:
    """What each lane is to be told that has not confirmed it."""
    for lane, term in decided.lanes:
        yield (
            lane,
            Outcome(
                decided.key,
                decided.commit,
                ProducerEpoch(decided.producer_epoch),
                Term(decided.coordinator_epoch),
                Term(term),
            ),
        )


class Inherited(NamedTuple):
    """A transaction that was prepared, and not ended, when this process opened the lane. The one
    before may have known its outcome and shown what was committed."""

    key: TransactionKey
    partitions: Set[TopicPartition]


class JoinedTransactions:
    def __init__(self, owed: Callable[[JoinedTransaction], int] = lambda joined: 0) -> None:
        """`owed` tells how many bytes the frames take at most that end one."""
        self._owed = owed
        self.owed_size = 0
        self.prepared_count = 0
        self.open: dict[ProducerId, JoinedTransaction] = {}
        self.ended: dict[ProducerId, LastEnded] = {}
        self.decided: dict[TransactionKey, facts.Decided] = {}
        """By this lane's coordinator; with those lanes that have not confirmed it."""
        self._decided_of: dict[ProducerId, dict[TransactionKey, None]] = {}
        """The same by producer."""
        self._unheard_aborts: Counter[ProducerId] = Counter()
        """How many of these are aborts."""
        self.inherited: list[Inherited] = []
        """Volatile: what is still prepared of it makes ends uncertain."""

    # Coordinators

    def unconfirmed(self, producer_id: ProducerId) -> Iterator[facts.Decided]:
        """What other lanes may still hold of this producer."""
        for key in self._decided_of.get(producer_id, ()):
            yield self.decided[key]

    def has_unheard_abort(self, producer_id: ProducerId) -> bool:
        return producer_id in self._unheard_aborts

    # Applying

    def apply(self, fact: facts.AboutLanes, now_ms: int) -> None:
        match fact:
            case facts.LaneJoined():
                joined = self._of(fact.key, fact.transactional_id)
                both = participants(joined.partitions).joined(
                    TopicPartition(*each) for each in fact.partitions
                )
                self._put(msgspec.structs.replace(joined, partitions=both))
            case facts.Prepared():
                joined = self._of(fact.key, fact.transactional_id)
                self._put(msgspec.structs.replace(joined, is_prepared=True))
            case facts.Doomed():
                joined = self._of(fact.key, fact.transactional_id)
                self._put(msgspec.structs.replace(joined, is_doomed=True))
            case facts.Ended():
                self._end(fact, now_ms)
            case facts.Decided():
                self._decide(fact)
            case facts.Confirmed():
                for key in fact.keys:
                    self._confirm(key, fact.lane)
            case facts.EndsForgotten():
                for producer_id in fact.producer_ids:
                    self.ended.pop(ProducerId(producer_id), None)

    def _of(self, key: TransactionKey, transactional_id: str) -> JoinedTransaction:
        joined = self.open.get(key.producer_id)
        if joined is None:
            return JoinedTransaction(key, transactional_id)
        assert joined.key == key, (joined, key)
        return joined

    def _put(self, joined: JoinedTransaction) -> None:
        self._drop(joined.key.producer_id)
        self.open[joined.key.producer_id] = joined
        self.prepared_count += joined.is_prepared
        self.owed_size += self._owed(joined)

    def _drop(self, producer_id: ProducerId) -> None:
        before = self.open.pop(producer_id, None)
        if before is not None:
            self.owed_size -= self._owed(before)
            self.prepared_count -= before.is_prepared

    def _end(self, fact: facts.Ended, now_ms: int) -> None:
        key = fact.key
        self._drop(key.producer_id)
        last = self.ended.get(key.producer_id)
        committed = key if fact.commit else None
        if committed is None and last is not None:
            # Its own abort of a later one says nothing about the completion of this.
            committed = last.committed
        self.ended[key.producer_id] = LastEnded(key.turn, committed, now_ms)

    def _decide(self, fact: facts.Decided) -> None:
        if fact.key not in self.decided:
            self._decided_of.setdefault(fact.key.producer_id, {})[fact.key] = None
            if not fact.commit:
                self._unheard_aborts[fact.key.producer_id] += 1
        self.decided[fact.key] = fact

    def _confirm(self, key: TransactionKey, lane: int) -> None:
        decided = self.decided.get(key)
        if decided is None:
            return
        left = tuple(each for each in decided.lanes if each[0] != lane)
        if left:
            self.decided[key] = msgspec.structs.replace(decided, lanes=left)
            return
        del self.decided[key]
        if not decided.commit:
            self._unheard_aborts[key.producer_id] -= 1
            if not self._unheard_aborts[key.producer_id]:
                del self._unheard_aborts[key.producer_id]
        of_producer = self._decided_of[key.producer_id]
        del of_producer[key]
        if not of_producer:
            del self._decided_of[key.producer_id]

    def forget_topic(self, name: str) -> None:
        """Partitions of a deleted topic take part no more: they need no markers."""
        for joined in list(self.open.values()):
            both = participants(joined.partitions)
            if both.has_topic(name):
                self._put(msgspec.structs.replace(joined, partitions=both.without(name)))

    def restore(
        self,
        joined: Iterable[JoinedTransaction],
        ended: Iterable[tuple[int, LastEnded]],
        decided: Iterable[facts.Decided],
    ) -> None:
        for each in joined:
            taking_part = participants(each.partitions)
            self._put(msgspec.structs.replace(each, partitions=taking_part))
        self.ended.update((ProducerId(producer_id), last) for producer_id, last in ended)
        for fact in decided:
            self._decide(fact)
