"""What a consumer does about a log that was cut: it asks the new leader where the epoch ended."""

import asyncio
from collections.abc import Collection
from contextlib import nullcontext
from typing import Any

import pytest

from semel.client.cluster.cluster import Cluster
from semel.client.consuming.offset_reset import OffsetReset
from semel.client.consuming.partition import Want
from semel.client.consuming.positions import Positions
from semel.client.consuming.settings import ConsumerOptions, settings_of
from semel.errors import FencedLeaderEpoch, SemelError, UnknownLeaderEpoch
from semel.types import TopicPartition
from semel.wire.messages import list_offsets
from semel.wire.messages import offset_for_leader_epoch as epochs

PLACE = TopicPartition("t", 0)


class OneLeader(Cluster):
    """Knows one partition; answers with what it was told to."""

    def __init__(self, *ends: tuple[int, int, int]) -> None:
        super().__init__([])
        self.ends = list(ends)
        """Error code, leader epoch and end offset of each answer."""
        self.asked: list[Any] = []

    async def leaders_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    async def call(self, node_id: int, messages: Any, request: Any) -> Any:
        self.asked.append(request)
        if messages is list_offsets:
            answer = list_offsets.ListOffsetsPartitionResponse(offset=77)
            return list_offsets.ListOffsetsResponse(
                topics=[list_offsets.ListOffsetsTopicResponse("t", [answer])]
            )
        code, epoch, end_offset = self.ends.pop(0)
        answered = epochs.EpochEndOffset(code, 0, epoch, end_offset)
        return epochs.OffsetForLeaderEpochResponse(
            topics=[epochs.OffsetForLeaderTopicResult("t", [answered])]
        )


def located(
    cluster: OneLeader, options: ConsumerOptions | None = None
) -> tuple[Positions, list[SemelError]]:
    """The position of one who stood at offset 50, read in epoch 3, and learns of epoch 4."""
    settings = settings_of(None, options or {})._replace(backoff_max_ms=1)
    positions = Positions(1_000, 1_000, nullcontext())
    errors: list[SemelError] = []

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            offset_reset = OffsetReset(
                cluster,
                positions,
                settings,
                None,
                tasks.create_task,
                lambda: None,
                errors.append,
                lambda: None,
            )
            offset_reset.pump()

    positions.add([PLACE], Want.LATEST)
    positions.seek(PLACE, 50, 3)
    positions.learn_leaders({PLACE: (1, 4)})
    asyncio.run(work())
    return positions, errors


def test_what_the_new_leader_has_is_read_on() -> None:
    cluster = OneLeader((0, 3, 60))
    positions, errors = located(cluster)
    assert (positions.position(PLACE), errors) == (50, [])
    (asked,) = cluster.asked[0].topics[0].partitions
    assert (asked.current_leader_epoch, asked.leader_epoch) == (4, 3)
    assert positions.fetchable().keys() == {1}


def test_an_epoch_that_ended_earlier_takes_the_position_back() -> None:
    positions, errors = located(OneLeader((0, 2, 40)))
    assert (positions.position(PLACE), errors) == (40, [])


def test_a_leader_that_knows_nothing_of_the_epoch_leaves_it_to_the_reset() -> None:
    positions, errors = located(OneLeader((0, -1, -1)))
    assert (positions.position(PLACE), errors) == (77, [])


def test_without_a_reset_the_application_hears_of_it() -> None:
    positions, (error,) = located(OneLeader((0, 2, 40)), {"auto_offset_reset": "none"})
    assert positions.position(PLACE) is None
    assert "was cut before offset 50" in str(error)


@pytest.mark.parametrize("code", [FencedLeaderEpoch.code, UnknownLeaderEpoch.code])
def test_a_leader_that_does_not_lead_is_asked_again(code: int) -> None:
    positions, errors = located(OneLeader((code, -1, -1), (0, 3, 60)))
    assert (positions.position(PLACE), errors) == (50, [])
