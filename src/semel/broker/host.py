"""The broker as a node of a cluster steers it, and as a worker does."""

import math
from typing import TYPE_CHECKING

from semel.broker import log
from semel.broker.absent_catalogue import AbsentCatalogue
from semel.broker.forwarding import answer_forwarded
from semel.broker.lines import Lines
from semel.cluster.channel import Connect
from semel.cluster.hearing import Hearing
from semel.cluster.keys import KnownKey
from semel.cluster.messages import AnyAnswer, Forwarded, LaneCall
from semel.errors import JournalFull
from semel.journal.seam import Journal
from semel.lane.following import FollowedLane
from semel.lane.lane import Lane
from semel.lane.leader import Leader, LedBy
from semel.types import CATALOGUE_LANE, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from semel.world import Randomness

if TYPE_CHECKING:
    from semel.broker.broker import Broker, Shared
    from semel.cluster.desk import Desk


class BrokerHost:
    def __init__(self, broker: "Broker", randomness: Randomness, shared: "Shared | None") -> None:
        self._broker = broker
        self._randomness = randomness
        self._shared = shared
        self.node: Desk | None = None
        """Where other nodes are answered; None if there are none."""
        self._listener_of_nodes: str | None = None
        """At which they call; None if there is but one."""
        self._has_other_listeners = False
        self._heard_all_s = -math.inf
        """When it was last certain to lead lane 0, or had heard all that was said there."""

    # What is heard of lane 0

    def follow(self, followed: FollowedLane, *, is_led: bool) -> None:
        """Answer from what is followed of lane 0; `is_led` if whom it names leads it for all that
        is known."""
        broker = self._broker
        is_new = broker.elsewhere.follow(followed, is_led=is_led)
        self.spread_over(followed.lanes.count)
        changed = followed.take_changed_topics()
        broker.settings.recall_followed(followed.broker_config)
        try:
            if is_new or not broker.lanes.knows_topics:
                broker.topics.align_all(followed.catalogue)
            else:
                broker.topics.hear_of_changes(followed.catalogue, changed)
        except JournalFull as error:
            # A lane without room must not serve what is gone.
            broker.lanes.tell_of(AbsentCatalogue(), followed.access)
            log.warning("what is new of topics waits for room", reason=str(error))
        else:
            broker.lanes.tell_of(followed.catalogue, followed.access)
        broker.settings.look_at_quotas()
        broker.nodes.look()
        broker.access.look()

    @property
    def is_in_line(self) -> bool:
        """The lanes that are led here host what the catalogue says, as far as it was heard."""
        return self._broker.lanes.knows_topics

    def spread_over(self, lane_count: int) -> None:
        """So many lanes there are, as lane 0 says."""
        self._broker.leading.spread_over(lane_count)

    def heard_all(self, since_s: float) -> None:
        """At this time nothing stood in lane 0 that is not known here."""
        self._heard_all_s = max(self._heard_all_s, since_s)
        self._broker.access.look()

    def silent_s(self) -> float:
        """How many seconds ago it was last certain that nothing newer stood in lane 0."""
        broker = self._broker
        if broker.lanes.leads_catalogue and not broker.is_shared:
            return 0.0
        heard_s = self._heard_all_s
        caught_up_s = broker.elsewhere.caught_up_s
        if caught_up_s is not None and not broker.lanes.leads_catalogue:
            heard_s = max(heard_s, caught_up_s)
        return broker.loop_time_s - heard_s

    # Who leads

    async def take_journal(
        self, number: int, journal: Journal, leader: Leader, followed: FollowedLane | None
    ) -> Lane:
        return await self._broker.leading.take_journal(number, journal, leader, followed)

    async def hand_over(self, lane: Lane, successor: int) -> None:
        await self._broker.leading.hand_over(lane, successor)

    def hear_of_leader(self, leader: LedBy, lane: int = CATALOGUE_LANE) -> None:
        """Another says that it leads, sooner than lane 0 does here."""
        if lane == CATALOGUE_LANE:
            self._broker.elsewhere.hear_of(leader)
        else:
            self._broker.elsewhere.hear_of_lane(lane, leader)

    def hear_while_blind(self, leader: LedBy | None) -> None:
        """The store cannot be read from here: others say who leads, or nobody does."""
        self._broker.elsewhere.hear_while_blind(leader)

    # Other nodes

    def hear_nodes_at(self, listener: str, *, has_others: bool) -> None:
        """Other nodes are answered there alone; clients come there as well if there are no other
        listeners."""
        self._listener_of_nodes = listener
        self._has_other_listeners = has_others

    def hears_nodes(self, listener: str) -> bool:
        return self._listener_of_nodes in (None, listener)

    def is_of_nodes_alone(self, listener: str) -> bool:
        return self._has_other_listeners and listener == self._listener_of_nodes

    def reach_others(self, key: KnownKey, connect: Connect) -> None:
        """For lanes that have something to say to each other."""
        assert self._shared is not None
        assert self._broker.server is not None
        self._broker.peers.lines = Lines(
            key, self._randomness, connect, self._broker.server.start_task, self._shared.stop_s
        )

    def tell_by(self, hearing: Hearing) -> None:
        """While lane 0 is led here and other nodes lead others."""
        self._broker.topics.telling = hearing

    def make_internal_topics(self) -> None:
        """Others cannot make them when the first group or transaction comes. Raises JournalFull."""
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            self._broker.coordinators.internal_topic(name)

    async def answer_lane(self, asked: LaneCall) -> AnyAnswer:
        """What a lane elsewhere asks one that is led here."""
        return await self._broker.peers.answer(asked)

    async def answer_forwarded(self, asked: Forwarded) -> AnyAnswer:
        """What another node asks on behalf of a client."""
        return await answer_forwarded(self._broker, asked)

    def warn(self, warning: str) -> None:
        self._broker.warn(warning)
