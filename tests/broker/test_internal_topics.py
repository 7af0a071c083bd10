"""The coordinators' topics are made as they have to be, whoever asks for them first."""

from random import Random

import pytest

from semel.journal.file.memory import MemoryDevice
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.handled import CONFIG, call, opened, started
from support.inside import state_of
from support.seeded_loop import run


@pytest.mark.parametrize(
    ("name", "partition_count"),
    [
        ("__consumer_offsets", CONFIG.offsets_topic_num_partitions),
        ("__transaction_state", CONFIG.transaction_state_log_num_partitions),
    ],
)
def test_a_reader_of_a_coordinators_topic_does_not_make_an_ordinary_one_of_it(
    name: str, partition_count: int
) -> None:
    rng = Random(1)

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng)
        async with started(broker):
            wanted = MetadataRequest([MetadataRequestTopic(name=name)])
            (topic,) = (await call(broker, "metadata", 9, wanted)).topics
            assert topic.is_internal
            assert len(topic.partitions) == partition_count
            assert state_of(broker).catalogue.named(name).config["cleanup.policy"] == "compact"

    run(rng, main())
