"""Topics with more than one partition, made before they are written to."""

from collections.abc import Sequence

from semel.client.admin import create
from semel.client.blocking import ClientOptions, Connected


def create_topics(names: Sequence[str], bootstrap_servers: str, partition_count: int) -> None:
    with Connected(ClientOptions(bootstrap_servers)) as connected:
        refused = connected.run(create(connected.cluster, names, partition_count=partition_count))
    for refusal in refused.values():
        if refusal is not None:
            raise refusal
