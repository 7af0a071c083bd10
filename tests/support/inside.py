"""What tests of the broker may look at that nobody else may: a lane's state and its journal."""

from collections.abc import Iterable

from semel.broker.broker import Broker
from semel.journal.file.journal import FileJournal
from semel.lane.commands import Claim
from semel.lane.facts import AnyFact
from semel.lane.frame import Frame
from semel.lane.lane import Lane
from semel.lane.opening import index_frame
from semel.lane.state import NO_EFFECTS, LaneState
from semel.log.partition import Partition
from semel.log.transactions import Aborted
from semel.records import batch as record_batch
from semel.types import Offset, Term, TopicPartition


def state_of(broker: Broker) -> LaneState:
    return broker.lanes.controller._state


def partitions_of(state: LaneState, topic: str) -> list[Partition]:
    """All that lie in the lane, made for the look if nobody asked for them before."""
    found = [state.partition(topic, i) for run in state.hosting.ranges(topic) for i in run.indexes]
    return [partition for partition in found if partition is not None]


def journal_of(broker: Broker) -> FileJournal:
    return broker.journals[0]


def say(lane: Lane, fact: AnyFact, claim: Claim = Claim.ORDINARY) -> None:
    """Append a fact that no command would."""
    frame = Frame(lane._clock.moment())
    frame.add_fact(fact)
    lane._append(frame, claim)


def store(
    broker: Broker, partition: TopicPartition, batches: Iterable[bytes], aborted: Iterable[Aborted]
) -> None:
    """Let the log go on with these batches as they are, also behind a gap and without records.

    No command writes such batches, and no replay would take them.
    """
    lane, journal = broker.lanes.controller, journal_of(broker)
    its = state_of(broker).partition(*partition)
    assert its is not None
    markers = {each.marker_offset: each for each in aborted}
    for content in batches:
        header = record_batch.read(content)
        frame = Frame(lane._clock.moment())
        frame.add_batch(
            its.number,
            Offset(header.base_offset),
            Term(header.leader_epoch),
            header,
            header.checksum,
            memoryview(content),
        )
        lane._make_room(frame.size, Claim.ORDINARY)
        position = journal.append(frame.encode(), frame.size)
        index_frame(journal, lane._state, frame, position, NO_EFFECTS)
        if header.base_offset in markers:
            journal.index.add_aborted(its.number, markers[Offset(header.base_offset)])
        its.log_end_offset = Offset(header.last_offset + 1)
        lane._note_unread(frame.batches, journal.end)
