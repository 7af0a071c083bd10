"""Commands about transactions whose coordinator is in another lane.

A lane joins by the frame of a first write, under the key that the coordinator has given. Before a
commit it says whether it has all that was written; then it only waits to hear the outcome.
"""

from typing import NamedTuple

from semel.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    NotLeaderOrFollower,
    RequestError,
    SemelError,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from semel.groups.commands import UNASKED, CommitOffsets, CommitReply
from semel.lane import facts
from semel.lane.calls import Outcome
from semel.lane.commands import Claim, Decided, Environment, InternalTopic
from semel.lane.frame import Frame
from semel.lane.group_commands import offsets_batch
from semel.lane.joined import JoinedTransaction
from semel.lane.producing import Incoming, Produced
from semel.lane.state import LaneState
from semel.lane.transactions import add_markers, joined_ending_size
from semel.log.producers import SequenceReused
from semel.transactions.commands import Markers, WriteOffsets
from semel.transactions.dialect import Dialect
from semel.transactions.key import TransactionKey, Turn
from semel.transactions.participants import NOBODY, participants
from semel.transactions.transaction import offsets_partition
from semel.types import (
    OFFSETS_TOPIC,
    Offset,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)
from semel.world import Moment

NO_TURN = Turn(-1, -1)
"""Before all others."""


class MustJoin(SemelError):
    """The coordinator has to be asked first whether these may take part."""

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        super().__init__(f"{sorted(partitions)} have not joined")
        self.partitions = partitions


class MustWait(SemelError):
    """Another transaction of this producer is open here, whose outcome is on its way."""


class NotYet(SemelError):
    """Another transaction of this producer is open here, or a later one has ended. Whoever asks
    asks again, if it still can."""


