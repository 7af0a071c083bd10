"""Where lanes are to be led: pure, of who lives and where they are now.

    A lane stays where it is as long as its node lives and wants it. One that has to go, goes to
    whoever has the fewest. If nothing has to, and all is done that was said before, one lane at a
    time leaves a node which has at least two more than another.

Lane 0 is not placed, but counts where it is led. Of two nodes that have as few, a draw that is the
same for all who make it decides, so that lanes of a node which has gone spread over all others.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from semel.lane.lanes import Placement

LANES_MAX: Final = 1024
"""More than anybody has cores for; each costs requests of the store."""


class Candidate(NamedTuple):
    """A node that lives."""

    node_id: int
    is_drained: bool = False
    """It is to lead only what nobody else can."""
    is_leaving: bool = False
    """It is to lead nothing that anybody else can."""


class Lanes(NamedTuple):
    """As lane 0 knows them."""

    lane_count: int
    placed: Mapping[int, Placement]
    leaders: Mapping[int, int]
    """The node that has taken each lane last."""


def next_placements(
    lanes: Lanes, nodes: Collection[Candidate], controller: int, *, may_level: bool
) -> dict[int, Placement]:
    """What is to be said now, by lane; the node `controller` leads lane 0. `may_level` if lanes may
    move that need not."""
    wanted = _best(nodes)
    if not wanted:
        return {}
    loads = Counter(dict.fromkeys(wanted, 0))
    loads.update({controller: 1} if controller in wanted else {})
    homeless: list[int] = []
    for lane in range(1, lanes.lane_count):
        placed = lanes.placed.get(lane)
        if placed is not None and placed.node_id in wanted:
            loads[placed.node_id] += 1
        else:
            homeless.append(lane)
    placements: dict[int, Placement] = {}
    for lane in homeless:
        node_id = min(loads, key=lambda node_id: (loads[node_id], -draw(lane, node_id), node_id))
        placements[lane] = Placement(node_id)
        loads[node_id] += 1
    if placements or not may_level or not _is_done(lanes):
        return placements
    return _levelled(lanes, loads)


def _best(nodes: Iterable[Candidate]) -> set[int]:
    """Those that are to lead; if there are none, those that would rather not."""
    rest = [node for node in nodes if not node.is_leaving]
    able = {node.node_id for node in rest if not node.is_drained}
    return able or {node.node_id for node in rest}


def _is_done(lanes: Lanes) -> bool:
    return all(
        lanes.leaders.get(lane) == placed.node_id
        for lane, placed in lanes.placed.items()
        if lane < lanes.lane_count
    )


def _levelled(lanes: Lanes, loads: Mapping[int, int]) -> dict[int, Placement]:
    fewest = min(loads, key=lambda node_id: (loads[node_id], node_id))
    for most in sorted(loads, key=lambda node_id: (-loads[node_id], node_id)):
        if loads[most] - loads[fewest] < 2:
            return {}
        movable = [
            lane
            for lane, placed in lanes.placed.items()
            if placed.node_id == most and not placed.is_pinned and lane < lanes.lane_count
        ]
        if movable:
            lane = max(movable, key=lambda lane: (draw(lane, fewest), lane))
            return {lane: Placement(fewest)}
    return {}


def released(placed: Mapping[int, Placement]) -> dict[int, Placement]:
    """The same placements, none of them pinned by hand."""
    return {lane: Placement(each.node_id) for lane, each in placed.items() if each.is_pinned}


def draw(lane: int, node_id: int) -> int:
    """The weight of a node for a lane, as rendezvous hashing has it."""
    named = b"%d %d" % (lane, node_id)
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big")
