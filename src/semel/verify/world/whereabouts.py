"""In which lane things lie, as clients know it who have asked before."""

from collections.abc import Callable

from semel.broker.broker import Broker
from semel.types import TopicPartition
from semel.verify.world.network import About, OfGroup


class Whereabouts:
    def __init__(self, lane_count: int, catalogue: Callable[[], Broker | None]) -> None:
        """`catalogue` gives the broker that leads lane 0, if there is one."""
        self._lane_count = lane_count
        self._catalogue = catalogue
        self._known: dict[About, int] = {}

    def lane_of(self, about: About) -> int:
        if self._lane_count == 1 or about is None:
            return 0
        lane = self._known.get(about)
        if lane is None:
            broker = self._catalogue()
            lane = None if broker is None else _lane_at(broker, about)
            if lane is None:
                return 0
            self._known[about] = lane
        return lane


def _lane_at(broker: Broker, about: About) -> int | None:
    if not broker.lanes.leads_catalogue:
        return None
    if isinstance(about, TopicPartition):
        return broker.lanes.number_of(about.topic, about.partition)
    if isinstance(about, OfGroup):
        return broker.coordinators.lane_of_group(about.group)
    assert about is not None
    return broker.coordinators.lane_of_transactional_id(about.transactional_id)
