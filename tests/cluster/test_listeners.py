"""Nodes with several listeners: clients come by one over TLS and sign in, nodes speak to each other
at another, and each client is told of all nodes as its listener finds them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import kafka
import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from semel.testing import Cluster
from semel.testing.asking import NoAnswer, ask
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.metadata import MetadataRequest
from support.authority import Authority
from support.raw_client import RawClient, request_frame
from support.secured_in_thread import At
from support.signing_in import ports_of

LISTENERS = ("OPEN", "CLIENTS", "INSIDE")
PATIENCE_S = 60.0
USER, PASSWORD = "ana", "tulip"


class Secured(NamedTuple):
    cluster: Cluster
    authority: Authority

    def ports(self, listener: str) -> dict[int, int]:
        """Of all nodes that run."""
        return {
            node_id: ports_of(node.ready)[listener]
            for node_id, node in self.cluster.nodes.items()
            if node.is_running
        }

    @property
    def settings(self) -> dict[str, Any]:
        """By which librdkafka comes in."""
        return {
            "bootstrap.servers": ",".join(
                f"127.0.0.1:{port}" for port in self.ports("CLIENTS").values()
            ),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.trusted),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 500,
        }

    def steer(self, *arguments: str, secured: bool = True) -> "subprocess.CompletedProcess[str]":
        security = []
        if secured:
            for name, value in inside(self.authority).items():
                security += ["-X", f"{name}={value}"]
        place = ["--store", self.cluster.store, "--ephemeral", "--json"]
        return subprocess.run(
            [sys.executable, "-m", "semel", "cluster", *arguments, *place, *security],
            check=False,
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("listeners")
    authority = Authority(folder)
    users = folder / "users.toml"
    users.write_text(f'{USER} = "{PASSWORD}"\n')
    users.chmod(0o600)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": "OPEN:PLAINTEXT,CLIENTS:SASL_SSL,INSIDE:SSL",
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.location": authority.certificate("node"),
        "ssl.truststore.location": authority.trusted,
        # Not even the key of the cluster helps who has no certificate.
        "listener.name.inside.ssl.client.auth": "required",
        "initial.users": users,
    }
    with Cluster(settings=settings, lanes=2, security=inside(authority)) as cluster:
        yield Secured(cluster, authority)


def inside(authority: Authority) -> dict[str, str]:
    """How the nodes are steered."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.trusted),
        "ssl.certificate.location": str(authority.trusted.with_name("node.pem")),
    }


def named(port: int) -> dict[int, int]:
    """The nodes and their ports, as this listener of a node tells of them."""
    told = ask(("127.0.0.1", port), "Metadata", 12, MetadataRequest([]), PATIENCE_S)
    return {each.node_id: each.port for each in told.brokers}


def all_are_found_where_they_listen(secured: Secured) -> None:
    plain = secured.ports("OPEN")
    for port in plain.values():
        assert named(port).items() >= plain.items()
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        (found,) = ask(("127.0.0.1", port), "FindCoordinator", 4, request, PATIENCE_S).coordinators
        assert found.port == plain[found.node_id]
    for node_id, port in secured.ports("CLIENTS").items():
        one = {**secured.settings, "bootstrap.servers": f"127.0.0.1:{port}"}
        admin = AdminClient(one)
        brokers = admin.list_topics(timeout=PATIENCE_S).brokers
        told = {each.id: each.port for each in brokers.values()}
        assert told.items() >= secured.ports("CLIENTS").items(), f"by node {node_id}"


def consumed(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        message: Message | None = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(values)} of {count}"
        if message.error() is None:
            values.append(message.value() or b"")
    return sorted(values)


def test_clients_find_all_nodes_by_the_listener_that_they_came_to(secured: Secured) -> None:
    cluster = secured.cluster
    all_are_found_where_they_listen(secured)
    admin = AdminClient(secured.settings)
    (made,) = admin.create_topics([NewTopic("t", 4)]).values()
    made.result(PATIENCE_S)
    producer = Producer({**secured.settings, "linger.ms": 0})
    consumer = Consumer({**secured.settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])

    def sent_and_read(begin: int) -> None:
        for number in range(begin, begin + 20):
            producer.produce("t", b"%03d" % number, partition=number % 4)
        assert producer.flush(PATIENCE_S) == 0
        assert consumed(consumer, 20) == [b"%03d" % each for each in range(begin, begin + 20)]

    sent_and_read(0)
    # What lane 0 says outlives who led it, and so do checkpoints.
    leader = cluster.leader
    cluster.kill(leader)
    sent_and_read(20)
    all_are_found_where_they_listen(secured)
    cluster.start(leader)
    moved = secured.steer("move", "--to", str(leader))
    assert json.loads(moved.stdout)["leader"] == leader == cluster.leader, moved.stderr
    sent_and_read(40)
    all_are_found_where_they_listen(secured)
    consumer.close()


def test_other_clients_come_in_as_well(secured: Secured) -> None:
    (port, *_) = secured.ports("CLIENTS").values()
    settings = {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.authority.trusted),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    with kafka.KafkaProducer(**settings) as producer:
        sent = [producer.send("others", b"%d" % number) for number in range(10)]
        assert [each.get(PATIENCE_S).offset for each in sent] == list(range(10))
    with kafka.KafkaConsumer("others", auto_offset_reset="earliest", **settings) as consumer:
        assert [next(consumer).value for _ in range(10)] == [b"%d" % each for each in range(10)]


def test_the_cluster_is_steered_by_who_can_reach_the_listener_of_its_nodes(
    secured: Secured,
) -> None:
    told = json.loads(secured.steer("status").stdout)
    ports = {each["node"]: each["port"] for each in told["nodes"]}
    assert ports == secured.ports("INSIDE")
    refused = secured.steer("status", secured=False)
    assert refused.returncode == 1
    assert "does not answer" in refused.stdout + refused.stderr


def test_nodes_call_at_their_listener_alone(secured: Secured) -> None:
    (port, *_) = secured.ports("OPEN").values()
    with RawClient(At(port)) as stranger:
        stranger.send(request_frame("metadata", 0, bytes(16), key=20_000))
        assert stranger.is_closed_by_broker
    with pytest.raises(NoAnswer):
        named(secured.ports("INSIDE")[1])
