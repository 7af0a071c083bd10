"""Tells the log of connections closed for what they sent: the first at once, then how many.

Whoever knocks with garbage again and again must not fill the disk with our complaints.
"""

from semel.broker import log

INTERVAL_S = 60.0


class Closings:
    """`now_s` is the time of any clock that never goes back."""

    def __init__(self) -> None:
        self._silent_until_s = 0.0
        self._untold_count = 0
        self._latest = ("", "")

    def note(self, client_host: str, reason: str, now_s: float) -> None:
        self._untold_count += 1
        self._latest = (client_host, reason)
        self.tell(now_s)

    def tell(self, now_s: float) -> None:
        """Say what has not been said yet, unless it is too soon."""
        if not self._untold_count or now_s < self._silent_until_s:
            return
        client, reason = self._latest
        if self._untold_count == 1:
            log.warning("connection closed", client=client, reason=reason)
        else:
            log.warning("connections closed", count=self._untold_count, last=client, reason=reason)
        self._untold_count = 0
        self._silent_until_s = now_s + INTERVAL_S
