"""A transaction that hangs, which Apache Kafka allows if it is told not to verify them."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from peers.kafka_broker import Kafka

from semel.client.admin.transactions import fence
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.records.records import Record, encode_batch
from semel.types import TopicPartition
from semel.wire import apis
from semel.wire.messages import produce
from support.command_line import Run

PLACE = TopicPartition("hangs", 0)


@pytest.fixture(scope="module")
def semel_broker() -> Iterator[Kafka]:
    """Kafka in the place of our broker, which verifies always."""
    with Kafka({"transaction.partition.verification.enable": "false"}) as kafka:
        yield kafka


async def leave_open(servers: str) -> tuple[int, int]:
    """Write to a partition that the coordinator is never told of; the producer id and offset."""
    async with Cluster(parse_bootstrap_servers(servers)) as cluster:
        producer_id, epoch = await fence(cluster, "careless", 60_000)
        batch = encode_batch(
            [Record(None, b"left open", 0)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        request = produce.ProduceRequest(
            transactional_id="careless",
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                produce.TopicProduceData(
                    PLACE.topic, [produce.PartitionProduceData(PLACE.partition, batch)]
                )
            ],
        )
        leader_id = (await cluster.leaders_of([PLACE]))[PLACE]
        reply = await cluster.call(leader_id, produce, request)
        (answer,) = reply.responses[0].partition_responses
        assert answer.error_code == 0
        return producer_id, answer.base_offset


def test_a_transaction_that_hangs_is_found_and_aborted(
    run: Run, semel_broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From the next version on a partition joins its transaction with the first write.
    monkeypatch.setattr(apis.BY_KEY[produce.API_KEY], "version_max", 11)
    assert run("topic", "create", PLACE.topic, "-p", "2")[0] == 0
    producer_id, offset = asyncio.run(leave_open(semel_broker.bootstrap_servers))
    _, out, _ = run("txn", "hanging", "--json")
    (found,) = json.loads(out)
    assert found["reason"] == "left_behind"
    assert (found["transactional_id"], found["producer_id"]) == ("careless", producer_id)
    assert (found["topic"], found["partition"], found["first_offset"]) == (*PLACE, offset)
    assert run("txn", "abort", "careless")[0] == 1
    place = ["--topic", PLACE.topic, "--partition", str(PLACE.partition)]
    code, out, _ = run("txn", "abort", *place, "--start-offset", str(offset))
    assert code == 0
    assert f"producer {producer_id}" in out
    assert run("txn", "hanging", "--json") == (0, "[]\n", "")
    assert run("consume", PLACE.topic, "-e") == (0, "", "")
