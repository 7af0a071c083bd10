"""Our own readers over compacted logs: gaps, empty batches, horizons, markers that are gone."""

from hypothesis import given, settings

from client.columns.records_columns import records_of
from compaction.test_properties import Script, run, steps
from semel.client.columns.decode import decode
from semel.client.columns.schema import FIELDS
from semel.client.consuming.completed_fetch import CompletedFetch
from semel.records.batch import read
from semel.records.records import Record
from semel.types import TopicPartition
from semel.wire.messages.fetch import AbortedTransaction
from support.compacting import Partition

PARTITION = TopicPartition("compacted", 0)


def fetched(partition: Partition, start: int) -> tuple[bytes, list[AbortedTransaction]]:
    """As a fetch of committed records answers that has room for all."""
    batches = [
        batch
        for batch in partition.batches
        if read(batch).last_offset >= start
        and read(batch).base_offset < partition.last_stable_offset
    ]
    aborted = [
        AbortedTransaction(each.producer_id, each.first_offset)
        for each in partition.overlapping(start, partition.last_stable_offset)
    ]
    return b"".join(batches), aborted


def one_by_one(fetch: CompletedFetch) -> list[Record]:
    found = []
    while not fetch.is_done:
        found += [
            Record(each.key, each.value, each.timestamp_ms, each.headers, each.offset)
            for each in fetch.take(2)
        ]
    return found


@settings(max_examples=100)
@given(steps)
def test_readers_find_what_is_left_and_come_to_the_end(script: Script) -> None:
    partition = run(script)
    end = partition.last_stable_offset
    starts = {partition.log_start_offset} | {read(each).base_offset for each in partition.batches}
    for start in sorted(each for each in starts if partition.log_start_offset <= each < end):
        batches, aborted = fetched(partition, start)
        expected = partition.committed(start)
        fetch = CompletedFetch(PARTITION, batches, aborted, start)
        assert one_by_one(fetch) == expected
        assert fetch.offset == end
        columns = decode(
            batches, PARTITION, start_offset=start, aborted=aborted, columns=list(FIELDS)
        )
        assert records_of(columns) == expected
