"""Topics that no other run uses, and topics with more than one partition."""

import secrets
from collections.abc import Sequence

from semel.client.admin.topics import create
from semel.client.cluster.blocking import ClientOptions, Connected


def name_of_run(example: str) -> str:
    """What the names of this run's topics begin with: those of an earlier run hold its records."""
    return f"{example}-{secrets.token_hex(4)}"


def create_topics(names: Sequence[str], bootstrap_servers: str, partition_count: int) -> None:
    with Connected(ClientOptions(bootstrap_servers)) as connected:
        refused = connected.run(create(connected.cluster, names, partition_count=partition_count))
    for refusal in refused.values():
        if refusal is not None:
            raise refusal
