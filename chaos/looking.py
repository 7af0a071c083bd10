"""How the cluster and the clients are when somebody is stuck: all of it is gone with the run."""

import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from semel.testing.asking import NoAnswer, ask
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

ASKED_S_MAX: Final = 5.0
LATEST: Final = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FRAMES_OF_STACK: Final = 6


def state(port: int, partition_counts: Mapping[str, int], groups: Sequence[str]) -> Iterator[str]:
    """As a leader tells it, past its proxy."""
    address = ("127.0.0.1", port)
    for name, version, request, shown in (
        ("ListTransactions", 1, ListTransactionsRequest(), _transactions),
        ("DescribeGroups", 5, DescribeGroupsRequest(list(groups)), _groups),
        (
            "OffsetFetch",
            8,
            OffsetFetchRequest([OffsetFetchRequestGroup(group) for group in groups]),
            _offsets,
        ),
        ("ListOffsets", 7, _ends(partition_counts, READ_UNCOMMITTED), _shown_ends("end")),
        ("ListOffsets", 7, _ends(partition_counts, READ_COMMITTED), _shown_ends("stable end")),
    ):
        try:
            yield from shown(ask(address, name, version, request, ASKED_S_MAX))
        except NoAnswer as error:
            yield f"{name}: {error}"


def threads() -> Iterator[str]:
    """Where each of them is."""
    frames = sys._current_frames()  # noqa: SLF001 - there is no other way to them.
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread is not threading.current_thread():
            yield f"thread {thread.name}:"
            for line in traceback.format_stack(frame)[-FRAMES_OF_STACK:]:
                yield from line.rstrip().splitlines()


def _ends(partition_counts: Mapping[str, int], isolation: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                topic, [ListOffsetsPartition(index, timestamp=LATEST) for index in range(count)]
            )
            for topic, count in partition_counts.items()
        ],
    )


def _shown_ends(word: str) -> Any:
    def shown(told: Any) -> Iterator[str]:
        for topic in told.topics:
            for each in topic.partitions:
                name = f"{topic.name}-{each.partition_index}"
                yield f"{name}: {word} {each.offset}, error {each.error_code}"

    return shown


def _transactions(told: Any) -> Iterator[str]:
    for each in told.transaction_states:
        yield f"{each.transactional_id}: {each.transaction_state}, producer {each.producer_id}"


def _groups(told: Any) -> Iterator[str]:
    for group in told.groups:
        yield f"group {group.group_id}: {group.group_state}, error {group.error_code}"
        for member in group.members:
            yield f"    {member.member_id}: assigned {len(member.member_assignment)} bytes"


def _offsets(told: Any) -> Iterator[str]:
    for group in told.groups:
        for topic in group.topics:
            for each in topic.partitions:
                name = f"{topic.name}-{each.partition_index}"
                yield f"{group.group_id} has read {name} to {each.committed_offset}"
