"""A lane's state as bytes that can be compared, also while the journal takes a snapshot of it."""

from semel.lane import snapshot
from semel.lane.state import LaneState


def whole(state: LaneState) -> bytes:
    under_way, state.capture = state.capture, None
    try:
        return b"".join(snapshot.take(state))
    finally:
        state.capture = under_way
        state.groups.before_change(None if under_way is None else under_way.before_group)
        state.transactions.before_change = (
            None if under_way is None else under_way.before_transaction
        )
