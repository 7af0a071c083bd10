"""What readers are given under both isolation levels: items 19 to 24."""

import pytest

from semel.records.batch import split
from semel.records.records import decode_batch
from semel.testing import Broker
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from support.kafka_codes import INVALID_TXN_STATE, NONE, TRANSACTION_COORDINATOR_FENCED
from support.raw_client import RawClient, produce_values
from support.transactional_wire import (
    EARLIEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TV1,
    TV2,
    Versions,
    WireProducer,
    fetch,
    frame,
    list_offset,
)


def test_19_a_marker_is_a_control_batch_of_one_record_that_takes_one_offset(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        producer.write(topic, b"a")
        producer.commit()
        producer.write(topic, b"b")
        producer.abort()
    batches = list(split(fetch(client, topic).raw))
    assert [header.base_offset for header, _ in batches] == [0, 1, 2, 3]
    for (header, batch), kind in ((batches[1], b"\0\0\0\1"), (batches[3], b"\0\0\0\0")):
        assert header.is_control
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch) == (producer.producer_id, 0)
        assert header.base_sequence == -1
        (record,) = decode_batch(batch)
        assert record.key == kind
        # Version 0 and the coordinator's epoch, which is the term: 0 on a first start.
        assert record.value == b"\0\0" + b"\0\0\0\0"


def test_20_a_marker_of_a_coordinator_whose_epoch_is_over_is_refused(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name) as producer:
        producer.init()
        producer.write(topic, b"open")
        assert _mark(client, producer, topic, coordinator_epoch=-1) == (
            TRANSACTION_COORDINATOR_FENCED
        )
        assert fetch(client, topic).last_stable_offset == 0


def test_20_a_marker_where_nothing_was_written_moves_no_reader(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV1) as empty, WireProducer(broker, f"{name}-2") as open_one:
        empty.init()
        open_one.init()
        open_one.write(topic, b"open")
        empty.add(topic, 0)
        assert empty.abort() == NONE
        found = fetch(client, topic, isolation=READ_COMMITTED)
        assert (found.last_stable_offset, found.high_watermark) == (0, 2)
        open_one.commit()
    found = fetch(client, topic)
    assert found.aborted == []
    assert found.committed_values == [b"open"]


def test_an_outsider_may_abort_a_transaction_whole_and_never_commit_it(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name) as producer:
        producer.init()
        producer.write(topic, b"a")
        producer.write(topic, b"b", partition=1)
        assert _mark(client, producer, topic, commit=True) == INVALID_TXN_STATE
        # The marker of the first partition ends it everywhere; the second finds nothing open.
        assert _mark(client, producer, topic) == NONE
    for partition in (0, 1):
        found = fetch(client, topic, partition=partition)
        assert found.committed_values == []
        assert found.last_stable_offset == 2


def _mark(
    client: RawClient,
    producer: WireProducer,
    topic: str,
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
) -> int:
    """The one code with which all partitions are answered."""
    marker = WritableTxnMarker(
        producer.producer_id,
        producer.epoch,
        commit,
        [WritableTxnMarkerTopic(topic, [0, 1])],
        coordinator_epoch,
    )
    answer = client.call("write_txn_markers", 1, WriteTxnMarkersRequest([marker]))
    (code,) = {result.error_code for result in answer.markers[0].topics[0].partitions}
    return int(code)


