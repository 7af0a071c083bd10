"""Transactions that several lanes take part in: what a broker does for them beside its requests."""

from typing import TYPE_CHECKING

from semel.broker.commits import Commits
from semel.broker.joins import Joins
from semel.errors import NotCoordinator, NotLeaderOrFollower
from semel.lane.lane import Lane

if TYPE_CHECKING:
    from semel.broker.broker import Broker


class Across:
    """Of each lane that is led here, what it coordinates and what it takes part in."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._commits: dict[Lane, Commits] = {}
        self._joins: dict[Lane, Joins] = {}
        self._forgotten_at_s = 0.0

    def commits(self, lane: Lane) -> Commits:
        """Raises NotCoordinator if it has stepped down meanwhile."""
        commits = self._commits.get(lane)
        if commits is None:
            raise NotCoordinator(f"lane {lane.number} is led elsewhere")
        return commits

    def joins(self, lane: Lane) -> Joins:
        """Raises NotLeaderOrFollower if it has stepped down meanwhile."""
        joins = self._joins.get(lane)
        if joins is None:
            raise NotLeaderOrFollower(f"lane {lane.number} is led elsewhere")
        return joins

    @property
    def is_used(self) -> bool:
        """Something here waits for its outcome, or something elsewhere may."""
        return any(lane.view.has_prepared or lane.view.has_unconfirmed for lane in self._commits)

    def lead(self, lane: Lane) -> None:
        """Go on with what the lane has begun. Its tasks end when it steps down."""
        commits = self._commits[lane] = Commits(self._broker, lane)
        joins = self._joins[lane] = Joins(self._broker, lane)
        lane.on_decided, lane.on_ended = commits.decided, joins.ended
        commits.resume()
        joins.resume()

    def forget_ends(self, now_s: float) -> None:
        """Now and then, let lanes forget how the last transactions of long silent producers
        ended."""
        config = self._broker.config
        interval_s = config.producer_id_expiration_check_interval_ms / 1000
        if now_s < self._forgotten_at_s + interval_s:
            return
        self._forgotten_at_s = now_s
        for lane, joins in self._joins.items():
            joins.forget(lane.view.now_ms() - config.producer_id_expiration_ms)

    def leave(self, lane: Lane) -> None:
        commits, joins = self._commits.pop(lane, None), self._joins.pop(lane, None)
        if commits is not None:
            commits.leave()
        if joins is not None:
            joins.leave()
