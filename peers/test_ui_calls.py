"""What Kafbat UI and AKHQ do to a cluster, step by step, with an older client: as on Kafka."""

import subprocess
from collections.abc import Mapping

import pytest
from peers.kafka_broker import Kafka
from peers.registry import ROOT, jars, java_classes

from semel.testing import Broker

TIMEOUT_S = 300


def told(servers: str) -> dict[str, str]:
    """What came of each step."""
    library = jars(ROOT / "peers" / "java-3.9")
    classes = java_classes(ROOT / "peers" / "java" / "UiCalls.java", library)
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{classes}:{library}/*", "UiCalls", servers],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(" = ", 1) for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def on_semel(semel_broker: Broker) -> Mapping[str, str]:
    return told(semel_broker.bootstrap_servers)


def test_every_step_of_a_ui_does_what_it_asks(on_semel: Mapping[str, str]) -> None:
    assert [step for step, outcome in on_semel.items() if outcome.startswith("!")] == [
        "set all, bad"
    ]
    assert on_semel["own configs"] == "[cleanup.policy=compact, retention.ms=2000000]"
    assert on_semel["own configs, replaced"] == "[max.message.bytes=2000000]"
    assert on_semel["broker, shown"] == "[log.retention.ms=3000000]"
    assert on_semel["broker, shown again"] == "[]"
    assert on_semel["groups, none"] == "[]"
    assert on_semel["shown, deleted"] == "false"


def test_every_step_of_a_ui_comes_out_as_on_kafka(on_semel: Mapping[str, str]) -> None:
    with Kafka() as kafka:
        assert on_semel == told(kafka.bootstrap_servers)