def test_21_the_last_stable_offset_is_where_the_oldest_open_transaction_begins(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with (
        WireProducer(broker, f"{name}-a", versions) as first,
        WireProducer(broker, f"{name}-b", versions) as second,
    ):
        first.init()
        second.init()
        produce_values(client, topic, [b"plain"])
        assert fetch(client, topic).last_stable_offset == 1
        first.write(topic, b"1")
        second.write(topic, b"2")
        produce_values(client, topic, [b"behind"])
        assert fetch(client, topic).committed_values == [b"plain"]
        second.commit()
        found = fetch(client, topic)
        assert (found.last_stable_offset, found.high_watermark) == (1, 5)
        assert found.committed_values == [b"plain"]
        assert fetch(client, topic, isolation=READ_UNCOMMITTED).values == [
            b"plain",
            b"1",
            b"2",
            b"behind",
        ]
        first.commit()
        found = fetch(client, topic)
        assert found.last_stable_offset == found.high_watermark == 6
        assert found.committed_values == [b"plain", b"1", b"2", b"behind"]


def test_22_aborted_transactions_are_listed_also_if_they_began_before_the_fetch(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with (
        WireProducer(broker, f"{name}-a", TV1) as early,
        WireProducer(broker, f"{name}-b", TV1) as late,
    ):
        early.init()
        late.init()
        early.write(topic, b"0")  # 0
        late.write(topic, b"1")  # 1
        produce_values(client, topic, [b"2"])  # 2
        early.write(topic, b"3")  # 3
        late.abort()  # 4
        early.abort()  # 5
        produce_values(client, topic, [b"6"])  # 6
    a, b = early.producer_id, late.producer_id
    assert fetch(client, topic, 0).aborted == [(a, 0), (b, 1)]
    assert fetch(client, topic, 2).aborted == [(a, 0), (b, 1)]
    assert fetch(client, topic, 4).aborted == [(a, 0), (b, 1)]
    assert fetch(client, topic, 5).aborted == [(a, 0)]
    assert fetch(client, topic, 6).aborted == []
    for offset, committed in ((0, [b"2", b"6"]), (3, [b"6"]), (5, [b"6"]), (6, [b"6"])):
        assert fetch(client, topic, offset).committed_values == committed


def test_22_neither_aborted_records_nor_markers_are_stripped(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"a")
        producer.abort()
        producer.write(topic, b"b")
        producer.commit()
    committed = fetch(client, topic, isolation=READ_COMMITTED)
    uncommitted = fetch(client, topic, isolation=READ_UNCOMMITTED)
    assert committed.raw == uncommitted.raw
    assert committed.values == [b"a", b"b"]
    assert [offset for offset, _, _ in committed.markers] == [1, 3]
    assert uncommitted.aborted is None


def test_22_the_list_ends_with_the_records_that_are_given(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    """Else each small fetch of a log with many aborts would carry all that are to come."""
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        for _ in range(50):
            producer.write(topic, b"x" * 100)
            producer.abort()
    offset = 0
    values: list[bytes | None] = []
    while offset < 100:
        found = fetch(client, topic, offset, max_bytes=1)
        assert found.aborted is not None
        assert len(found.aborted) <= 1
        values += found.committed_values
        offset = max(header.last_offset for header, _ in split(found.raw)) + 1
    assert values == []


def test_23_a_fetch_from_within_a_batch_is_given_the_whole_batch(
    broker: Broker, client: RawClient, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer:
        producer.init()
        producer.write(topic, b"a", b"b", b"c")
        producer.commit()
    assert fetch(client, topic, 1).values == [b"a", b"b", b"c"]


def test_24_the_latest_offset_and_a_look_up_by_time_are_bounded_by_the_isolation_level(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        producer.write(topic, b"a")
        producer.commit()
        producer.write(topic, b"b")
        _until_durable(client, topic, 2)
        assert list_offset(client, topic, READ_UNCOMMITTED) == 3
        assert list_offset(client, topic, READ_COMMITTED) == 2
        assert list_offset(client, topic, READ_UNCOMMITTED, timestamp_ms=1_000) == 0
        # Only the marker is younger than the records, and it stands before the open transaction.
        assert list_offset(client, topic, READ_COMMITTED, timestamp_ms=1_001) == 1
        producer.commit()
        assert list_offset(client, topic, READ_COMMITTED) == 4


def test_24_a_time_that_only_an_open_transaction_has_is_not_found_by_read_committed(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name, TV2) as producer:
        producer.init()
        producer.write(topic, b"a")
        _until_durable(client, topic, 0)
        assert list_offset(client, topic, READ_UNCOMMITTED, timestamp_ms=1_000) == 0
        assert list_offset(client, topic, READ_COMMITTED, timestamp_ms=1_000) == -1


def test_a_reader_that_waits_is_told_when_the_transaction_ends(
    broker: Broker, topic: str, name: str, versions: Versions
) -> None:
    with WireProducer(broker, name, versions) as producer, RawClient(broker) as reader:
        producer.init()
        producer.write(topic, b"a")
        # The commit is decided while the fetch of the other connection waits, or before it came:
        # in both cases it is answered with the record and long before its patience is over.
        producer.client.send(_end(producer))
        found = fetch(reader, topic, max_wait_ms=50_000)
        assert found.committed_values == [b"a"]
        assert producer.client.receive() is not None


def _end(producer: WireProducer) -> bytes:
    return frame("end_txn", producer.versions.end, producer.end_request(commit=True))


@pytest.mark.parametrize("commit", [True, False])
def test_records_deleted_behind_the_start_of_an_open_transaction_take_the_stable_offset_with_them(
    broker: Broker, client: RawClient, topic: str, name: str, *, commit: bool
) -> None:
    """Else the latest offset lies before the earliest, and who begins there is set behind all."""
    with WireProducer(broker, name) as producer:
        producer.init()
        producer.write(topic, b"0")
        produce_values(client, topic, [b"1", b"2"])
        produce_values(client, topic, [b"3"])
        producer.write(topic, b"4")
        produce_values(client, topic, [b"5"])
        assert client.delete_records(topic, 3) == 3
        found = fetch(client, topic, 3)
        assert (found.last_stable_offset, found.high_watermark) == (3, 6)
        assert found.values == []
        assert list_offset(client, topic, READ_COMMITTED, timestamp_ms=EARLIEST) == 3
        assert list_offset(client, topic, READ_COMMITTED) == 3
        assert producer.end(commit=commit) == NONE
    found = fetch(client, topic, 3)
    assert found.last_stable_offset == found.high_watermark == 7
    assert found.aborted == ([] if commit else [(producer.producer_id, 0)])
    assert found.committed_values == ([b"3", b"4", b"5"] if commit else [b"3", b"5"])


def test_all_records_may_be_deleted_while_a_transaction_is_open(
    broker: Broker, client: RawClient, topic: str, name: str
) -> None:
    with WireProducer(broker, name) as producer:
        producer.init()
        producer.write(topic, b"0")
        produce_values(client, topic, [b"1"])
        assert client.delete_records(topic, -1) == 2
        assert list_offset(client, topic, READ_COMMITTED) == 2
        assert producer.commit() == NONE
    produce_values(client, topic, [b"3"])
    assert fetch(client, topic, 2).committed_values == [b"3"]


def _until_durable(client: RawClient, topic: str, offset: int) -> None:
    """A write in a transaction is answered before it is; no one reads it until then."""
    fetch(client, topic, offset, isolation=READ_UNCOMMITTED, max_wait_ms=30_000)
