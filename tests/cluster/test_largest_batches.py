"""Rule 37: what a slot can hold bounds what is taken, and that much is taken."""

import pytest

from semel.cluster.node import slot_settings
from semel.errors import ConfigError
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from support.cluster_calls import batch_of, produce, ready
from support.kafka_codes import INVALID_CONFIG, MESSAGE_TOO_LARGE, NONE
from support.simulated_cluster import TIMING, SimulatedCluster, on_nodes

MOST = slot_settings(TIMING).limits.payload_bytes_max // 4
OVERHEAD = len(batch_of(bytes(MOST))) - MOST


@on_nodes(1, settings={"message_max_bytes": MOST})
async def test_the_largest_batch_that_may_be_allowed_fits_into_a_slot(
    cluster: SimulatedCluster,
) -> None:
    leader, _ = await ready(cluster)
    largest = bytes(MOST - OVERHEAD)
    assert len(batch_of(largest)) == MOST
    assert (await produce(leader, largest))[0].error_code == NONE
    assert (await produce(leader, largest + b"1"))[0].error_code == MESSAGE_TOO_LARGE


@on_nodes()
async def test_a_node_that_would_take_more_does_not_start(cluster: SimulatedCluster) -> None:
    cluster.settings = {"message_max_bytes": MOST + 1}
    with pytest.raises(ConfigError, match=f"on a store {MOST} at most"):
        cluster.start(1)


@on_nodes(1)
async def test_no_topic_can_be_made_to_take_more(cluster: SimulatedCluster) -> None:
    leader, _ = await ready(cluster)
    codes = []
    for size in (MOST, MOST + 1):
        config = CreatableTopicConfig("max.message.bytes", str(size))
        request = CreateTopicsRequest([CreatableTopic(f"of-{size}", 1, 1, configs=[config])])
        (created,) = (await leader.ask("create_topics", 7, request)).topics
        codes.append(created.error_code)
    assert codes == [NONE, INVALID_CONFIG]
