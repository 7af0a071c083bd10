"""How many bytes an offset of each partition takes, judged by the first that are to be read."""

from semel.client.cluster.calls import together
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation
from semel.client.columns.ranges import fetch_regions
from semel.spark.offsets import Offsets
from semel.types import TopicPartition

_SAMPLE_SIZE = 64 * 1024


async def sizes_per_offset(
    cluster: Cluster, start: Offsets, end: Offsets
) -> dict[TopicPartition, float]:
    """Bytes as they are stored, compressed or not; nothing for a partition without new offsets."""
    sizes: dict[TopicPartition, float] = {}

    async def measure(partition: TopicPartition) -> None:
        regions = fetch_regions(
            cluster,
            partition,
            start[partition],
            end[partition],
            isolation=Isolation.READ_UNCOMMITTED,
            fetch_size_max=_SAMPLE_SIZE,
            accepts_loss=True,
        )
        async for region in regions:
            sizes[partition] = len(region.batches) / (region.next_offset - region.start_offset)
            break
        await regions.aclose()  # type: ignore[attr-defined]

    await together(
        measure(partition) for partition, offset in end.items() if offset > start[partition]
    )
    return sizes
