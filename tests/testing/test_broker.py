"""`semel.testing.Broker`: ready when entered, gone when left, killed and started in between."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.testing import Broker, Cluster
from semel.testing.broker import BrokerDidNotStart
from support.raw_client import RawClient, fetched_values, produce_values

DEADLINE_S = 60


def is_alive(process_id: int) -> bool:
    return Path(f"/proc/{process_id}").exists()


def test_it_is_ready_when_entered_and_gone_when_left() -> None:
    with Broker() as broker:
        process_id = broker.process_id
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        with RawClient(broker) as client:
            client.create_topic("t")
            assert produce_values(client, "t", [b"x"]) == 0
    assert not is_alive(process_id)


def test_settings_are_kafkas() -> None:
    with Broker(settings={"num.partitions": 7}) as broker, RawClient(broker) as client:
        client.create_topic("t", -1)
        assert client.end_offset("t", 6) == 0


def test_a_setting_that_does_not_exist_is_told() -> None:
    with pytest.raises(BrokerDidNotStart, match=r"did you mean 'num\.partitions'"):
        Broker(settings={"num.partition": 7}).start()


def test_what_cannot_start_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="workers is 0: a broker has at least one"):
        Broker(workers=0)
    with pytest.raises(ConfigError, match="nodes is 0: a cluster has at least one"):
        Cluster(nodes=0)
    with pytest.raises(ConfigError, match="lanes is 0: a cluster has at least one"):
        Cluster(lanes=0)


def test_it_has_no_address_before_it_has_started() -> None:
    with pytest.raises(BrokerDidNotStart, match="no port before it has started: ask within"):
        Broker().bootstrap_servers  # noqa: B018


def test_with_a_folder_it_can_be_killed_stopped_and_started_on_the_same_port(
    tmp_path: Path,
) -> None:
    values: list[bytes] = []
    with Broker(data=tmp_path) as broker:
        port = broker.port
        with RawClient(broker) as client:
            client.create_topic("t")
        for end in (broker.kill, broker.stop, broker.kill):
            with RawClient(broker) as client:
                value = b"%d" % len(values)
                produce_values(client, "t", [value])
                values.append(value)
            end()
            broker.start()
            assert broker.port == port
        broker.restart()
        with RawClient(broker) as client:
            assert fetched_values(client, "t") == values


def test_a_paused_broker_answers_when_it_goes_on_and_can_be_left_paused() -> None:
    with Broker() as broker, RawClient(broker) as client:
        client.create_topic("t")
        broker.pause()
        broker.resume()
        assert client.end_offset("t") == 0
        broker.pause()


def test_a_killed_broker_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Broker() as broker:
        assert list(tmp_path.iterdir()) != []
        broker.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_owner_leaves_nothing_behind(tmp_path: Path) -> None:
    program = "import semel.testing as t; b = t.Broker(); b.start(); print(b.process_id); input()"
    with subprocess.Popen(
        [sys.executable, "-uc", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as owner:
        assert owner.stdout is not None
        broker = os.pidfd_open(int(owner.stdout.readline()))
        assert list(tmp_path.iterdir()) != []
        owner.kill()
    ended, _, _ = select.select([broker], [], [], DEADLINE_S)
    os.close(broker)
    assert ended
    assert list(tmp_path.iterdir()) == []


def test_the_fixture_gives_a_broker(semel_broker: Broker) -> None:
    with RawClient(semel_broker) as client:
        client.create_topic("fixture")
        assert client.end_offset("fixture") == 0


def test_many_warnings_do_not_hold_it_up() -> None:
    with Broker() as broker:
        for _ in range(1_500):
            with RawClient(broker) as client:
                client.send(b"\xff\xff\xff\xff")
                assert client.is_closed_by_broker
        with RawClient(broker) as client:
            client.create_topic("t")
