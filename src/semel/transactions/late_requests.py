"""Requests that come too late: on a connection that its client has replaced.

A TV1 client has one epoch for many transactions, so a request that was held up on the way can
hit a later transaction than its own. Its client sent it before it opened the connection that it
uses now. So, per producer id, epoch and kind of request, a request is late if it stands on a
connection that was accepted before the newest one seen; it is refused by closing its connection.

Memory suffices: connections die with the process. TV2 needs none of this, and must not have it,
since there one producer may write over many connections.
"""

from semel.types import ProducerEpoch, ProducerId

SEEN_MIN = 1_024
"""Entries that are kept without asking whether they are still of use."""


class LateRequests:
    """Ask `admit` only for requests of the dialect TV1 whose producer id and epoch are current.

    Others are refused for what they are, and must not be able to fill this memory.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[ProducerId, int], tuple[ProducerEpoch, int]] = {}
        self._connections: set[int] = set()
        self._sweep_at = SEEN_MIN

    def __len__(self) -> int:
        return len(self._newest)

    def opened(self, connection_number: int) -> None:
        """Connections are numbered in the order in which they were accepted."""
        self._connections.add(connection_number)

    def closed(self, connection_number: int) -> None:
        self._connections.discard(connection_number)

    def admit(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        api_key: int,
        connection_number: int,
    ) -> bool:
        """Whether the request may be decided; False if its connection is to be closed."""
        key = (producer_id, api_key)
        seen = self._newest.get(key)
        if seen is None:
            if len(self._newest) >= self._sweep_at:
                self._sweep()
        elif seen[0] == producer_epoch:
            if connection_number <= seen[1]:
                return connection_number == seen[1]
        elif seen[0] > producer_epoch:
            return True  # Of an epoch that is over; the decision about it says so.
        self._newest[key] = (producer_epoch, connection_number)
        return True

    def _sweep(self) -> None:
        """Drop what no open connection is older than: nothing can come too late for it.

        That the newest connection has closed is no reason to forget it. An older one may still
        be open here, and the request it carries is the very one that must not pass.
        """
        oldest = min(self._connections, default=None)
        self._newest = {
            key: seen
            for key, seen in self._newest.items()
            if oldest is not None and seen[1] > oldest
        }
        self._sweep_at = max(SEEN_MIN, 2 * len(self._newest))
