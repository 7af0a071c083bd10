"""Opening a lane: from the journal back to the state, and the frame by which a term begins."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from semel.errors import CorruptJournal
from semel.groups.coordinator import Groups
from semel.journal.compacted import Compacted
from semel.journal.index import BatchIndex
from semel.journal.names import volume_base
from semel.lane import facts, restoring
from semel.lane.commands import Claim, Decided, Environment, LaneSettings
from semel.lane.frame import Frame, decode
from semel.lane.joined import Inherited, JoinedTransactions
from semel.lane.leader import Leader
from semel.lane.participating import add_end
from semel.lane.state import NO_EFFECTS, CompactedPart, Effects, LaneState
from semel.lane.transactions import add_transaction, ending_size, joined_ending_size
from semel.transactions.commands import RaiseTerm
from semel.transactions.store import Transactions
from semel.transactions.transaction import Status
from semel.types import Position, Term
from semel.world import Moment

CLUSTER_ID_SIZE = 16


def new_state(settings: LaneSettings, number: int) -> LaneState:
    """Of a journal in which nothing is said yet."""
    joined = JoinedTransactions(joined_ending_size)
    return LaneState(Groups(settings.groups), Transactions(ending_size), number, joined)


class Replayed(Protocol):
    """Where a state comes from: a journal, or whoever follows one."""

    @property
    def checkpoint(self) -> bytes | None: ...

    @property
    def index(self) -> BatchIndex: ...

    def replay(self) -> Iterator[tuple[Position, memoryview]]: ...


def rebuild(state: LaneState, journal: Replayed) -> None:
    """The checkpoint, then every frame behind it."""
    restore(state, journal)
    replay_on(state, journal)


def restore(state: LaneState, journal: Replayed) -> None:
    """From the checkpoint, if there is one."""
    if journal.checkpoint is not None:
        restoring.restore(journal.checkpoint, state)
        journal.index.settle([*map(volume_base, state.volumes)], state.settled_end)
        for number, part in state.compacted.items():
            journal.index.adopt_compacted(number, _in_index(part))


def replay_on(state: LaneState, journal: Replayed) -> None:
    """Every frame that the state does not have yet."""
    for position, payload in journal.replay():
        replay_frame(state, journal, position, payload)


def replay_frame(
    state: LaneState, journal: Replayed, position: Position, payload: memoryview
) -> None:
    try:
        frame = decode(payload, position)
        effects = state.apply(frame)
    except CorruptJournal as error:
        raise CorruptJournal(f"frame at byte {position}: {error}") from error
    index_frame(journal, state, frame, position, effects)


def show_all(state: LaneState) -> None:
    """All that was replayed is durable, and can be read, but for what was prepared over lanes."""
    state.joined.inherited = [
        Inherited(joined.key, joined.partitions)
        for joined in state.joined.open.values()
        if joined.is_prepared
    ] + [
        Inherited(current.key, current.partitions)
        for current in state.transactions.open()
        if current.status is Status.PREPARE_COMMIT and current.key is not None
    ]
    for partition in state.partitions.values():
        partition.advance_high_watermark(partition.log_end_offset)


def index_frame(
    journal: Replayed, state: LaneState, frame: Frame, position: Position, effects: Effects
) -> None:
    """Let what the frame whose payload begins there has brought be found again."""
    index = journal.index
    for batch in frame.batches:
        header = batch.header
        index.add(
            batch.number,
            batch.base_offset,
            position + batch.at,
            len(batch.body),
            header.max_timestamp_ms,
            header.last_offset_delta,
        )
    if effects is not NO_EFFECTS:
        for number, aborted in effects.aborted:
            journal.index.add_aborted(number, aborted)
        if effects.gone:
            journal.index.drop([partition.number for partition in effects.gone])
        if effects.has_settled or effects.moved_log_starts:
            _index_settled(journal, state, frame)


def _index_settled(journal: Replayed, state: LaneState, frame: Frame) -> None:
    for entry in frame.entries:
        if isinstance(entry, facts.Settled):
            journal.index.settle([*map(volume_base, state.volumes)], state.settled_end)
        elif isinstance(entry, facts.Compacted):
            for number, _, _ in entry.parts:
                journal.index.adopt_compacted(number, _in_index(state.compacted[number]))
        elif (
            isinstance(entry, facts.RecordsDeleted)
            and entry.partition_number not in state.compacted
        ):
            journal.index.forget_compacted(entry.partition_number)


def _in_index(part: CompactedPart) -> Compacted:
    return Compacted(part.end, volume_base(part.volume) if part.byte_count else None)


class BeginEpoch(NamedTuple):
    """Who leads from here on, where all that was acknowledged is there: nothing is aborted."""

    epoch: int
    leader: Leader

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        assert self.epoch > state.epoch
        frame = Frame(at)
        _add_led(frame, self.epoch, self.leader)
        return Decided(None, frame, Claim.OWED)


def _add_led(frame: Frame, epoch: int, leader: Leader) -> None:
    where = leader.host, leader.port, leader.listeners
    frame.add_fact(facts.Led(epoch, leader.node_id, *where))


class BeginTerm(NamedTuple):
    """Open transactions may have lost writes that were acknowledged before they were durable.
    They are aborted in the very frame that raises the term, here alone if their coordinator is in
    another lane."""

    epoch: int | None = None
    """Of the fence by which the journal was taken, which the term becomes (rule 17)."""
    leader: Leader | None = None

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        term = Term(state.epoch + 1 if self.epoch is None else self.epoch)
        assert term > state.epoch
        frame = Frame(at)
        frame.add_fact(facts.Opened(term))
        if self.epoch is not None and self.leader is not None:
            _add_led(frame, self.epoch, self.leader)
        if not state.cluster_id:
            named = self.leader.cluster_id if self.leader is not None else b""
            named = named or environment.randomness.token_bytes(CLUSTER_ID_SIZE)
            frame.add_fact(facts.ClusterNamed(named))
            if self.leader is not None and self.leader.level > state.level:
                # There is nobody yet whom it could shut out.
                frame.add_fact(facts.LevelRaised(self.leader.level))
            # Whoever begins a journal expects it; one that is there may hold what its owner does
            # not want to lose.
            frame.add_fact(facts.RetentionEnforced())
        for current in state.transactions.open():
            add_transaction(state, environment, frame, current, RaiseTerm(), term)
        for joined in state.joined.open.values():
            # What is prepared is sure to be whole, and its coordinator may have committed it.
            if not joined.is_prepared:
                add_end(state, frame, joined, commit=False, epoch=term)
        return Decided(None, frame, Claim.OWED)
