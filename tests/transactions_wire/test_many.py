"""Very many at once: partitions of one transaction, and transactions that are open."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from semel.testing import Broker
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from support.kafka_codes import NONE
from support.power_loss import Disk
from support.raw_client import RawClient
from support.transactional_wire import TV1, WireProducer, answer_to, fetch, frame

SMALLEST = {"message.max.bytes": 100_000, "journal.segment.bytes": 1_600_000}
OPEN_COUNT = 1_500
IN_FLIGHT = 100


def _call_all(client: RawClient, module: str, version: int, requests: Sequence[Any]) -> list[Any]:
    answers = []
    for first in range(0, len(requests), IN_FLIGHT):
        some = requests[first : first + IN_FLIGHT]
        client.send(b"".join(frame(module, version, request) for request in some))
        answers += [answer_to(client, module, version) for _ in some]
    return answers


def _open_many(client: RawClient, producer: WireProducer) -> None:
    names = [f"id-{number}" for number in range(OPEN_COUNT)]
    inits = [InitProducerIdRequest(name, 60_000) for name in names]
    writes = []
    for name, given in zip(names, _call_all(client, "init_producer_id", 5, inits), strict=True):
        producer.transactional_id = name
        producer.adopt(given.producer_id, given.producer_epoch)
        writes.append(producer.produce_request("t", [b"v"]))
    answers = _call_all(client, "produce", 12, writes)
    assert {each.responses[0].partition_responses[0].error_code for each in answers} == {NONE}


def test_more_open_transactions_than_a_frame_can_abort_do_not_keep_the_broker_from_starting(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path / "data")
    with Broker(data=disk.folder, settings=SMALLEST) as broker:
        with RawClient(broker) as client, WireProducer(broker, "") as producer:
            client.create_topic("t")
            _open_many(client, producer)
        disk.lose_power(broker, everything_unsynced=False)
        with RawClient(broker) as client:
            found = fetch(client, "t", max_bytes=2**25)
            assert found.last_stable_offset == found.high_watermark == 2 * OPEN_COUNT
            assert len(found.markers) == OPEN_COUNT
            assert found.committed_values == []
        # All of it was said in the term that has risen once.
        broker.kill()
        broker.start()
        with RawClient(broker) as client:
            assert fetch(client, "t").high_watermark == 2 * OPEN_COUNT


def test_a_transaction_over_thousands_of_partitions_is_one_commit(
    broker: Broker, client: RawClient, name: str
) -> None:
    client.create_topic(name, 3_000)
    with WireProducer(broker, name, TV1) as producer:
        producer.init()
        assert set(producer.add(name, *range(3_000))) == {NONE}
        assert producer.produce(name, b"v", partition=2_999).error_code == NONE
        assert producer.commit() == NONE
    assert fetch(client, name, partition=2_999).committed_values == [b"v"]
    assert len(fetch(client, name).markers) == 1
