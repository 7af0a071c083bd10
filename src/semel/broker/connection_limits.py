"""How many connections there may be: in all, of one address, at one listener; and how many new ones
each second.

Law: clients cannot take all the room from nodes. Where those have a listener of their own, what
clients have together is no limit to them, and one of the clients makes room.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from semel.access.origin import counted_as
from semel.access.principal import Caller
from semel.access.rate import Rate
from semel.broker.between import BETWEEN_WORKERS
from semel.broker.setting import INT32_MAX

if TYPE_CHECKING:
    from semel.broker.broker import Broker

UNLIMITED: Final = INT32_MAX
OF_ALL: Final = ""
"""In place of the name of a listener."""


class ConnectionLimits:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        config = broker.config
        self._most = config.of_listeners("max_connections")
        self._new_most = config.of_listeners("max_connection_creation_rate")
        self._count = 0
        self._by_origin: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._new: dict[str, Rate] = {}

    def is_of_nodes(self, listener: str) -> bool:
        """Whether nodes alone come to this listener, as there are others for clients."""
        return listener == BETWEEN_WORKERS or self._broker.host.is_of_nodes_alone(listener)

    # When somebody connects

    def lets_come(self, listener: str, now_ms: int) -> bool:
        """Whether one more comes to this listener while there is room, and not too many come each
        second. One that may not come does not count."""
        name = listener.lower()
        if self._by_listener[name] >= self._most.get(name, UNLIMITED):
            return False
        bounds = {name: self._new_most.get(name, UNLIMITED)}
        if not self.is_of_nodes(listener):
            bounds[OF_ALL] = self._broker.config.max_connection_creation_rate
        counted = []
        for key, bound in bounds.items():
            if bound == UNLIMITED:
                continue
            rate = self._new.get(key)
            if rate is None:
                rate = self._new[key] = Rate(self._broker.metering.windows)
            rate.use(1, now_ms)
            counted.append(rate)
            if rate.per_second(now_ms) > bound:
                for each in counted:
                    each.use(-1, now_ms)
                return False
        return True

    # While it is connected

    @property
    def is_exceeded(self) -> bool:
        """More connections are there than may be, as nodes always find room: a client has to go."""
        return self._count > self._broker.config.max_connections

    def entered(self, caller: Caller) -> bool:
        """Whether it may stay. If so, it counts until it has left."""
        config = self._broker.config
        origin, name = counted_as(caller.host), caller.listener.lower()
        has_room = self._count < config.max_connections or self.is_of_nodes(caller.listener)
        may_stay = (
            has_room
            and self._by_listener[name] < self._most.get(name, UNLIMITED)
            and self._by_origin[origin] < config.max_connections_per_ip
        )
        if may_stay:
            self._count += 1
            self._by_origin[origin] += 1
            self._by_listener[name] += 1
        return may_stay

    def left(self, caller: Caller) -> None:
        self._count -= 1
        for counter, key in (
            (self._by_origin, counted_as(caller.host)),
            (self._by_listener, caller.listener.lower()),
        ):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
