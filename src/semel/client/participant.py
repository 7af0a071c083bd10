"""One of several processes that write within a transaction, which another one begins and ends."""

from collections.abc import Sequence

from semel.client.cluster import Cluster
from semel.client.connection import IMPLICIT_PARTITIONS
from semel.client.coordination import Coordination
from semel.client.identity import Identity
from semel.client.outcome import judging_coordinator, judging_writes
from semel.client.writer import BatchWriter
from semel.types import Buffer, TopicPartition


class Participant:
    def __init__(self, cluster: Cluster, transactional_id: str, identity: Identity) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._identity = identity
        # How long the transaction may take has been said by whoever began it.
        self._coordination = Coordination(cluster, transactional_id, transaction_timeout_ms=0)
        self._partitions: set[TopicPartition] = set()

    async def write(
        self, place: TopicPartition, batches: Sequence[Buffer], first_sequence: int
    ) -> None:
        """Store these encoded batches, in order, behind what anyone has stored there before.

        Nobody else may be writing to the partition, and `first_sequence` has to be the next.
        """
        await self._add(place)
        writer = BatchWriter(self._cluster, self._identity, self._id)
        writer.begin_at(place, first_sequence)
        with judging_writes(self._id):
            await writer.write((place, batch) for batch in batches)

    async def _add(self, place: TopicPartition) -> None:
        if place in self._partitions:
            return
        if await self._cluster.transaction_version() < IMPLICIT_PARTITIONS:
            with judging_coordinator(self._id):
                await self._coordination.add_partitions(self._identity, [place])
        self._partitions.add(place)
