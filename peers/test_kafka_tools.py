"""The command line tools of Apache Kafka's newest release, on Semel."""

import json
import subprocess
from collections.abc import Callable, Sequence

import pytest
from peers.registry import ROOT, jars

from semel.testing import Broker
from support import topics

TIMEOUT_S = 120

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}

NOBODY_THERE = "Consumer group 'tools-group' has no active members."

Tool = Callable[..., list[str]]


@pytest.fixture
def servers(semel_broker: Broker) -> str:
    return semel_broker.bootstrap_servers


@pytest.fixture
def tool(servers: str) -> Tool:
    return run_tool(servers)


def run_tool(servers: str) -> Tool:
    """The lines that a tool prints; it must end well, and complain of nothing."""
    class_path = f"{jars(ROOT / 'peers' / 'kafka-tools')}/*"

    def run(name: str, *arguments: str, complains: bool = False) -> list[str]:
        java = ["java", "-Xmx256m", "-cp", class_path, TOOLS[name]]
        done = subprocess.run(
            [*java, "--bootstrap-server", servers, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        said = done.stderr.replace(NOBODY_THERE, "").strip()
        assert complains or (done.returncode, said) == (0, ""), done.stdout
        return [line.rstrip() for line in (done.stdout + said).splitlines() if line.strip()]

    return run


def rows(lines: Sequence[str], heading: str) -> list[list[str]]:
    """Those of a table behind its heading."""
    (at,) = (number for number, line in enumerate(lines) if line.startswith(heading))
    return [line.split() for line in lines[at + 1 :]]


def test_topics(tool: Tool) -> None:
    made = tool("kafka-topics", "--create", "--topic", "tools-topics", "--partitions", "2")
    assert made == ["Created topic tools-topics."]
    assert "tools-topics" in tool("kafka-topics", "--list")
    assert tool("kafka-topics", "--alter", "--topic", "tools-topics", "--partitions", "3") == []
    head, *partitions = tool("kafka-topics", "--describe", "--topic", "tools-topics")
    assert "PartitionCount: 3\tReplicationFactor: 1" in head
    assert [line.split("\t")[2:6] for line in partitions] == [
        [f"Partition: {index}", "Leader: 1", "Replicas: 1", "Isr: 1"] for index in range(3)
    ]
    for trouble in ("under-replicated", "unavailable", "under-min-isr"):
        assert tool("kafka-topics", "--describe", f"--{trouble}-partitions") == []
    assert tool("kafka-topics", "--delete", "--topic", "tools-topics") == []
    assert "tools-topics" not in tool("kafka-topics", "--list")


def test_metadata_quorum(tool: Tool) -> None:
    status = dict(
        line.split(":", 1) for line in tool("kafka-metadata-quorum", "describe", "--status")
    )
    assert status["LeaderId"].strip() == "1"
    assert int(status["HighWatermark"]) > 0
    assert status["MaxFollowerLag"].strip() == "0"
    assert '"id": 1' in status["CurrentVoters"]
    assert status["CurrentObservers"].strip() == "[]"
    heading, replica = tool("kafka-metadata-quorum", "describe", "--replication")
    assert heading.startswith("NodeId")
    assert (replica.split()[0], replica.split()[-1]) == ("1", "Leader")


def test_configs(tool: Tool, servers: str) -> None:
    topics.create(servers, "tools-configs")
    of_topic = ("--entity-type", "topics", "--entity-name", "tools-configs")
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    of_all = ("--entity-type", "brokers", "--entity-default")
    for whose, setting in (
        (of_topic, "max.message.bytes=5000"),
        (of_broker, "fetch.max.wait.ms=6000"),
        (of_all, "num.partitions=2"),
    ):
        tool("kafka-configs", "--alter", *whose, "--add-config", setting)
        _, described = tool("kafka-configs", "--describe", *whose)
        assert described.startswith(f"  {setting} sensitive=false synonyms={{DYNAMIC_")
    shown = tool("kafka-configs", "--describe", "--all", *of_broker)
    assert any(line.startswith("  inter.broker.protocol.version=3.8") for line in shown)
    assert any("DYNAMIC_DEFAULT_BROKER_CONFIG:num.partitions=2" in line for line in shown)
    for whose, setting in ((of_broker, "fetch.max.wait.ms"), (of_all, "num.partitions")):
        tool("kafka-configs", "--alter", *whose, "--delete-config", setting)
        assert len(tool("kafka-configs", "--describe", *whose)) == 1
    for kind in ("clients", "client-metrics", "groups"):
        # There may be groups, of other tests; none has settings.
        shown = tool("kafka-configs", "--describe", "--entity-type", kind)
        assert [line for line in shown if line.startswith(" ")] == []
    fixed = ("--alter", *of_broker, "--add-config", "node.id=7")
    assert "cannot be changed while" in "".join(tool("kafka-configs", *fixed, complains=True))


def test_quotas(tool: Tool) -> None:
    ann = ("--entity-type", "users", "--entity-name", "ann")
    client = (*ann, "--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-default")
    for whose, quotas in (
        (ann, "producer_byte_rate=1024,consumer_byte_rate=2048"),
        (client, "request_percentage=12.5"),
        (address, "connection_creation_rate=50"),
    ):
        (done,) = tool("kafka-configs", "--alter", *whose, "--add-config", quotas)
        assert done.startswith("Completed updating ")
    (described,) = tool("kafka-configs", "--describe", *ann)
    assert described.startswith("Quota configs for user-principal 'ann' are ")
    assert "producer_byte_rate=1024.0" in described
    assert "consumer_byte_rate=2048.0" in described
    (described,) = tool("kafka-configs", "--describe", *client)
    assert described == (
        "Quota configs for user-principal 'ann', the default client-id are request_percentage=12.5"
    )
    (described,) = tool("kafka-configs", "--describe", *address)
    assert described == "Quota configs for the default ip are connection_creation_rate=50.0"
    bad = tool(
        "kafka-configs", "--alter", *ann, "--add-config", "producer_byte_rate=0", complains=True
    )
    assert any("a quota is greater than 0" in line for line in bad)
    for whose, names in (
        (ann, "producer_byte_rate,consumer_byte_rate"),
        (client, "request_percentage"),
        (address, "connection_creation_rate"),
    ):
        tool("kafka-configs", "--alter", *whose, "--delete-config", names)
        assert tool("kafka-configs", "--describe", *whose) == []


def test_consumer_groups(tool: Tool, servers: str) -> None:
    topics.create(servers, "tools-groups", 2)
    topics.fill(servers, "tools-groups", [b"1", b"2", b"3"])
    group = ("--group", "tools-group")
    missing = tool("kafka-consumer-groups", "--describe", *group, complains=True)
    assert any("GroupIdNotFoundException" in line for line in missing)
    to_start = ("--topic", "tools-groups", "--reset-offsets", "--to-earliest", "--execute")
    moved = rows(tool("kafka-consumer-groups", *group, *to_start), "GROUP")
    assert sorted(moved) == [["tools-group", "tools-groups", str(each), "0"] for each in (0, 1)]
    listed = rows(tool("kafka-consumer-groups", "--list", "--state", "--type"), "GROUP")
    assert ["tools-group", "Classic", "Empty"] in listed
    described = rows(tool("kafka-consumer-groups", "--describe", *group), "GROUP")
    assert [row[1:6] for row in described] == [
        ["tools-groups", "0", "0", "3", "3"],
        ["tools-groups", "1", "0", "0", "0"],
    ]
    (state,) = rows(tool("kafka-consumer-groups", "--describe", "--state", *group), "GROUP")
    assert state[-2:] == ["Empty", "0"]
    deleted = tool("kafka-consumer-groups", "--delete", *group)
    assert deleted == ["Deletion of requested consumer groups ('tools-group') was successful."]


def test_transactions(tool: Tool, servers: str) -> None:
    topics.create(servers, "tools-transactions")
    with topics.transaction(servers, "tools-id") as producer:
        topics.fill_transaction(producer, "tools-transactions", [b"1"])
        listed = rows(tool("kafka-transactions", "list"), "TransactionalId")
        assert [row[3] for row in listed if row[0] == "tools-id"] == ["Ongoing"]
        whose = ("--transactional-id", "tools-id")
        (row,) = rows(tool("kafka-transactions", "describe", *whose), "CoordinatorId")
        assert (row[1], row[4], row[-1]) == ("tools-id", "Ongoing", "tools-transactions-0")
        where = ("--topic", "tools-transactions", "--partition", "0")
        (row,) = rows(tool("kafka-transactions", "describe-producers", *where), "ProducerId")
        assert row[-1] == "0"
        hanging = tool("kafka-transactions", "find-hanging", "--broker-id", "1")
        assert rows(hanging, "Topic") == []
        producer.commit_transaction()
    listed = rows(tool("kafka-transactions", "list"), "TransactionalId")
    assert [row[3] for row in listed if row[0] == "tools-id"] == ["CompleteCommit"]


def test_log_dirs(tool: Tool, servers: str) -> None:
    topics.create(servers, "tools-log-dirs")
    topics.fill(servers, "tools-log-dirs", [b"x" * 5_000])
    lines = tool("kafka-log-dirs", "--describe", "--topic-list", "tools-log-dirs")
    (broker,) = json.loads(lines[-1])["brokers"]
    (folder,) = broker["logDirs"]
    (partition,) = folder["partitions"]
    assert (broker["broker"], folder["error"]) == (1, None)
    assert partition["partition"] == "tools-log-dirs-0"
    assert partition["size"] > 5_000


def test_offsets(tool: Tool, servers: str) -> None:
    topics.create(servers, "tools-offsets")
    topics.fill(servers, "tools-offsets", [b"1", b"2", b"3"], timestamps_ms=[1_000, 3_000, 2_000])
    topics.delete_records(servers, "tools-offsets", 1)

    def at(time: str) -> list[str]:
        return tool("kafka-get-offsets", "--topic", "tools-offsets", "--time", time)

    assert at("latest") == ["tools-offsets:0:3"]
    assert at("earliest") == at("earliest-local") == ["tools-offsets:0:1"]
    assert at("max-timestamp") == at("2500") == ["tools-offsets:0:1"]
    # There is no other tier.
    assert at("latest-tiered") == at("earliest-pending-upload") == []


def test_what_there_is_nothing_to_say_of(tool: Tool) -> None:
    refused = tool("kafka-acls", "--list", complains=True)
    assert any("SecurityDisabledException" in line for line in refused)
    listed = tool("kafka-reassign-partitions", "--list")
    assert listed == ["No partition reassignments found."]
    assert any("Produce(0)" in line for line in tool("kafka-broker-api-versions"))
