"""What a client may do with the cluster, where it asks for that (KIP-430)."""

from semel.broker.answer import Call
from semel.wire.rights import DESCRIBE_CLUSTER, ResourceType


def cluster_operations(call: Call) -> int:
    """A bit for each; none for who may not describe it."""
    return call.operations(ResourceType.CLUSTER) if call.may(DESCRIBE_CLUSTER) else 0
