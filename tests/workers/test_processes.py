"""Real workers in processes of their own, under unmodified clients."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from semel.testing import Broker
from semel.testing.broker import BrokerDidNotStart
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.authority import Authority
from support.clients import (
    QUIET,
    AioKafka,
    Background,
    Client,
    Confluent,
    Count,
    KafkaPython,
    Sent,
    confluent_consumer,
    poll_messages,
)
from support.processes import until_ended
from support.raw_client import RawClient

WORKERS = 3
PATIENCE_S = 60.0
SETTINGS = {"group.min.session.timeout.ms": 1000}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Nobody ends its workers; each test has topics of its own."""
    folder = tmp_path_factory.mktemp("shared") / "data"
    with Broker(data=folder, settings=SETTINGS, workers=WORKERS) as broker:
        yield broker


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data", settings=SETTINGS, workers=WORKERS) as broker:
        yield broker


def admin_of(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})


def create(broker: Broker, topic: str, partition_count: int = WORKERS) -> None:
    admin = admin_of(broker)
    admin.create_topics([NewTopic(topic, partition_count, 1)])[topic].result(PATIENCE_S)


def leaders(broker: Broker, topic: str) -> list[int]:
    found = admin_of(broker).list_topics(topic, PATIENCE_S).topics[topic].partitions
    return [found[index].leader for index in sorted(found)]


def end_offsets(broker: Broker, topic: str, partition_count: int = WORKERS) -> list[int]:
    with confluent_consumer(broker.bootstrap_servers) as consumer:
        return [
            consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, index), 30)[1]
            for index in range(partition_count)
        ]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


