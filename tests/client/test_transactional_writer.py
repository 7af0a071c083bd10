"""Transactions of the columnar client, in both dialects, and what its errors say."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semel.client.admin import topics
from semel.client.cluster.blocking import ClientOptions, Connected
from semel.client.cluster.group_offsets import group_offsets
from semel.client.cluster.offsets import Isolation, ends_of
from semel.client.columns.encode import encode, rows_from
from semel.client.columns.plan import Range
from semel.client.columns.tables import read_range
from semel.client.connecting import connection
from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown
from semel.client.producing.coordination import GroupMetadata, GroupOffset
from semel.client.writing.batch_writer import EncodedBatchWriter
from semel.client.writing.transactional_writer import TransactionalWriter, TransactionParticipant
from semel.errors import UnstableOffsetCommit
from semel.testing import Broker
from semel.types import TopicPartition


@pytest.fixture(params=["TV1", "TV2"])
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """TV1 is what a client speaks that has not heard of transaction versions."""
    if request.param == "TV1":
        monkeypatch.setattr(connection, "_TRANSACTION_VERSION", "of another kind")
    return str(request.param)


@pytest.fixture
def connected(semel_broker: Broker, dialect: str) -> Iterator[Connected]:
    with Connected(ClientOptions(semel_broker.bootstrap_servers)) as connected:
        expected = 2 if dialect == "TV2" else 0
        assert connected.run(connected.cluster.transaction_version()) == expected
        yield connected


def new_topic(connected: Connected, name: str, partition_count: int = 1) -> str:
    created = topics.create(connected.cluster, [name], partition_count=partition_count)
    assert connected.run(created) == {name: None}
    return name


def batches(
    topic: str, values: list[str], partition_count: int = 1
) -> list[tuple[TopicPartition, bytes]]:
    """One batch per value, the partitions in turn."""
    prepared = []
    for number, value in enumerate(values):
        place = np.array([number % partition_count], np.int32)
        (batch,) = encode(rows_from(None, pa.array([value]), now_ms=1), place)
        prepared.append((TopicPartition(topic, batch.partition), batch.content))
    return prepared


def values_in(
    connected: Connected,
    topic: str,
    isolation: Isolation = Isolation.READ_COMMITTED,
    partition: int = 0,
) -> list[str]:
    place = TopicPartition(topic, partition)
    end = connected.run(ends_of(connected.cluster, [place], isolation))[place]
    read = read_range(connected, Range(place, 0, end), isolation=isolation)
    return [value.decode() for batch in read for value in batch.column("value").to_pylist()]


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    connected: Connected, dialect: str
) -> None:
    topic = new_topic(connected, f"committed-{dialect}")
    session = TransactionalWriter(connected.cluster, f"committed-{dialect}")
    for number, is_committed in enumerate([True, False, True, True, False, False, True]):
        connected.run(session.begin())
        connected.run(session.write(batches(topic, [f"{number}a", f"{number}b"])))
        connected.run(session.write(batches(topic, [f"{number}c"])))
        connected.run(session.commit() if is_committed else session.abort())
    committed = [f"{number}{part}" for number in (0, 2, 3, 6) for part in "abc"]
    assert values_in(connected, topic) == committed
    everything = [f"{number}{part}" for number in range(7) for part in "abc"]
    assert values_in(connected, topic, Isolation.READ_UNCOMMITTED) == everything


def test_several_write_in_one_transaction_one_behind_the_other(
    connected: Connected, dialect: str
) -> None:
    topic = new_topic(connected, f"shared-{dialect}", 2)
    session = TransactionalWriter(connected.cluster, f"shared-{dialect}")
    for is_committed in (False, True):
        producer = connected.run(session.begin())
        some, others = (
            TransactionParticipant(connected.cluster, session.transactional_id, producer)
            for _ in range(2)
        )
        sequences = {0: 0, 1: 0}
        for number, who in enumerate([some, others, others, some, some, others]):
            place = TopicPartition(topic, number // 2 % 2)
            contents = [content for _, content in batches(topic, [f"{number}a", f"{number}b"])]
            connected.run(who.write(place, contents, sequences[place.partition]))
            sequences[place.partition] += len(contents)
        connected.run(session.add_partitions({TopicPartition(topic, each) for each in (0, 1)}))
        connected.run(session.commit() if is_committed else session.abort())
    assert values_in(connected, topic, partition=0) == [
        "0a",
        "0b",
        "1a",
        "1b",
        "4a",
        "4b",
        "5a",
        "5b",
    ]
    assert values_in(connected, topic, partition=1) == ["2a", "2b", "3a", "3b"]
    with pytest.raises((MustAbort, MustStop)):
        connected.run(some.write(TopicPartition(topic, 0), [contents[0]], sequences[0]))


def test_an_open_transaction_bounds_what_is_read(connected: Connected, dialect: str) -> None:
    topic = new_topic(connected, f"open-{dialect}")
    sessions = [
        TransactionalWriter(connected.cluster, f"open-{name}-{dialect}") for name in ("a", "b")
    ]
    for name, session in zip("ab", sessions, strict=True):
        connected.run(session.begin())
        connected.run(session.write(batches(topic, [name])))
    connected.run(sessions[1].commit())
    assert values_in(connected, topic) == []
    connected.run(sessions[0].abort())
    assert values_in(connected, topic) == ["b"]


def test_offsets_and_notes_come_with_the_commit(connected: Connected, dialect: str) -> None:
    topic = new_topic(connected, f"offsets-{dialect}")
    place = TopicPartition(topic, 0)
    group = GroupMetadata(f"sink-{dialect}")
    session = TransactionalWriter(connected.cluster, f"offsets-{dialect}")
    for offset, is_committed in ((1, True), (2, False), (3, True)):
        connected.run(session.begin())
        connected.run(session.send_offsets(group, {place: GroupOffset(offset, f"note {offset}")}))
        connected.run(session.commit() if is_committed else session.abort())
        found = connected.run(group_offsets(connected.cluster, group.group_id, [place]))
        expected = {1: 1, 2: 1, 3: 3}[offset]
        assert found == {place: GroupOffset(expected, f"note {expected}")}


def test_a_pending_offset_is_waited_for(
    semel_broker: Broker, connected: Connected, dialect: str
) -> None:
    topic = new_topic(connected, f"pending-{dialect}")
    place = TopicPartition(topic, 0)
    session = TransactionalWriter(connected.cluster, f"pending-{dialect}")
    connected.run(session.begin())
    connected.run(
        session.send_offsets(GroupMetadata(f"pending-{dialect}"), {place: GroupOffset(1)})
    )
    impatient = ClientOptions(semel_broker.bootstrap_servers, timeout_ms=100)
    with Connected(impatient) as other, pytest.raises(UnstableOffsetCommit):
        other.run(group_offsets(other.cluster, f"pending-{dialect}", [place]))
    connected.run(session.abort())
    assert connected.run(group_offsets(connected.cluster, f"pending-{dialect}", [place])) == {}


def test_a_transaction_without_writes_ends_either_way(connected: Connected, dialect: str) -> None:
    session = TransactionalWriter(connected.cluster, f"empty-{dialect}")
    for end in (session.commit, session.abort, session.commit):
        connected.run(session.begin())
        connected.run(session.add_partitions(()))
        connected.run(end())


def test_a_newer_session_fences_an_older_one(connected: Connected, dialect: str) -> None:
    topic = new_topic(connected, f"fenced-{dialect}")
    name = f"fenced-{dialect}"
    old = TransactionalWriter(connected.cluster, name)
    connected.run(old.begin())
    connected.run(old.write(batches(topic, ["old"])))
    young = TransactionalWriter(connected.cluster, name)
    connected.run(young.begin())
    connected.run(young.write(batches(topic, ["young"])))
    with pytest.raises(MustAbort, match=name):
        connected.run(old.write(batches(topic, ["late"])))
    with pytest.raises(MustStop, match=name):
        connected.run(old.commit())
    with pytest.raises(MustStop, match=name):
        connected.run(TransactionalWriter(connected.cluster, name, producer=old.producer).begin())
    connected.run(young.commit())
    assert values_in(connected, topic) == ["young"]


def test_a_session_is_continued_by_its_identity(connected: Connected, dialect: str) -> None:
    topic = new_topic(connected, f"continued-{dialect}")
    producer = None
    for value in ("a", "b", "c"):
        session = TransactionalWriter(connected.cluster, f"continued-{dialect}", producer=producer)
        connected.run(session.begin())
        connected.run(session.write(batches(topic, [value])))
        connected.run(session.commit())
        producer = session.producer
    assert values_in(connected, topic) == ["a", "b", "c"]


def test_a_task_writes_under_the_identity_of_its_driver(
    semel_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Connected(ClientOptions(semel_broker.bootstrap_servers)) as driver,
        Connected(ClientOptions(semel_broker.bootstrap_servers)) as task,
    ):
        topic = new_topic(driver, "tasks", 2)
        session = TransactionalWriter(driver.cluster, "tasks")
        producer = driver.run(session.begin())
        driver.run(session.add_partitions([TopicPartition(topic, 0), TopicPartition(topic, 1)]))
        writer = EncodedBatchWriter(task.cluster, producer, "tasks")
        task.run(writer.write(batches(topic, ["a", "b", "c"], 2)))
        assert values_in(driver, topic) == []
        driver.run(session.commit())
        assert values_in(driver, topic) == ["a", "c"]
        assert values_in(driver, topic, partition=1) == ["b"]


def test_a_batch_that_is_too_large_dooms_its_transaction_only(
    connected: Connected, dialect: str
) -> None:
    topic = new_topic(connected, f"large-{dialect}")
    session = TransactionalWriter(connected.cluster, f"large-{dialect}")
    connected.run(session.begin())
    connected.run(session.write(batches(topic, ["small"])))
    with pytest.raises(MustAbort, match="larger than the topic takes"):
        connected.run(session.write(batches(topic, ["x" * 2_000_000])))
    connected.run(session.abort())
    connected.run(session.begin())
    connected.run(session.write(batches(topic, ["next"])))
    connected.run(session.commit())
    assert values_in(connected, topic) == ["next"]


def test_a_killed_broker_loses_and_doubles_nothing_of_a_transaction(
    tmp_path: Path, dialect: str
) -> None:
    with (
        Broker(data=tmp_path / "data") as broker,
        Connected(ClientOptions(broker.bootstrap_servers)) as connected,
    ):
        topic = new_topic(connected, "kills", 3)
        session = TransactionalWriter(connected.cluster, "kills")
        expected: list[str] = []
        for number in range(3):
            values = [f"{number}-{part}" for part in range(60)]
            connected.run(session.begin())
            writing = connected.start(session.write(batches(topic, values, 3)))
            broker.kill()
            broker.start()
            writing.result()
            committing = connected.start(session.commit())
            broker.kill()
            broker.start()
            committing.result()
            expected += values[0::3]
        assert values_in(connected, topic) == expected


def test_the_next_epoch_is_asked_for_until_the_broker_is_back(tmp_path: Path, dialect: str) -> None:
    with (
        Broker(data=tmp_path / "data") as broker,
        Connected(ClientOptions(broker.bootstrap_servers)) as connected,
    ):
        topic = new_topic(connected, "renewed")
        session = TransactionalWriter(connected.cluster, "renewed")
        before = connected.run(session.begin())
        connected.run(session.write(batches(topic, ["rolled back"])))
        broker.kill()
        asking = connected.start(session.renew())
        broker.start()
        assert asking.result().producer_epoch > before.producer_epoch
        assert values_in(connected, topic) == []


def test_an_end_that_nobody_answers_is_unknown_until_the_next_session(
    tmp_path: Path, dialect: str
) -> None:
    with Broker(data=tmp_path / "data") as broker:
        options = ClientOptions(broker.bootstrap_servers, timeout_ms=500)
        with Connected(options) as connected:
            topic = new_topic(connected, "unknown")
            session = TransactionalWriter(connected.cluster, "unknown")
            connected.run(session.begin())
            connected.run(session.write(batches(topic, ["perhaps"])))
            broker.pause()
            with pytest.raises(OutcomeUnknown, match="unknown"):
                connected.run(session.commit())
            broker.resume()
        with Connected(ClientOptions(broker.bootstrap_servers)) as connected:
            following = TransactionalWriter(connected.cluster, "unknown")
            connected.run(following.begin())
            connected.run(following.write(batches(topic, ["surely"])))
            connected.run(following.commit())
            seen = values_in(connected, topic)
            assert seen in (["surely"], ["perhaps", "surely"])
