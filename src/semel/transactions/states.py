"""The states of a transaction, and which may follow which."""

import enum
from collections.abc import Mapping


class Status(enum.IntEnum):
    """Numbered as Kafka stores them in `__transaction_state`."""

    EMPTY = 0
    """Initialised; nothing was ever written under this epoch."""
    ONGOING = 1
    """At least one partition has joined."""
    PREPARE_COMMIT = 2
    """Decided, and not to be undone; not every partition has its marker."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every partition has its marker; the next transaction may begin."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """Forgotten: the transactional id has expired. Stored as a record without a value."""

    @property
    def label(self) -> str:
        """As Kafka names it to the client."""
        return "".join(word.capitalize() for word in self.name.split("_"))


FOLLOWERS: Mapping[Status, frozenset[Status]] = {
    # A TV2 client that does not know whether anything was begun may abort at any time, hence
    # PREPARE_ABORT behind a status in which nothing is open.
    Status.EMPTY: frozenset({Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, Status.DEAD}),
    Status.ONGOING: frozenset({Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT}),
    Status.PREPARE_COMMIT: frozenset({Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT}),
    Status.PREPARE_ABORT: frozenset({Status.PREPARE_ABORT, Status.COMPLETE_ABORT}),
    Status.COMPLETE_COMMIT: frozenset(
        {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, Status.DEAD}
    ),
    Status.COMPLETE_ABORT: frozenset(
        {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, Status.DEAD}
    ),
    Status.DEAD: frozenset(),
}

PREPARED = frozenset({Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
OPEN = PREPARED | {Status.ONGOING}
