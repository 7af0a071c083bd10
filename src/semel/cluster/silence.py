"""When a node may try to lead: pure, of what it has seen.

Only silence that was seen by successful reads counts (rule 33). Whoever tries for no good reason
harms nobody's records, as the fence decides, but costs the leader its epoch.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

NEVER_LED: Final = -1
RANK_COUNT: Final = 4
RANK_MAX: Final = 9
"""However many nodes there are: one has taken over a second behind the detection time."""
RANK_S: Final = 0.1
"""By so much a node waits longer than the one of the rank before it, if the detection time is a
second or more: as a rule one tries, and the others hear of it."""
SEALED_RANK_S: Final = 0.05
"""The same where the leader has said that it goes."""


class Seen(NamedTuple):
    """What a standby has read last."""

    epoch: int
    is_sealed: bool
    """The leader has gone, in order…"""
    successor: int | None
    """…and has named this node."""


class Timing(NamedTuple):
    """What was chosen, and what follows from the detection time."""

    detection_s: float
    flush_interval_ms: int = 100
    """What nobody waits for is stored after it."""
    linger_ms: int = 0
    """So long what somebody waits for is held back, for more to come with it."""

    @property
    def beat_s(self) -> float:
        """A leader says something at least so often."""
        return self.detection_s / 3

    @property
    def doubt_s(self) -> float:
        """Behind so much silence clients are no longer sent to the leader. Told of none they ask
        again soon; told of one that is gone they knock there, ever more seldom, and hear late of
        the next."""
        return self.detection_s / 2

    @property
    def look_s(self) -> float:
        """A standby looks so often, so that silence is noticed soon behind the detection time."""
        return self.detection_s / 16

    def silence_s(self, seen: Seen, node_id: int, standing_by: Sequence[int] = ()) -> float:
        """How long nothing must have been said before this node tries to lead.

        Ranks come from the places among those that the leader has named last, `standing_by`. Who is
        not among them comes behind, by its id: two may have the same rank, and then the fence
        decides which of them it is.
        """
        if node_id in standing_by:
            rank = sorted(standing_by).index(node_id)
        else:
            rank = len(standing_by) + node_id % RANK_COUNT
        rank = min(rank, RANK_MAX)
        if seen.epoch == NEVER_LED:
            return rank * SEALED_RANK_S
        if seen.is_sealed and seen.successor in (None, node_id):
            return 0.0 if seen.successor == node_id else rank * SEALED_RANK_S
        return self.detection_s + rank * RANK_S * min(1.0, self.detection_s)