class Joining(NamedTuple):
    """A write to another lane's transaction, and what its coordinator has said."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    key: TransactionKey | None = None
    """Given to this write, which was then decided again; None if nobody was asked."""
    ended: Turn = NO_TURN
    """The last of this producer that was heard to have ended, whether it was open here or not."""

    def to(self, state: LaneState, partitions: frozenset[TopicPartition]) -> JoinedTransaction:
        """The transaction that these may be written to now, as it is before they join.

        Raises MustJoin or MustWait, and refusals.
        """
        joined = state.joined.open.get(self.producer_id)
        key = self.key
        if joined is None:
            if key is None:
                raise MustJoin(partitions)
            self._check_not_ended(state, key)
            return JoinedTransaction(key, self.transactional_id, NOBODY)
        if self.producer_epoch < joined.key.producer_epoch:
            raise InvalidProducerEpoch(
                f"epoch {self.producer_epoch} is older than {joined.key.producer_epoch}"
            )
        if key is not None and key == joined.key:
            if joined.is_prepared:
                raise ended_already(self.transactional_id)
        elif (
            key is not None
            or joined.is_prepared
            or self.producer_epoch != joined.key.producer_epoch
        ):
            raise MustWait(f"{joined.key} is open")
        if joined.is_doomed:
            raise doomed(self.transactional_id)
        if key is None:
            missing = frozenset(each for each in partitions if each not in joined.partitions)
            if missing:
                raise MustJoin(missing)
        return joined

    def _check_not_ended(self, state: LaneState, key: TransactionKey) -> None:
        last = state.joined.ended.get(self.producer_id)
        turn = self.ended if last is None else max(self.ended, Turn(*last.turn))
        if key.turn <= turn:
            raise ended_already(self.transactional_id)


def ended_already(transactional_id: str) -> TransactionAbortable:
    return TransactionAbortable(
        f"the transaction of {transactional_id!r} that this belongs to has ended"
    )


def doomed(transactional_id: str) -> TransactionAbortable:
    return TransactionAbortable(
        f"the transaction of {transactional_id!r} reused sequences for other records"
    )


def _join(
    frame: Frame, joined: JoinedTransaction, partitions: frozenset[TopicPartition]
) -> JoinedTransaction:
    """As it is with them."""
    new = tuple(sorted(each for each in partitions if each not in joined.partitions))
    if not new:
        return joined
    frame.add_fact(facts.LaneJoined(joined.key, joined.transactional_id, new))
    taking_part = participants(joined.partitions).joined(new)
    return JoinedTransaction(joined.key, joined.transactional_id, taking_part)


def _owed_change(state: LaneState, after: JoinedTransaction) -> int:
    before = state.joined.open.get(after.key.producer_id)
    owed_before = 0 if before is None else joined_ending_size(before)
    return joined_ending_size(after) - owed_before


class ProduceJoined(NamedTuple):
    """Batches of different partitions that belong to another lane's transaction.

    A retry is known without asking anybody. Raises MustJoin or MustWait, which leave no trace, and
    the refusal of all of them.
    """

    joining: Joining
    dialect: Dialect
    incoming: list[Incoming]

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[Produced]:
        joining = self.joining
        producer = joining.producer_id, joining.producer_epoch
        for incoming in self.incoming:
            if (incoming.header.producer_id, incoming.header.producer_epoch) != producer:
                raise InvalidProducerIdMapping("batches of several producers in one request")
        results = self._admit(state)
        produced = Produced(at.wall_ms)
        for incoming, result in zip(self.incoming, results, strict=True):
            if isinstance(result, int):
                produced.add_duplicate(incoming)
        frame = Frame(at)
        named = frozenset(
            incoming.partition.topic_partition
            for incoming, result in zip(self.incoming, results, strict=True)
            if not isinstance(result, int | UnknownTopicOrPartition)
        )
        if not named:
            produced.results.extend(result for result in results if result is not None)
            return Decided(produced, frame)
        joined = joining.to(state, named)
        if any(isinstance(result, SequenceReused) for result in results):
            return self._doomed(state, frame, joined, results, produced)
        fresh = frozenset(
            incoming.partition.topic_partition
            for incoming, result in zip(self.incoming, results, strict=True)
            if result is None
        )
        joined = _join(frame, joined, fresh)
        for incoming, result in zip(self.incoming, results, strict=True):
            if result is not None:
                produced.results.append(result)
                continue
            partition = state.partitions[incoming.partition.number]
            produced.results.append(partition.log_end_offset)
            incoming.add_to(frame, partition, state.epoch)
        return Decided(produced, frame, owed_change=_owed_change(state, joined) if fresh else 0)

    def _admit(self, state: LaneState) -> list[Offset | RequestError | None]:
        results: list[Offset | RequestError | None] = []
        is_tv2 = self.dialect is Dialect.TV2
        for incoming in self.incoming:
            partition = state.partitions.get(incoming.partition.number)
            if partition is None:
                # While it waited for its coordinator.
                name = incoming.partition.topic_partition
                results.append(UnknownTopicOrPartition(f"{name} was deleted"))
                continue
            try:
                results.append(
                    partition.admit(incoming.header, incoming.fingerprint, begins_at_zero=is_tv2)
                )
            except RequestError as error:
                results.append(error)
        return results

    def _doomed(
        self,
        state: LaneState,
        frame: Frame,
        joined: JoinedTransaction,
        results: list[Offset | RequestError | None],
        produced: Produced,
    ) -> Decided[Produced]:
        """Nobody knows which records were meant. Its coordinator hears so before it commits."""
        refusal = doomed(joined.transactional_id)
        for result in results:
            is_told = result is None or isinstance(result, SequenceReused)
            produced.results.append(refusal if is_told or result is None else result)
        frame.add_fact(facts.Doomed(joined.key, joined.transactional_id))
        return Decided(produced, frame, Claim.ENDING, _owed_change(state, joined))


class CommitOffsetsJoined(NamedTuple):
    """Offsets of a group become pending in another lane's transaction.

    Raises as `ProduceJoined`; the group's refusals are in the reply.
    """

    joining: Joining
    written: WriteOffsets
    command: CommitOffsets

    def decide(
        self, state: LaneState, at: Moment, environment: Environment
    ) -> Decided[CommitReply]:
        assert self.command.in_transaction
        partitions = frozenset({offsets_partition(self.written.partition_index)})
        joined = self.joining.to(state, partitions)
        decided = state.groups.decide(self.command, UNASKED, at)
        ((_, reply),) = decided.replies
        assert isinstance(reply, CommitReply)
        if not decided.records:
            return Decided(reply, volatile=decided)
        frame = Frame(at)
        joined = _join(frame, joined, partitions)
        batch = offsets_batch(self.written, decided.records, at)
        topic = InternalTopic(state, OFFSETS_TOPIC, environment, frame)
        topic.add(self.written.partition_index, state.epoch, batch, decided.records)
        owed_change = _owed_change(state, joined)
        return Decided(reply, frame, owed_change=owed_change, volatile=decided)


class Vote(NamedTuple):
    """Whether all that was written here of this transaction is sure to stay.

    What is answered has to be durable first, and never changes then. Raises NotLeaderOrFollower
    or NotYet.
    """

    key: TransactionKey
    transactional_id: str
    term: Term
    """In which this lane has joined."""

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[bool]:
        key = self.key
        joined = state.joined.open.get(key.producer_id)
        last = state.joined.ended.get(key.producer_id)
        if joined is not None and joined.key == key and joined.is_prepared:
            return Decided(True)
        if last is not None and last.committed == key:
            return Decided(True)
        if state.term < self.term:
            raise NotLeaderOrFollower(f"the lane has joined in term {self.term}")
        if state.term > self.term:
            return Decided(False)
        if joined is not None and joined.key != key:
            raise NotYet(f"{joined.key} is open")
        if joined is not None and joined.is_doomed:
            return Decided(False)
        if last is not None and key.turn <= Turn(*last.turn):
            if key.turn == Turn(*last.turn):
                return Decided(False)
            raise NotYet(f"a later transaction than {key} has ended")
        frame = Frame(at)
        frame.add_fact(facts.Prepared(key, self.transactional_id))
        # Its room is owed since the lane has joined, unless nothing was written here.
        claim = Claim.ENDING if joined is None else Claim.OWED
        before = joined or JoinedTransaction(key, self.transactional_id)
        after = JoinedTransaction(key, before.transactional_id, before.partitions, is_prepared=True)
        return Decided(True, frame, claim, _owed_change(state, after))


def add_end(
    state: LaneState,
    frame: Frame,
    joined: JoinedTransaction,
    *,
    commit: bool,
    epoch: Term,
    producer_epoch: ProducerEpoch | None = None,
    coordinator_epoch: Term | None = None,
) -> None:
    """Its markers, in the partitions that have taken part here, and that it has ended."""
    key = joined.key
    markers = Markers(
        key.producer_id,
        key.producer_epoch if producer_epoch is None else producer_epoch,
        commit,
        tuple(sorted(joined.partitions)),
        key.term if coordinator_epoch is None else coordinator_epoch,
    )
    add_markers(state, frame, markers, epoch)
    frame.add_fact(facts.Ended(key, commit))


class EndJoined(NamedTuple):
    """What is open here by these keys has ended so; nothing else is touched."""

    outcomes: tuple[Outcome, ...]

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        owed_change = 0
        for outcome in self.outcomes:
            joined = state.joined.open.get(outcome.key.producer_id)
            if joined is None or joined.key != outcome.key:
                continue
            assert joined.is_prepared or not outcome.commit, f"committed unprepared: {joined}"
            owed_change -= joined_ending_size(joined)
            add_end(
                state,
                frame,
                joined,
                commit=outcome.commit,
                epoch=state.epoch,
                producer_epoch=outcome.producer_epoch,
                coordinator_epoch=outcome.coordinator_epoch,
            )
        return Decided(None, frame, Claim.OWED, owed_change)


class Confirm(NamedTuple):
    """A lane has ended these for good, so that nobody there asks for them any more."""

    lane: int
    keys: tuple[TransactionKey, ...]

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        known = tuple(key for key in self.keys if key in state.joined.decided)
        if known:
            frame.add_fact(facts.Confirmed(self.lane, known))
        return Decided(None, frame, Claim.ENDING)


class ForgetEnds(NamedTuple):
    """Of producers that are silent since `before_ms`, and whose coordinator has no use for it."""

    producer_ids: tuple[ProducerId, ...]
    before_ms: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        silent = tuple(
            producer_id
            for producer_id in self.producer_ids
            if producer_id not in state.joined.open
            and (last := state.joined.ended.get(producer_id)) is not None
            and last.ended_ms < self.before_ms
        )
        if silent:
            frame.add_fact(facts.EndsForgotten(silent))
        return Decided(None, frame, Claim.ENDING)
