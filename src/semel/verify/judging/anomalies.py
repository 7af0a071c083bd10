"""What can be wrong with a history: names and definitions.

Those of Jepsen's test of Kafka keep their names; the others are ours.
"""

from typing import Final, NamedTuple

INCONSISTENT_OFFSETS: Final = "inconsistent-offsets"
DUPLICATE: Final = "duplicate"
LOST_WRITE: Final = "lost-write"
UNSEEN: Final = "unseen"
ABORTED_READ: Final = "G1a"
PRECOMMITTED_READ: Final = "precommitted-read"
READ_CYCLE: Final = "G1c"
POLL_SKIP: Final = "poll-skip"
NONMONOTONIC_POLL: Final = "nonmonotonic-poll"
NONMONOTONIC_SEND: Final = "nonmonotonic-send"
INSIDE: Final = "int-"
"""Before one of these three: within one transaction."""
TORN_TRANSACTION: Final = "torn-transaction"
DOUBLE_INPUT: Final = "double-input"
STUCK_STABLE_OFFSET: Final = "stuck-LSO"
ZOMBIE_WRITE: Final = "zombie-write"
STALE_OFFSET: Final = "stale-offset"
STALE_END: Final = "stale-end"
FALLING_STABLE_OFFSET: Final = "falling-LSO"
FALLING_EPOCH: Final = "falling-epoch"

DEFINITIONS: Final = {
    INCONSISTENT_OFFSETS: "one offset, two values",
    DUPLICATE: "one value at several offsets",
    LOST_WRITE: "acknowledged, before the highest offset that was read, and not there at rest",
    UNSEEN: "acknowledged, behind all that was read, and not there at rest",
    ABORTED_READ: "a committed read shows a value whose writer has failed or was aborted",
    PRECOMMITTED_READ: "a transaction polls what it has written itself",
    READ_CYCLE: "transactions that have each read what the next one wrote, round in a circle",
    POLL_SKIP: "a process's next poll jumps over known values",
    NONMONOTONIC_POLL: "a process's next poll goes back",
    NONMONOTONIC_SEND: "a process's sends stand in another order in the log",
    INSIDE + POLL_SKIP: "a poll jumps over known values, within one transaction",
    INSIDE + NONMONOTONIC_POLL: "a poll goes back, within one transaction",
    INSIDE + NONMONOTONIC_SEND: "sends stand in another order, within one transaction",
    TORN_TRANSACTION: "at rest, a transaction is visible in part, or its offsets without records",
    DOUBLE_INPUT: "an input below the committed offset was copied twice or never",
    STUCK_STABLE_OFFSET: "at rest, the last stable offset is short of the end",
    ZOMBIE_WRITE: "a record is visible that was sent by one who was fenced before",
    STALE_OFFSET: "a committed offset was read that is older than what was known before",
    STALE_END: "a log was said to end before what was known to be in it",
    FALLING_STABLE_OFFSET: "the last stable offset went back",
    FALLING_EPOCH: "the leader epoch of a partition went back",
}


class Anomaly(NamedTuple):
    name: str
    what: str
    """With the clients, times and offsets."""
    at_s: float = 0.0
    """When it was seen, where that can be said."""

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"
