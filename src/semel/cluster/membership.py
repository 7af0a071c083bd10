"""Who is alive, as the leader hears: pure, of the beats that came and of the time.

    A node lives if it was heard of within the detection time. One of two processes with the same
    id is refused: the newer one, as soon as the older one was heard of again behind it.

A process that was killed and is back sooner than that must not be taken for a second one. It comes
from the same address, where only one can listen; or it is told to wait until the older one has
spoken, or has been silent for the detection time.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from semel.cluster.levels import LEVELS, Levels
from semel.cluster.messages import About, Beat, LedLane, Trouble
from semel.errors import SemelError
from semel.lane.leader import NO_LISTENERS, Listeners, NodeAddress

UNHEARD: Final = b""
SLOTS_BEHIND_MAX: Final = 512
"""A node that has more to read is not ready to lead."""


class NodeRefused(SemelError):
    """A node that may not take part; the message says why."""

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(reason)
        self.is_final = is_final
        """Nothing that time could change."""


class Known(NamedTuple):
    address: NodeAddress
    incarnation: bytes
    """Unheard: it was named by the leader before."""
    heard_s: float
    slots_behind: int = 0
    """What it had not read yet when it was heard of."""
    is_drained: bool = False
    about: About = About()
    levels: Levels = LEVELS
    is_leaving: bool = False
    worked_in: int = 0
    """The slot of lane 0 up to which the lanes that it leads are in line with the topics."""
    lanes: tuple[LedLane, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    listeners: Listeners = ()


class _Newcomer(NamedTuple):
    incarnation: bytes
    since_s: float


class Membership:
    """As long as one leader leads."""

    def __init__(
        self,
        own: NodeAddress,
        standing_by: Iterable[NodeAddress],
        detection_s: float,
        now_s: float,
        listeners: Mapping[int, Listeners] = NO_LISTENERS,
    ) -> None:
        """Those that stood by under the leader before have the detection time to be heard of."""
        self._own = own
        self._detection_s = detection_s
        self._looked_s = now_s
        self._known = {
            node.node_id: Known(node, UNHEARD, now_s, listeners=listeners.get(node.node_id, ()))
            for node in standing_by
            if node.node_id != own.node_id
        }
        self._newcomers: dict[int, _Newcomer] = {}
        self._replaced: dict[int, bytes] = {}
        """The incarnation before, of each node that came back."""

    def heard(self, beat: Beat, now_s: float, slot: int = 0) -> None:
        """The leader will write `slot` next. Raises NodeRefused."""
        self._look(now_s)
        node_id, incarnation = beat.node_id, beat.incarnation
        if node_id == self._own.node_id:
            raise NodeRefused(
                f"node {node_id} is another process, which leads, at "
                f"{self._own.host}:{self._own.port}: give this one an id of its own",
                is_final=True,
            )
        address = NodeAddress(node_id, beat.host, beat.port)
        known = self._known.get(node_id)
        if known is not None and known.incarnation not in (UNHEARD, incarnation):
            if incarnation == self._replaced.get(node_id):
                raise NodeRefused(_twice(known), is_final=True)
            if known.address != address:
                self._check_gone(known, incarnation, now_s)
            self._replaced[node_id] = known.incarnation
        newcomer = self._newcomers.get(node_id)
        if newcomer is not None and newcomer.incarnation == incarnation:
            del self._newcomers[node_id]
        self._known[node_id] = Known(
            address,
            incarnation,
            now_s,
            max(0, slot - beat.slot),
            beat.is_drained,
            beat.about,
            Levels(*beat.levels),
            beat.is_leaving,
            beat.worked_in,
            tuple(beat.lanes),
            tuple(beat.troubles),
            tuple(beat.listeners),
        )

    def gone(self, node_id: int, incarnation: bytes) -> None:
        """This process says itself that it goes."""
        known = self._known.get(node_id)
        if known is not None and known.incarnation == incarnation:
            del self._known[node_id]

    def successors(self, now_s: float) -> list[NodeAddress]:
        """Whom to hand over to, the best first. Who has much to read yet would let clients wait."""
        able = [
            known for known in self.all_live(now_s) if not (known.is_drained or known.is_leaving)
        ]
        able.sort(key=lambda known: known.slots_behind > SLOTS_BEHIND_MAX)
        return [known.address for known in able]

    def _check_gone(self, known: Known, incarnation: bytes, now_s: float) -> None:
        """Raises NodeRefused if the process that has this id may be alive."""
        node_id = known.address.node_id
        newcomer = self._newcomers.get(node_id)
        if newcomer is None or newcomer.incarnation != incarnation:
            newcomer = self._newcomers[node_id] = _Newcomer(incarnation, now_s)
        if known.heard_s > newcomer.since_s:
            raise NodeRefused(_twice(known), is_final=True)
        if now_s - known.heard_s < self._detection_s:
            raise NodeRefused(f"{_twice(known)}, unless it is gone by now", is_final=False)

    def worked_in(self, node_id: int, now_s: float) -> int | None:
        """None if the node does not live."""
        self._look(now_s)
        known = self._known.get(node_id)
        if known is None or now_s - known.heard_s >= self._detection_s:
            return None
        return known.worked_in

    def live(self, now_s: float) -> list[NodeAddress]:
        """By their ids, without the leader."""
        return [known.address for known in self.all_live(now_s)]

    def listeners(self, now_s: float) -> dict[int, Listeners]:
        """Where clients find those that live."""
        return {known.address.node_id: known.listeners for known in self.all_live(now_s)}

    def all_live(self, now_s: float) -> list[Known]:
        self._look(now_s)
        for node_id, known in list(self._known.items()):
            if now_s - known.heard_s >= self._detection_s:
                del self._known[node_id]
                self._newcomers.pop(node_id, None)
        return [self._known[node_id] for node_id in sorted(self._known)]

    def _look(self, now_s: float) -> None:
        """A leader that was frozen has heard nobody meanwhile: that counts against no node."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if passed_s > self._detection_s / 2:
            for node_id, known in self._known.items():
                self._known[node_id] = known._replace(heard_s=known.heard_s + passed_s)
            for node_id, newcomer in self._newcomers.items():
                since_s = newcomer.since_s + passed_s
                self._newcomers[node_id] = newcomer._replace(since_s=since_s)


def _twice(known: Known) -> str:
    _, host, port = known.address
    return (
        f"node {known.address.node_id} is another process already, at {host}:{port}: "
        f"give this one an id of its own"
    )
