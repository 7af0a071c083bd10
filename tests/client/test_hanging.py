"""When a transaction that is open in a partition hangs."""

import pytest

from semel.client.admin.hanging import GRACE_MS, Reason, judge
from semel.client.admin.transactions import ActiveProducer, TransactionDescription
from semel.types import TopicPartition

HERE = TopicPartition("orders", 0)
ELSEWHERE = TopicPartition("orders", 1)
STARTED_MS, TIMEOUT_MS = 1_000_000, 60_000
OVERDUE_MS = STARTED_MS + TIMEOUT_MS + GRACE_MS + 1

OPEN_HERE = ActiveProducer(
    partition=HERE,
    producer_id=7,
    producer_epoch=3,
    last_sequence=5,
    active_at_ms=STARTED_MS,
    coordinator_epoch=0,
    first_offset=42,
)


def known(state: str, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(
        "pay", state, 7, 3, TIMEOUT_MS, STARTED_MS, frozenset(partitions), coordinator_id=1
    )


@pytest.mark.parametrize(
    ("description", "now_ms", "reason"),
    [
        (None, STARTED_MS, Reason.UNKNOWN),
        (known("Ongoing", HERE, ELSEWHERE), STARTED_MS, None),
        (known("Ongoing", HERE), OVERDUE_MS - 1, None),
        (known("Ongoing", HERE), OVERDUE_MS, Reason.OVERDUE),
        (known("PrepareCommit", HERE), STARTED_MS, None),
        (known("PrepareAbort", HERE), OVERDUE_MS, Reason.OVERDUE),
        (known("Ongoing", ELSEWHERE), STARTED_MS, Reason.LEFT_BEHIND),
        (known("CompleteCommit"), STARTED_MS, Reason.LEFT_BEHIND),
        (known("CompleteAbort", HERE), STARTED_MS, Reason.LEFT_BEHIND),
        (known("Empty"), STARTED_MS, Reason.LEFT_BEHIND),
    ],
)
def test_it_hangs_if_no_coordinator_will_end_it(
    description: TransactionDescription | None, now_ms: int, reason: Reason | None
) -> None:
    assert judge(OPEN_HERE, description, now_ms) is reason
