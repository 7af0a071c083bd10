"""A folder becomes a cluster and a folder again, and whoever used it goes on as after a restart."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from semel.cluster.migration import export_cluster, import_folder
from semel.cluster.opening import ClusterSettings
from semel.errors import NONE
from semel.journal import names
from semel.records.batch import split
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.testing.broker import BrokerDidNotStart
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.world import SystemClock, SystemRandomness
from support.raw_client import METRICS, RawClient, metric, produce
from support.transactional_wire import (
    EARLIEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TV1,
    Fetched,
    WireProducer,
    fetch,
    list_offset,
)

SEGMENT_BYTES = 1_500_000
SETTINGS = {
    "journal.segment.bytes": SEGMENT_BYTES,
    "message.max.bytes": 100_000,
    "journal.settle.bytes": 2 * SEGMENT_BYTES,
    "journal.volume.bytes": 4 * SEGMENT_BYTES,
    "log.retention.check.interval.ms": 20,
}
QUIET = {"log.retention.check.interval.ms": 3_600_000}
"""Nothing is forgotten while it is looked at."""
DEADLINE_S = 60
TOPIC_RESOURCE = 2
GROUPS = ("g", "in-transactions")


def semel(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "semel", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def done(*arguments: object) -> str:
    ended = semel(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(*arguments: object) -> str:
    ended = semel(*arguments)
    assert ended.returncode in {1, 2}, ended.stdout
    (sentence,) = ended.stderr.splitlines()
    return sentence


class Idempotent:
    """A producer without a name, by hand."""

    def __init__(self, client: RawClient) -> None:
        answer = client.call("init_producer_id", 4, InitProducerIdRequest(None, 60_000))
        assert answer.error_code == NONE
        self.producer_id = answer.producer_id
        self.sequence = 0

    def send(self, client: RawClient, *, again: bool = False) -> int:
        """The next batch, or the last one again; its offset."""
        self.sequence += 0 if again else 2
        first = self.sequence - 2
        records = [Record(b"k", b"%d" % number, 5_000) for number in (first, first + 1)]
        batch = encode_batch(
            records, producer_id=self.producer_id, producer_epoch=0, base_sequence=first
        )
        answer = produce(client, "plain", batch, partition=1)
        assert answer.error_code == NONE, answer.error_code
        return int(answer.base_offset)


class Clients:
    """Those who use a broker, and go on with what comes after it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        with RawClient(broker) as client:
            self.idempotent = Idempotent(client)
        self.open = WireProducer(broker, "open")
        self.open_in_dialect_1 = WireProducer(broker, "open-1", TV1)

    def move(self, broker: Broker) -> None:
        for producer in (self.open, self.open_in_dialect_1):
            producer._broker = broker
            producer.reconnect()

    def close(self) -> None:
        for producer in (self.open, self.open_in_dialect_1):
            producer.__exit__(None, None, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a broker that has stopped in order, which all tests copy."""
    return tmp_path_factory.mktemp("migration") / "data"


@pytest.fixture(scope="module")
def clients(folder: Path) -> Iterator[Clients]:
    raise_term(folder)
    with Broker(data=folder, settings=SETTINGS, arguments=METRICS) as broker:
        with RawClient(broker) as client:
            fill(client)
            begin_compacting(broker, client)
        left = Clients(broker)
        write_transactions(broker)
        with RawClient(broker) as client:
            for _ in range(3):
                left.idempotent.send(client)
            assert client.delete_records("plain", 25) == 25
        leave_open(left)
    yield left
    left.close()


def raise_term(folder: Path) -> None:
    """On another disk every start is one after which something may be missing."""
    for number in range(3):
        with Broker(data=folder, settings=SETTINGS):
            """It has said that it was here."""
        shutil.copytree(folder, folder.with_name(f"copy-{number}"))
        shutil.rmtree(folder)
        folder.with_name(f"copy-{number}").rename(folder)


def fill(client: RawClient) -> None:
    client.create_topic("plain", 3, retention_ms="-1")
    client.create_topic("transactions", retention_ms="-1")
    client.create_topic("newest", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    client.create_topic("empty", 2)
    client.create_topic("gone")
    produce(client, "gone", encode_batch([Record(None, b"x", 1)]))
    for number in range(40):
        for partition in range(3):
            batch = encode_batch([Record(b"key", b"%d" % number, 1_000 + number)])
            assert produce(client, "plain", batch, partition=partition).error_code == NONE
    topics = [OffsetCommitRequestTopic("plain", [OffsetCommitRequestPartition(0, 17)])]
    client.create_group_topic()
    deadline_s = time.monotonic() + DEADLINE_S
    request = OffsetCommitRequest("g", topics=topics)
    while client.call("offset_commit", 8, request).topics[0].partitions[0].error_code != NONE:
        assert time.monotonic() < deadline_s


def begin_compacting(broker: Broker, client: RawClient) -> None:
    """Until something was compacted, settled and given up, with transactions in between."""
    deadline_s = time.monotonic() + DEADLINE_S
    with WireProducer(broker, "newest") as producer:
        assert producer.init() == NONE
        number = 0
        while not (metric(broker, "semel_settling_volumes") and has_gap(client)):
            assert time.monotonic() < deadline_s, "nothing is compacted"
            for _ in range(20):
                records = [Record(b"%d" % (number % 7), bytes(20_000), 2_000 + number)]
                assert produce(client, "newest", encode_batch(records)).error_code == NONE
                number += 1
            write_with_key(producer, b"%d" % (number % 7))
            assert producer.end(commit=bool(number % 40)) == NONE


def has_gap(client: RawClient) -> bool:
    """Whether compaction has left any in the topic, and something behind that."""
    headers = [header for header, _ in split(read(client, "newest", 0, 0, READ_UNCOMMITTED).raw)]
    return any(one.last_offset + 1 < other.base_offset for one, other in pairwise(headers))


def write_with_key(producer: WireProducer, key: bytes) -> None:
    """The first batch of its transaction."""
    batch = encode_batch(
        [Record(key, b"in a transaction", 3_000)],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = [TopicProduceData("newest", [PartitionProduceData(0, batch)])]
    request = ProduceRequest(producer.transactional_id, -1, 30_000, data)
    (answer,) = producer.client.call("produce", 12, request).responses[0].partition_responses
    assert answer.error_code == NONE


def write_transactions(broker: Broker) -> None:
    with WireProducer(broker, "a") as one, WireProducer(broker, "b") as other:
        for producer in (one, other):
            assert producer.init() == NONE
        for number in range(12):
            one.write("transactions", b"a%d" % number)
            other.write("transactions", b"b%d" % number, b"more")
            assert one.commit_offsets("in-transactions", {("plain", 1): number}) == [NONE]
            assert one.end(commit=number % 3 != 0) == NONE
            one.write("plain", b"in all", partition=2)
            assert other.end(commit=number % 2 == 0) == NONE
            assert one.commit() == NONE


def leave_open(clients: Clients) -> None:
    for producer in (clients.open, clients.open_in_dialect_1):
        assert producer.init() == NONE
        producer.write("transactions", b"open")
        if producer is clients.open:
            assert producer.commit_offsets("in-transactions", {("plain", 0): 33}) == [NONE]


# What can be seen of a broker.


def everything(broker: Broker) -> dict[str, Any]:
    with RawClient(broker) as client:
        topics = client.call("metadata", 12, MetadataRequest(None)).topics
        found: dict[str, Any] = {"epochs": {p.leader_epoch for t in topics for p in t.partitions}}
        for topic in topics:
            found[topic.name] = (topic.topic_id, configs(client, topic.name))
            for partition in topic.partitions:
                index = partition.partition_index
                found[f"{topic.name}-{index}"] = of_partition(client, topic.name, index)
        for group in GROUPS:
            answer = client.call("offset_fetch", 7, OffsetFetchRequest(group_id=group, topics=None))
            found[f"group {group}"] = sorted(
                (topic.name, each.partition_index, each.committed_offset)
                for topic in answer.topics
                for each in topic.partitions
            )
        found["transactions told"] = transactions(client)
    return found


def configs(client: RawClient, topic: str) -> dict[str, str]:
    wanted = DescribeConfigsResource(TOPIC_RESOURCE, topic, None)
    (answer,) = client.call("describe_configs", 4, DescribeConfigsRequest([wanted])).results
    return {each.name: each.value for each in answer.configs if each.config_source == 1}


def read(client: RawClient, topic: str, index: int, offset: int, isolation: int) -> Fetched:
    """All of it, in as many answers as it takes."""
    raw, aborted = b"", set[tuple[int, int]]()
    while True:
        some = fetch(client, topic, offset, partition=index, isolation=isolation)
        if not some.raw:
            return some._replace(raw=raw, aborted=sorted(aborted))
        raw += some.raw
        aborted |= set(some.aborted or ())
        offset = [header for header, _ in split(some.raw)][-1].last_offset + 1


def of_partition(client: RawClient, topic: str, index: int) -> dict[str, Any]:
    start = list_offset(client, topic, READ_UNCOMMITTED, timestamp_ms=EARLIEST, partition=index)
    end = list_offset(client, topic, READ_UNCOMMITTED, partition=index)
    raw = read(client, topic, index, start, READ_UNCOMMITTED).raw
    committed = read(client, topic, index, start, READ_COMMITTED)
    times = [
        list_offset(client, topic, READ_UNCOMMITTED, timestamp_ms=at, partition=index)
        for at in (0, 1_020, 1_039, 5_000, 10**15)
    ]
    passed = [
        fetch(client, topic, start + (end - start) * part // 9, partition=index, max_bytes=1)
        for part in range(9)
    ]
    request = DescribeProducersRequest([TopicRequest(topic, [index])])
    (producers,) = client.call("describe_producers", 0, request).topics[0].partitions
    return {
        "offsets": (start, end, list_offset(client, topic, READ_COMMITTED, partition=index)),
        "batches": raw,
        "aborted": committed.aborted,
        "aborted on the way": [each.aborted for each in passed],
        "committed": committed.committed_values,
        "times": times,
        # When each was active is told by the clock of whoever is asked.
        "producers": sorted(
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.current_txn_start_offset,
            )
            for each in producers.active_producers
        ),
    }


def transactions(client: RawClient) -> list[str]:
    listed = client.call("list_transactions", 0, ListTransactionsRequest()).transaction_states
    names = sorted(each.transactional_id for each in listed)
    request = DescribeTransactionsRequest(names)
    told = client.call("describe_transactions", 0, request).transaction_states
    return [
        repr((t.transactional_id, t.transaction_state, t.producer_id, t.producer_epoch, t.topics))
        for t in told
    ]


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert before.keys() == after.keys()
    for name, known in before.items():
        if name != "epochs":
            assert after[name] == known, name


def node(store: str, number: int = 1) -> Broker:
    return Broker(
        settings={"cluster.detection.ms": 1_000, **QUIET},
        arguments=("--store", store, "--node-id", str(number)),
    )


def until_led(broker: Broker) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    with RawClient(broker) as client:
        while client.call("metadata", 12, MetadataRequest([])).controller_id < 0:
            assert time.monotonic() < deadline_s


def go_on(clients: Clients, broker: Broker) -> None:
    """Each client does what it would have done if nothing had happened."""
    clients.move(broker)
    idempotent = clients.idempotent
    with RawClient(broker) as client:
        end = client.end_offset("plain", 1)
        last = idempotent.send(client, again=True)
        assert last < end, "a retry is recognised"
        assert client.end_offset("plain", 1) == end
        assert idempotent.send(client) == end
    for producer in (clients.open, clients.open_in_dialect_1):
        producer.write("transactions", b"and more")
        assert producer.commit() == NONE, "what was open is carried"
    with RawClient(broker) as client:
        shown = fetch(client, "transactions", max_bytes=2**24)
        assert shown.committed_values[-4:].count(b"open") == 2
        assert shown.committed_values[-4:].count(b"and more") == 2
    leave_open_again(clients)


def leave_open_again(clients: Clients) -> None:
    for producer in (clients.open, clients.open_in_dialect_1):
        producer.write("transactions", b"open")


def test_there_and_back(folder: Path, clients: Clients, tmp_path: Path) -> None:
    with Broker(data=folder, settings=QUIET) as broker:
        before = everything(broker)
    assert len(before["newest-0"]["aborted"]) > 0
    assert min(before["epochs"]) > 1
    store = f"file://{tmp_path}/store"
    done("cluster", "import", "--data", folder, "--store", store, "--ephemeral")
    with node(store) as first:
        until_led(first)
        after = everything(first)
        compare(before, after)
        assert min(after["epochs"]) > max(before["epochs"]), "epochs go on"
        go_on(clients, first)
        with node(store, 2) as second:
            until_led(second)
            known = everything(first)
            first.stop()
            until_led(second)
            compare(known, everything(second))
    again = tmp_path / "again"
    done("cluster", "export", "--store", store, "--data", again, "--ephemeral")
    assert "all is whole" in done("log", "check", again)
    with Broker(data=again, settings=SETTINGS | QUIET) as back:
        compare(known, everything(back))
        go_on(clients, back)
    with Broker(data=folder, settings=QUIET) as untouched:
        compare(before, everything(untouched))


# What is refused.


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with one record, of a broker that has stopped."""
    folder = tmp_path / "small"
    with Broker(data=folder, settings=SETTINGS) as broker:
        fill_small(broker)
    return folder


def fill_small(broker: Broker) -> None:
    with RawClient(broker) as client:
        client.create_topic("t")
        assert produce(client, "t", encode_batch([Record(None, b"x", 1)])).error_code == NONE


def import_arguments(folder: Path, store: Path) -> tuple[object, ...]:
    return ("cluster", "import", "--data", folder, "--store", f"file://{store}", "--ephemeral")


def test_a_folder_is_taken_over_when_its_broker_has_stopped(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", settings=SETTINGS) as broker:
        fill_small(broker)
        said = refused(*import_arguments(tmp_path / "data", tmp_path / "store"))
    assert "a broker is using" in said
    assert not (tmp_path / "store").exists()


def test_what_is_no_folder_of_a_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    said = refused(*import_arguments(tmp_path / "data", tmp_path / "store"))
    assert "is no data folder" in said
    assert not (tmp_path / "store").exists()


def test_a_damaged_folder_is_refused_before_anything_is_stored(small: Path, tmp_path: Path) -> None:
    (segment, *_) = sorted(small.glob(f"*{names.SEGMENT}"))
    stored = bytearray(segment.read_bytes())
    stored[100] ^= 1
    segment.write_bytes(stored)
    said = refused(*import_arguments(small, tmp_path / "store"))
    assert "is damaged" in said
    assert "semel log check" in said
    assert not (tmp_path / "store").exists()


def test_a_folder_is_taken_over_into_an_empty_place(small: Path, tmp_path: Path) -> None:
    done(*import_arguments(small, tmp_path / "store"))
    said = refused(*import_arguments(small, tmp_path / "store"))
    assert "into an empty place, and in this store there is" in said
    done("cluster", "create", "--store", f"file://{tmp_path}/other", "--ephemeral")
    assert "there is cluster/format" in refused(*import_arguments(small, tmp_path / "other"))


class Interrupted(Exception):
    pass


def stop_at_the_first(deed: str, done: int) -> None:
    if deed == "copied":
        raise Interrupted


def settings(store: Path) -> ClusterSettings:
    return ClusterSettings.of(f"file://{store}", is_ephemeral=True)


def test_half_an_import_is_no_cluster_and_nothing_goes_on_from_it(
    small: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    with pytest.raises(Interrupted):
        asyncio.run(
            import_folder(
                small,
                settings(store),
                SystemClock(),
                SystemRandomness(),
                (50, 50),
                stop_at_the_first,
            )
        )
    with pytest.raises(BrokerDidNotStart, match="has not ended, or is under way"):
        node(f"file://{store}").start()
    assert "has not ended" in refused(*import_arguments(small, store))
    assert "there are journals" in refused(
        "cluster", "create", "--store", f"file://{store}", "--ephemeral"
    )
    with Broker(data=small):
        """The folder is as it was."""
    done(*import_arguments(small, tmp_path / "another"))


def test_half_an_export_is_no_folder_to_serve(small: Path, tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "back"
    done(*import_arguments(small, store))
    with pytest.raises(Interrupted):
        asyncio.run(
            export_cluster(
                settings(store), target, SystemClock(), SystemRandomness(), stop_at_the_first
            )
        )
    assert not target.exists()
    export = ("cluster", "export", "--store", f"file://{store}", "--ephemeral", "--data")
    assert "back.partial is there already" in refused(*export, target)
    with pytest.raises(BrokerDidNotStart, match="a copy that is not whole"):
        Broker(data=tmp_path / "back.partial").start()
    done(*export, tmp_path / "another")
    with Broker(data=tmp_path / "another") as back, RawClient(back) as client:
        assert client.end_offset("t") == 1


def test_a_cluster_is_exported_once_its_nodes_have_stopped(small: Path, tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "back"
    done(*import_arguments(small, store))
    export = ("cluster", "export", "--store", f"file://{store}", "--ephemeral", "--data", target)
    first = node(f"file://{store}")
    with first:
        until_led(first)
        assert "node 1 leads it" in refused(*export)
        first.kill()
        assert "start a node and stop it" in refused(*export)
        first.start()
        until_led(first)
    done(*export)
    assert "is there already" in refused(*export)
    with node(f"file://{store}") as again:
        until_led(again)
        with RawClient(again) as client:
            assert client.end_offset("t") == 1, "the cluster is as it was"


def test_the_slots_of_an_imported_cluster_may_lie_elsewhere(small: Path, tmp_path: Path) -> None:
    journal = ("--journal", f"file://{tmp_path}/slots")
    done(*import_arguments(small, tmp_path / "store"), *journal)
    assert not (tmp_path / "store" / "j").exists()
    places = ("--store", f"file://{tmp_path}/store", *journal)
    with Broker(arguments=(*places, "--node-id", "1")) as only:
        until_led(only)
        with RawClient(only) as client:
            assert client.end_offset("t") == 1
    done("cluster", "export", *places, "--data", tmp_path / "back", "--ephemeral")
    with Broker(data=tmp_path / "back") as back, RawClient(back) as client:
        assert client.end_offset("t") == 1
