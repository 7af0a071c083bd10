"""Whether a batch is written, by the marker that stands in the cluster: every row of the table."""

import pytest

from semel.spark.marker import (
    BatchBehind,
    BatchMarker,
    SharedTransactionalId,
    SinkConflict,
    TwoSinks,
    Verdict,
    digest_of,
    judge,
    marker_metadata,
    read_marker,
)
from semel.types import TopicPartition

FIRST_RUN = "11111111-1111-1111-1111-111111111111"
SECOND_RUN = "22222222-2222-2222-2222-222222222222"


def batch(number: int, query: str = "q", run: str = SECOND_RUN) -> BatchMarker:
    return BatchMarker(query, number, run)


def committed(number: int, query: str = "q", run: str = FIRST_RUN) -> BatchMarker:
    return BatchMarker(query, number, run)


@pytest.mark.parametrize(
    ("found", "current", "verdict"),
    [
        (None, batch(0), Verdict.WRITE),
        (None, batch(7), Verdict.WRITE),
        (committed(6), batch(7), Verdict.WRITE),
        # Batches without a task leave no marker.
        (committed(2), batch(7), Verdict.WRITE),
        (committed(7), batch(7), Verdict.SKIP),
        # A new query on an old id, as after its checkpoint was deleted.
        (committed(7, "old"), batch(0), Verdict.WRITE),
        # A batch job, which has neither query nor run.
        (committed(3, "batch", ""), batch(3, "batch", ""), Verdict.SKIP),
    ],
)
def test_what_the_marker_says(
    found: BatchMarker | None, current: BatchMarker, verdict: Verdict
) -> None:
    assert judge(found, current, "id") is verdict


def test_a_later_batch_means_a_zombie_or_a_rolled_back_checkpoint() -> None:
    with pytest.raises(BatchBehind, match="overrideMarker"):
        judge(committed(9), batch(7), "id")
    assert judge(committed(9), batch(7), "id", may_override=True) is Verdict.WRITE


def test_an_override_does_not_write_a_replay_again() -> None:
    assert judge(committed(7), batch(7), "id", may_override=True) is Verdict.SKIP


def test_another_query_seen_on_the_way_shares_the_id() -> None:
    with pytest.raises(SharedTransactionalId, match="two queries share this transactional id"):
        judge(committed(3, "other"), batch(7), "id")
    assert judge(committed(3, "other"), batch(7), "id", may_override=True) is Verdict.WRITE


def test_a_batch_that_was_planned_anew_after_a_roll_back_is_not_taken_for_its_namesake() -> None:
    then, now = {TopicPartition("t", 0): 8}, {TopicPartition("t", 0): 12}
    found = committed(7)._replace(consumed=digest_of(then))
    again = batch(7)._replace(consumed=digest_of(now))
    with pytest.raises(BatchBehind, match="from other records if the number is the same"):
        judge(found, again, "id")
    assert judge(found, again, "id", may_override=True) is Verdict.WRITE
    assert judge(found, again._replace(consumed=digest_of(then)), "id") is Verdict.SKIP
    assert judge(found, again._replace(consumed=digest_of(None)), "id") is Verdict.SKIP


def test_a_run_that_finds_its_own_batch_has_two_sinks_of_one_name() -> None:
    with pytest.raises(TwoSinks, match="give the second a name of its own"):
        judge(committed(7, run=SECOND_RUN), batch(7), "id")


def test_a_retry_that_finds_its_own_batch_had_succeeded_before() -> None:
    assert judge(committed(7, run=SECOND_RUN), batch(7), "id", is_retry=True) is Verdict.SKIP


def test_a_marker_survives_being_stored_as_an_offset() -> None:
    marker = batch(41)._replace(consumed="0123")
    assert read_marker(42, marker_metadata(marker)) == marker


@pytest.mark.parametrize("metadata", [None, "", "x", "[]", "{}", "3"])
def test_an_offset_that_no_sink_has_written_is_refused(metadata: str | None) -> None:
    with pytest.raises(SinkConflict, match="choose another transactionalId"):
        read_marker(5, metadata)
