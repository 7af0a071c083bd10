"""The states of a consumer group, and which may follow which."""

import enum
from collections.abc import Mapping


class State(enum.Enum):
    """Named to the client as Kafka names them."""

    EMPTY = "Empty"
    """No members; offsets may remain."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waiting for every member to send JoinGroup."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waiting for the leader's SyncGroup, which carries the assignment."""
    STABLE = "Stable"
    """Every member has, or may ask for, its assignment of this generation."""
    DEAD = "Dead"
    """Forgotten; said of a group that is not there."""


FOLLOWERS: Mapping[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE}),
    State.DEAD: frozenset(),
}
