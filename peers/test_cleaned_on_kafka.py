"""A compacted topic with transactions after Kafka's log cleaner, which leaves empty markers."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from peers.kafka_broker import Kafka

import semel
from semel.client.admin.transaction_history import stored_batches
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import beginnings_of, ends_of
from semel.client.connecting.address import parse_bootstrap_servers
from semel.types import TopicPartition
from support.command_line import Run

PLACE = TopicPartition("cleaned", 0)


@pytest.fixture(scope="module")
def semel_broker() -> Iterator[Kafka]:
    """Kafka in the place of our broker, with a cleaner that does not rest."""
    with Kafka({"log.cleaner.backoff.ms": 50}) as kafka:
        yield kafka


def has_empty_marker(servers: str) -> bool:
    async def look() -> bool:
        async with Cluster(parse_bootstrap_servers(servers)) as cluster:
            start = (await beginnings_of(cluster, [PLACE]))[PLACE]
            stop = (await ends_of(cluster, [PLACE]))[PLACE]
            headers = [batch.header async for batch in stored_batches(cluster, PLACE, start, stop)]
            return any(header.is_control and not header.record_count for header in headers)

    return asyncio.run(look())


def test_a_reader_steps_over_markers_that_the_cleaner_has_emptied(
    run: Run, semel_broker: Kafka
) -> None:
    servers = semel_broker.bootstrap_servers
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": 1,
        "min.cleanable.dirty.ratio": 0,
        "delete.retention.ms": 0,
    }
    options = itertools.chain.from_iterable(
        ("--config", f"{name}={value}") for name, value in settings.items()
    )
    code, _, said = run("topic", "create", PLACE.topic, "-p", "1", *options)
    assert code == 0, said
    with semel.Producer(servers, transactional_id="once") as producer:
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send(PLACE.topic, b"old", b"key")
            end()
    sent = 0
    with semel.Producer(servers) as producer:
        # Only what is written later gives the cleaner something to do.
        while not has_empty_marker(servers):
            producer.send(PLACE.topic, b"%d" % sent, b"key")
            producer.flush()
            sent += 1
    rows = semel.read(PLACE.topic, bootstrap_servers=servers)
    assert rows.column("value")[-1].as_py() == b"%d" % (sent - 1)
    with semel.Consumer(servers, isolation="read_committed") as consumer:
        consumer.assign([PLACE])
        last = None
        while last != b"%d" % (sent - 1):
            last = consumer.poll(30_000)[-1].value
