"""What tests of the broker may look at that nobody else may: a lane's state and its journal."""

from semel.broker.broker import Broker
from semel.journal.file.journal import FileJournal
from semel.lane.commands import Claim
from semel.lane.facts import AnyFact
from semel.lane.frame import Frame
from semel.lane.lane import Lane
from semel.lane.state import LaneState


def state_of(broker: Broker) -> LaneState:
    return broker.controller._state


def journal_of(broker: Broker) -> FileJournal:
    return broker.journals[0]


def say(lane: Lane, fact: AnyFact, claim: Claim = Claim.ORDINARY) -> None:
    """Append a fact that no command would."""
    frame = Frame(lane._clock.moment())
    frame.add_fact(fact)
    lane._append(frame, claim)
