"""The nodes that clients are told of: where each is found, who leads, and who coordinates.

A client that hears of a node no more may forget it in the middle of a request. librdkafka then
waits for ever for a coordinator that it still remembers by name (its issue 5511). It asks anew for
coordinators after 15 minutes, if nothing told it to before; until then a node that has gone is
named, as one that cannot be reached.

franz-go does the contrary: it asks a coordinator that takes connections and says nothing, as one
that is frozen does, for as long as that is named, and finds the next when it is not.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from semel.broker.answer import Call
from semel.broker.elsewhere import Elsewhere
from semel.broker.led_lanes import LedLanes
from semel.broker.neighbour import Advertised, Neighbour
from semel.errors import LeaderNotAvailable
from semel.lane.leader import LedBy, Listeners, NodeAddress
from semel.world import Clock

NAMED_MS: Final = 15 * 60 * 1000
TOLD_OF_THE_LIVING: Final = frozenset({"kgo"})
"""Software that is told of no other nodes, by the name that it gives itself."""

NO_CONTROLLER: Final = -1
"""What clients are told while nobody is known to lead the catalogue; they ask again."""


class KnownNode(NamedTuple):
    """Another node of the cluster."""

    address: NodeAddress
    listeners: Listeners

    def found_at(self, listener: str) -> NodeAddress | None:
        """Where clients find it that come by this listener; None if it has none of that name."""
        if not self.listeners:
            # A version that has one alone, at which other nodes find it as well.
            return self.address
        for name, host, port in self.listeners:
            if name.lower() == listener.lower():
                return NodeAddress(self.address.node_id, host, port)
        return None


class KnownNodes:
    """Those that live, and for a while those that have gone."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[KnownNode, int]] = {}

    def see(self, nodes: Iterable[KnownNode], now_ms: int) -> None:
        """These live now; a node that has come back has the address it has now."""
        for node in nodes:
            self._seen[node.address.node_id] = (node, now_ms)

    def named(self, now_ms: int) -> list[KnownNode]:
        """By their ids."""
        for node_id, (_, seen_ms) in list(self._seen.items()):
            if now_ms - seen_ms > NAMED_MS:
                del self._seen[node_id]
        return [self._seen[node_id][0] for node_id in sorted(self._seen)]


class Nodes:
    def __init__(
        self,
        own_id: int,
        advertised: Advertised,
        lanes: LedLanes,
        elsewhere: Elsewhere,
        clock: Clock,
        *,
        is_shared: bool,
        neighbours: Iterable[Neighbour] = (),
    ) -> None:
        """There are others only if the lanes are shared with them, or they are neighbours."""
        self._own_id = own_id
        self._advertised = advertised
        self._lanes = lanes
        self._elsewhere = elsewhere
        self._clock = clock
        self._is_shared = is_shared
        self._known = KnownNodes()
        self._neighbours = {each.node_id: each for each in neighbours}

    def look(self) -> None:
        """Remember who lives now, as lane 0 says it."""
        self._known.see(self._others(), self._clock.monotonic_ms())

    def address_for(self, call: Call) -> tuple[str, int]:
        """Where this client finds this node: the address it came to, unless one is advertised."""
        return _found(self._advertised, call, call.peer.listener[1])

    def live_for(self, call: Call) -> list[NodeAddress]:
        """As far as is known, by their ids."""
        return self._found(self._others(), call)

    def named_for(self, call: Call) -> list[NodeAddress]:
        """Those that live, and those that have gone a short while ago if it is well that this
        client hears of them."""
        if call.peer.software in TOLD_OF_THE_LIVING:
            return self.live_for(call)
        self.look()
        return self._found(self._known.named(self._clock.monotonic_ms()), call)

    def _found(self, others: Iterable[KnownNode], call: Call) -> list[NodeAddress]:
        """By their ids. Who has no listener of this name is not to be found by this client."""
        listener = call.caller.listener
        found = [found for each in others if (found := each.found_at(listener)) is not None]
        nodes = {node.node_id: node for node in found}
        for node_id in self._neighbours:
            nodes[node_id] = NodeAddress(node_id, *self._address_of(node_id, call))
        nodes[self._own_id] = self._own_for(call)
        return [nodes[node_id] for node_id in sorted(nodes)]

    def leader_of(self, lane: int, call: Call) -> LedBy | None:
        """Another node, which leads this lane, and where this client finds it; None if that is
        this one, or it is not known."""
        led_by = self._elsewhere.leader_of(lane)
        return None if led_by is None else self.found_by(led_by, call)

    def found_by(self, led_by: LedBy, call: Call) -> LedBy | None:
        """Where this client finds a leader; None if it cannot."""
        if led_by.node_id in self._neighbours:
            host, port = self._address_of(led_by.node_id, call)
            return led_by._replace(host=host, port=port)
        known = KnownNode(led_by.address, self._listeners.get(led_by.node_id, ()))
        found = known.found_at(call.caller.listener)
        return None if found is None else led_by._replace(host=found.host, port=found.port)

    def leads(self, lane: int, call: Call) -> NodeAddress | None:
        """The node that leads this lane, this one or another; None if that is not known."""
        if lane in self._lanes.by_number:
            return self._own_for(call)
        led_by = self.leader_of(lane, call)
        return None if led_by is None else led_by.address

    def id_of_leader(self, lane: int) -> int:
        """Raises LeaderNotAvailable while it is not known."""
        if lane in self._lanes.by_number:
            return self._own_id
        led_by = self._elsewhere.leader_of(lane)
        if led_by is None:
            raise LeaderNotAvailable(f"who leads lane {lane} is not known at the moment")
        return led_by.node_id

    def _address_of(self, node_id: int, call: Call) -> tuple[str, int]:
        """At its own port, where this client has found this machine, unless one is advertised."""
        neighbour = self._neighbours[node_id]
        return _found(neighbour.advertised, call, neighbour.port)

    @property
    def ids(self) -> set[int]:
        """Of all that live, as far as is known."""
        others = (each.address.node_id for each in self._others())
        return {self._own_id, *self._neighbours, *others}

    @property
    def controller_id(self) -> int:
        """The node to ask about topics, as far as this broker can tell."""
        if self._lanes.leads_catalogue:
            return self._own_id
        led_by = self._elsewhere.led_by
        return NO_CONTROLLER if led_by is None else led_by.node_id

    @property
    def is_leader_known(self) -> bool:
        """False if nobody can say where to ask for what is not here."""
        return bool(self._lanes.led) or self._elsewhere.led_by is not None

    def _own_for(self, call: Call) -> NodeAddress:
        return NodeAddress(self._own_id, *self.address_for(call))

    def _others(self) -> list[KnownNode]:
        """Other nodes that live; perhaps this one, too."""
        if not self._is_shared:
            return []
        led_by, listeners = self._elsewhere.led_by, self._listeners
        nodes = [*self._standing_by, *([] if led_by is None else [led_by.address])]
        return [KnownNode(node, listeners.get(node.node_id, ())) for node in nodes]

    @property
    def _listeners(self) -> Mapping[int, Listeners]:
        if self._lanes.leads_catalogue:
            return self._lanes.controller.view.listeners
        return self._elsewhere.listeners

    @property
    def _standing_by(self) -> list[NodeAddress]:
        if self._lanes.leads_catalogue:
            return self._lanes.controller.view.standing_by
        return self._elsewhere.standing_by


def _found(advertised: Advertised, call: Call, port: int) -> tuple[str, int]:
    """Where who came to a listener finds a broker; at this port if nothing is said of that."""
    host, port = advertised.get(call.caller.listener, ("", port))
    return host or call.peer.listener[0], port
