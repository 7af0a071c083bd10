"""What UIs and Kafka's tools ask by the Admin client of Kafka: as on Kafka, answer by answer."""

import subprocess
from collections.abc import Mapping

import pytest
from peers.kafka_broker import Kafka
from peers.registry import ROOT, jars, java_classes

from semel.testing import Broker

TIMEOUT_S = 300
CONFIGS = "describeConfigs, "
OF_TOPIC = "describeConfigs, TOPIC "

NOT_SERVED = "! UnsupportedVersionException"
"""The client says so itself, from what ApiVersions offers; Kafbat and AKHQ reckon with that."""

DIFFERENT = {
    **dict.fromkeys(
        (
            "alterReplicaLogDirs, elsewhere",
            "describeDelegationToken",
            "describeShareGroups",
            "describeStreamsGroups",
            "alterPartitionReassignments, none",
            "alterPartitionReassignments, as it is",
            "electLeaders",
            "electLeaders, of all",
            "unregisterBroker",
        ),
        NOT_SERVED,
    ),
    "describeFeatures, finalized": (
        "{transaction.version=FinalizedVersionRange[min_version_level:2, max_version_level:2]}"
    ),
    "describeFeatures, supported": (
        "{transaction.version=SupportedVersionRange[min_version:0, max_version:2]}"
    ),
    # The first leader epoch is 0; there is no broker beside the one that votes.
    "describeMetadataQuorum": "[true, false, true, 1, 0]",
    # When it was written, and not what time its record was given; and the coordinator has a term
    # before it has written a marker.
    "describeProducers": ("{answers-0=[[-1, now, true, none]], answers-1=[[0, now, true, 0]]}"),
    # A pattern of a client's could keep the broker busy for ever.
    "listTransactions, by pattern": "! UnsupportedProtocolFieldException",
    # As for a bad setting of a topic.
    "incrementalAlterConfigs, a broker's, bad": "! InvalidConfigurationException",
    # What groups of the new protocol have.
    "incrementalAlterConfigs, a group's": "! InvalidRequestException",
    "listConfigResources, BROKER_LOGGER": "[]",
}

DIFFERENT_CONFIGS = {
    # No time of a record is refused.
    "message.timestamp.after.max.ms",
    # Kafka sets it for all brokers when a cluster is made.
    "min.insync.replicas",
    # Kafka has no lanes.
    "semel.lane",
}


def asked(servers: str) -> dict[str, str]:
    """What was answered, by what was asked."""
    library = jars(ROOT / "peers" / "java")
    classes = java_classes(ROOT / "peers" / "java" / "AdminAnswers.java", library)
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{classes}:{library}/*", "AdminAnswers", servers],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(" = ", 1) for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def on_semel(semel_broker: Broker) -> Mapping[str, str]:
    return asked(semel_broker.bootstrap_servers)


@pytest.fixture(scope="module")
def on_kafka() -> Mapping[str, str]:
    with Kafka() as kafka:
        return asked(kafka.bootstrap_servers)


def test_every_answer_is_kafkas_or_one_of_those_that_are_known_to_differ(
    on_semel: Mapping[str, str], on_kafka: Mapping[str, str]
) -> None:
    plain = [call for call in on_kafka if not call.startswith(CONFIGS)]
    expected = {call: DIFFERENT.get(call, on_kafka[call]) for call in plain}
    assert {call: on_semel.get(call) for call in plain} == expected
    assert [call for call in DIFFERENT if on_semel[call] == on_kafka[call]] == []


def test_a_topic_shows_the_settings_of_kafka(
    on_semel: Mapping[str, str], on_kafka: Mapping[str, str]
) -> None:
    shown = {
        call.removeprefix(OF_TOPIC): answer
        for call, answer in on_semel.items()
        if call.startswith(OF_TOPIC)
    }
    assert {"cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes"} <= set(shown)
    for name in set(shown) - DIFFERENT_CONFIGS:
        # Value, source, and whether it can be changed; broker settings behind it differ.
        told = on_kafka[OF_TOPIC + name]
        assert shown[name].split("[")[1] == told.split("[")[1], name


def test_the_broker_shows_what_a_ui_looks_for(on_semel: Mapping[str, str]) -> None:
    """Kafbat reads the release from the first, and from the second whether to offer deletion."""
    broker = "describeConfigs, BROKER "
    assert on_semel[f"{broker}inter.broker.protocol.version"].startswith("[3.8-")
    assert on_semel[f"{broker}delete.topic.enable"].startswith("[true, ")
