"""What a cluster may write, as a number, so that nodes of two versions can live side by side.

    Law: what a version with a lower newest level could not read is written only if the level that
    lane 0 names allows it. That level rises when the owner of the cluster says so, and never falls.

So all nodes can be started anew with a newer version, one after the other, and the old version can
still be gone back to, until the upgrade is said to be final. It binds whatever lies in the store:
frames and facts, slots, checkpoints and volumes. What nodes say to each other has rules of its own
(`messages.py`).

What the version before passes over needs no level: a field behind those that it knows, without
which all is as it was.

The frame that raises the level is one that every version can read: who cannot go on is told why.

    1   one lane
    2   several, and transactions over them
    3   who may come in
"""

from typing import Final, NamedTuple

from semel.cluster.format import ClusterRefused
from semel.lane.leader import ACCESS_LEVEL


class Levels(NamedTuple):
    """What a version can read, and write."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        if self.oldest == self.newest:
            return f"level {self.newest}"
        return f"levels {self.oldest} to {self.newest}"

    def can_read(self, level: int) -> bool:
        return self.oldest <= level <= self.newest

    def check(self, level: int) -> None:
        """That this version can live in a cluster of that level. Raises ClusterRefused."""
        if not self.can_read(level):
            which = "a newer" if level > self.newest else "an older"
            raise ClusterRefused(
                f"the cluster writes at level {level}, and this version of Semel reads {self}: "
                f"take {which} one"
            )


LEVELS: Final = Levels(1, ACCESS_LEVEL)
"""Of this version."""
SEVERAL_LANES: Final = 2
