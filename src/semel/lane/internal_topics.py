"""How the topics of the coordinators are made, when the first group or transaction needs them."""

from typing import TYPE_CHECKING

from semel.lane.facts import TopicCreated
from semel.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from semel.lane.lane import Lane

TOPIC_ID_SIZE = 16
_COMPRESSION = {OFFSETS_TOPIC: "producer", TRANSACTIONS_TOPIC: "uncompressed"}


def creation(lane: "Lane", name: str) -> TopicCreated:
    """The fact that makes the internal topic `name`."""
    counts = {
        OFFSETS_TOPIC: lane.settings.offsets_partition_count,
        TRANSACTIONS_TOPIC: lane.settings.transactions_partition_count,
    }
    return TopicCreated(
        name,
        lane.randomness.token_bytes(TOPIC_ID_SIZE),
        lane.state.next_partition_number,
        counts[name],
        {"cleanup.policy": "compact", "compression.type": _COMPRESSION[name]},
    )
