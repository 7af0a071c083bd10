"""Which lanes a cluster has, where each is to be led, and who leads it: a state machine of its own,
which lives in lane 0. Law: it changes only when a fact is applied.

Lane 0 is not placed: who leads it is said in it as `Led`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, assert_never

from semel.lane import facts
from semel.lane.leader import LedBy
from semel.types import Term

LaneFact = facts.LanesAdded | facts.Placed | facts.LaneTaken


class Placement(NamedTuple):
    node_id: int
    is_pinned: bool = False
    """By hand: it moves only if its node goes."""


class LanesView(Protocol):
    @property
    def count(self) -> int:
        """Lane 0 among them."""

    @property
    def placed(self) -> Mapping[int, Placement]:
        """By the numbers of lanes. Only this node fences a lane."""

    @property
    def taken(self) -> Mapping[int, LedBy]:
        """Who has said last that it leads a lane. It may have gone since."""


class Lanes:
    def __init__(self) -> None:
        self.count = 1
        self.placed: dict[int, Placement] = {}
        self.taken: dict[int, LedBy] = {}

    def apply(self, fact: LaneFact) -> None:
        match fact:
            case facts.LanesAdded():
                self.count = max(self.count, fact.lane_count)
            case facts.Placed():
                self.placed[fact.lane] = Placement(fact.node_id, fact.is_pinned)
            case facts.LaneTaken():
                known = self.taken.get(fact.lane)
                if known is None or known.epoch <= fact.epoch:
                    self.taken[fact.lane] = LedBy(
                        Term(fact.epoch), fact.node_id, fact.host, fact.port
                    )
            case _:
                assert_never(fact)

    # In a checkpoint.

    def stored_placements(self) -> tuple[tuple[int, int, bool], ...]:
        return tuple((lane, *each) for lane, each in sorted(self.placed.items()))

    def stored_leaders(self) -> tuple[tuple[int, int, int, str, int], ...]:
        return tuple((lane, *each) for lane, each in sorted(self.taken.items()))

    def restore(
        self,
        count: int,
        placed: Iterable[tuple[int, int, bool]],
        taken: Iterable[tuple[int, int, int, str, int]],
    ) -> None:
        self.count = count
        self.placed = {lane: Placement(node_id, pinned) for lane, node_id, pinned in placed}
        self.taken = {
            lane: LedBy(Term(epoch), node_id, host, port)
            for lane, epoch, node_id, host, port in taken
        }