class Sender:
    """An idempotent producer that writes to all partitions in turn."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._topic = topic
        self.acknowledged: dict[int, list[bytes]] = {index: [] for index in range(WORKERS)}
        self.failed: list[str] = []
        self.acked = Count()
        self.sent_count = 0
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 5,
                "reconnect.backoff.max.ms": 200,
                **QUIET,
            }
        )

    def _told(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        value, index = message.value(), message.partition()
        assert isinstance(value, bytes)
        assert index is not None
        self.acknowledged[index].append(value)
        self.acked.add()

    def send(self, count: int) -> None:
        for _ in range(count):
            index = self.sent_count % WORKERS
            self._producer.produce(
                self._topic, b"%d" % self.sent_count, partition=index, on_delivery=self._told
            )
            self.sent_count += 1
            self._producer.poll(0.0005)
        assert self._producer.flush(PATIENCE_S) == 0

    def check_stored(self, broker: Broker) -> None:
        """Each record once, in its order."""
        assert self.failed == []
        for index in range(WORKERS):
            sent = [b"%d" % number for number in range(index, self.sent_count, WORKERS)]
            assert self.acknowledged[index] == sent
            found = Confluent().read(broker.bootstrap_servers, self._topic, [index], len(sent))
            assert [each.value for each in found] == sent
        assert sum(end_offsets(broker, self._topic)) == self.sent_count


@pytest.mark.parametrize("client", [Confluent(), KafkaPython(), AioKafka()], ids=lambda c: c.name)
def test_clients_write_to_and_read_from_all_workers(shared: Broker, client: Client) -> None:
    servers = shared.bootstrap_servers
    topic = client.name
    create(shared, topic)
    assert sorted(leaders(shared, topic)) == [1, 2, 3]
    # One address is enough to find all.
    first = servers.split(",")[-1]
    for index in range(WORKERS):
        client.produce(first, topic, [Sent(value, None, index) for value in numbers(20)])
    for index in range(WORKERS):
        found = client.read(first, topic, [index], 20)
        assert [each.value for each in found] == numbers(20)


def test_groups_are_coordinated_by_all_workers(workers: Broker) -> None:
    create(workers, "t")
    servers = workers.bootstrap_servers
    for index in range(WORKERS):
        Confluent().produce(servers, "t", [Sent(value, None, index) for value in numbers(4)])
    admin = admin_of(workers)
    coordinators = set()
    for number in range(8):
        name = f"g{number}"
        with confluent_consumer(servers, name, {"enable.auto.commit": False}) as consumer:
            consumer.subscribe(["t"])
            poll_messages(consumer, 4 * WORKERS)
            consumer.commit(asynchronous=False)
        described = admin.describe_consumer_groups([name])[name].result(PATIENCE_S)
        coordinators.add(described.coordinator.id)
    assert len(coordinators) > 1
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert {each.group_id for each in listed.valid} >= {f"g{number}" for number in range(8)}
    # A new member goes on where the last one has committed, also after all workers were killed.
    workers.kill()
    workers.start()
    Confluent().produce(servers, "t", [Sent(b"new")])
    for number in range(8):
        with confluent_consumer(servers, f"g{number}", {"enable.auto.commit": False}) as consumer:
            consumer.subscribe(["t"])
            assert [each.value() for each in poll_messages(consumer, 1)] == [b"new"]


def test_an_idempotent_producer_stores_each_record_once_while_workers_are_killed(
    workers: Broker,
) -> None:
    create(workers, "t")
    sender = Sender(workers, "t")
    sending = Background(lambda: sender.send(3_000))
    for kill in range(2 * WORKERS):
        sender.acked.reach(1 + kill * 400)
        end_worker = workers.stop_worker if kill < WORKERS else workers.kill_worker
        end_worker(kill % WORKERS + 1)
    sending.join()
    sender.check_stored(workers)
    assert "is started again" in workers.complaints()


def test_the_epoch_stays_where_a_worker_was_killed(workers: Broker) -> None:
    create(workers, "t")

    def epochs() -> list[tuple[int, int]]:
        with RawClient(workers) as client:
            request = MetadataRequest([MetadataRequestTopic(name="t")], False)
            (topic,) = client.call("metadata", 9, request).topics
            return [(each.leader_id, each.leader_epoch) for each in topic.partitions]

    before = epochs()
    for node_id in (1, 2):
        workers.kill_worker(node_id)
    Confluent().produce(workers.bootstrap_servers, "t", [Sent(b"x", None, 1)])
    assert epochs() == before


def test_topics_are_grown_and_deleted_and_made_anew(shared: Broker) -> None:
    create(shared, "grown")
    servers = shared.bootstrap_servers
    for index in range(WORKERS):
        Confluent().produce(servers, "grown", [Sent(b"old", None, index)])
    admin = admin_of(shared)
    admin.create_partitions([NewPartitions("grown", 5)])["grown"].result(PATIENCE_S)
    assert leaders(shared, "grown") == [1, 2, 3, 1, 2]
    Confluent().produce(servers, "grown", [Sent(b"more", None, 4)])
    admin.delete_topics(["grown"])["grown"].result(PATIENCE_S)
    create(shared, "grown")
    assert end_offsets(shared, "grown") == [0, 0, 0]
    Confluent().produce(servers, "grown", [Sent(b"new", None, 2)])
    assert [each.value for each in Confluent().read(servers, "grown", [2], 1)] == [b"new"]


def test_a_topic_is_made_by_asking_any_worker_for_it(shared: Broker) -> None:
    for number, server in enumerate(shared.bootstrap_servers.split(",")):
        Confluent().produce(server, f"auto{number}", [Sent(b"x")])
        assert [each.value for each in Confluent().read(server, f"auto{number}", [0], 1)] == [b"x"]


def test_workers_end_with_their_parent(workers: Broker) -> None:
    found = workers.worker_process_ids
    assert sorted(found) == [1, 2, 3]
    create(workers, "t")
    os.kill(workers.process_id, signal.SIGKILL)
    for process_id in found.values():
        until_ended(process_id)


def test_a_folder_of_one_lane_gets_more_and_keeps_what_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Broker(data=folder, settings=SETTINGS) as broker:
        create(broker, "old", 2)
        Confluent().produce(
            broker.bootstrap_servers, "old", [Sent(value, None, 1) for value in numbers(5)]
        )
        with confluent_consumer(broker.bootstrap_servers, "g") as consumer:
            consumer.subscribe(["old"])
            poll_messages(consumer, 5)
            consumer.commit(asynchronous=False)
    with Broker(data=folder, settings=SETTINGS, workers=2) as broker:
        assert leaders(broker, "old") == [1, 1]
        create(broker, "new", 2)
        assert leaders(broker, "new") == [1, 2]
        servers = broker.bootstrap_servers
        Confluent().produce(servers, "old", [Sent(b"5", None, 1)])
        Confluent().produce(servers, "new", [Sent(b"x", None, 1)])
        with confluent_consumer(servers, "g") as consumer:
            consumer.subscribe(["old"])
            assert [each.value() for each in poll_messages(consumer, 1)] == [b"5"]
    # As many processes as one likes; lanes stay.
    for count in (1, 3):
        with Broker(data=folder, settings=SETTINGS, workers=count) as broker:
            servers = broker.bootstrap_servers
            assert leaders(broker, "new") == [1, min(count, 2)]
            found = Confluent().read(servers, "old", [1], 6)
            assert [each.value for each in found] == numbers(6)
            assert [each.value for each in Confluent().read(servers, "new", [1], 1)] == [b"x"]


def semel(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "semel", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_several_lanes_are_checked_shown_and_copied_together(tmp_path: Path) -> None:
    folder, copy = str(tmp_path / "data"), str(tmp_path / "copy")
    with Broker(data=folder, workers=2) as broker:
        create(broker, "t", 2)
        for index in range(2):
            Confluent().produce(broker.bootstrap_servers, "t", [Sent(b"x", None, index)])
        assert semel("log", "check", folder).returncode == 3
        refused = semel("log", "backup", folder, copy)
        assert refused.returncode != 0
        assert "using" in refused.stderr
    assert not Path(copy).exists()
    assert semel("log", "backup", folder, copy).returncode == 0
    for each in (folder, copy):
        checked = semel("log", "check", each, "--json")
        assert checked.returncode == 0, checked.stdout
        assert json.loads(checked.stdout)["counts"]["segments"] >= 2
    shown = semel("log", "dump", copy, "--lane", "1", "-p", "t-1", "--records")
    assert "t-1" in shown.stdout
    assert semel("log", "dump", copy, "--lane", "2").returncode == 2
    with Broker(data=copy, workers=2) as broker:
        assert end_offsets(broker, "t", 2) == [1, 1]
    store = ("--store", f"file://{tmp_path}/store", "--ephemeral")
    refused = semel("cluster", "import", "--data", copy, *store)
    assert refused.returncode != 0
    assert "several lanes" in refused.stderr


def test_a_damaged_lane_is_told_of_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Broker(data=folder, workers=2) as broker:
        create(broker, "t", 2)
        Confluent().produce(broker.bootstrap_servers, "t", [Sent(b"x" * 5_000, None, 1)])
    (segment,) = (folder / "lanes" / "0001").glob("*.segment")
    content = segment.read_bytes()
    at = content.index(b"x" * 5_000)
    segment.write_bytes(content[:at] + b"y" + content[at + 1 :])
    checked = semel("log", "check", str(folder))
    assert checked.returncode == 1
    assert f"lanes/0001/{segment.name}" in checked.stdout


def test_a_worker_that_cannot_start_says_why_and_all_end(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Broker(data=folder, workers=2):
        pass
    (folder / "lanes" / "0001" / "format").write_text("format 99\n")
    with pytest.raises(BrokerDidNotStart, match="format 99"):
        Broker(data=folder, workers=2).start()


def test_a_lane_that_is_missing_is_told_of(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Broker(data=folder, workers=2):
        pass
    (folder / "lanes" / "0001").rename(tmp_path / "elsewhere")
    for count in (1, 2):
        with pytest.raises(BrokerDidNotStart, match="0001 is missing"):
            Broker(data=folder, workers=count).start()


def test_workers_without_a_port_do_not_take_another(tmp_path: Path) -> None:
    with pytest.raises(BrokerDidNotStart, match="the last is 65535"):
        Broker(data=tmp_path / "data", workers=2, port=65_535).start()


def test_a_lane_is_not_served_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Broker(data=folder, workers=2):
        pass
    lane = folder / "lanes" / "0001"
    (tmp_path / "shorter").symlink_to(lane)
    for named in (lane, tmp_path / "shorter"):
        for count in (1, 2):
            with pytest.raises(BrokerDidNotStart, match="is one of the lanes of"):
                Broker(data=named, workers=count).start()
    assert semel("log", "check", str(lane)).returncode == 2


def test_every_worker_reads_its_certificate_anew_when_that_is_asked_for(tmp_path: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": Authority(tmp_path).certificate("broker"),
    }
    with Broker(workers=2, settings=settings) as broker:
        before = broker.worker_process_ids
        assert len(before) == 2
        os.kill(broker.process_id, signal.SIGHUP)
        while broker.complaints().count("certificates were read anew") < 2:
            assert broker.worker_process_ids == before
        endpoints = broker.ready.removeprefix("Semel is ready on ").partition(", data in ")[0]
    assert endpoints == ",".join(f"SSL://127.0.0.1:{broker.port + each}" for each in range(2))


def test_a_certificate_that_cannot_be_read_is_told_once_and_adds_no_lanes(tmp_path: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": Authority(tmp_path).trusted,
    }
    folder = tmp_path / "data"
    with pytest.raises(BrokerDidNotStart) as refused:
        Broker(data=folder, workers=2, settings=settings).start()
    assert str(refused.value).count("certificates cannot be read") == 1
    assert not (folder / "lanes").exists()
