"""What implementers get wrong because clients take it for granted: items 30 and 34 to 36."""

from random import Random

from kafka import KafkaConsumer, KafkaProducer

from semel.journal.file.memory import MemoryDevice
from semel.records.batch import read_header
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.handled import call, opened, started
from support.inside import state_of
from support.raw_client import (
    RawClient,
    fetch,
    fetch_request,
    fetched_values,
    produce_request,
    produce_values,
)
from support.seeded_loop import run

UNKNOWN_TOPIC, SESSION_NOT_FOUND = 3, 70
NO_SESSION, FIRST_OF_SESSION, NEXT_OF_SESSION = -1, 0, 1


def test_30_a_client_that_wants_a_fetch_session_is_told_to_go_on_without(
    semel_broker: Broker,
) -> None:
    with RawClient(semel_broker) as client:
        client.create_topic("sessions")
        produce_values(client, "sessions", [b"a", b"b"])
        request = fetch_request("sessions", 0)
        for session_epoch in (NO_SESSION, FIRST_OF_SESSION, FIRST_OF_SESSION):
            request.session_epoch = session_epoch
            response = client.call("fetch", 11, request)
            assert (response.error_code, response.session_id) == (0, 0)
            # All of it each time, not only what is new since the last fetch.
            (answer,) = response.responses[0].partitions
            assert read_header(bytes(answer.records)).record_count == 2
        request.session_id, request.session_epoch = 7, NEXT_OF_SESSION
        response = client.call("fetch", 11, request)
        assert (response.error_code, response.responses) == (SESSION_NOT_FOUND, [])


def test_30_a_consumer_that_tries_sessions_reads_what_comes_later(semel_broker: Broker) -> None:
    with RawClient(semel_broker) as client:
        client.create_topic("sessions-of-a-client")
        consumer = KafkaConsumer(
            "sessions-of-a-client",
            bootstrap_servers=semel_broker.bootstrap_servers,
            auto_offset_reset="earliest",
        )
        try:
            for value in (b"first", b"second", b"third"):
                produce_values(client, "sessions-of-a-client", [value])
                assert next(consumer).value == value
        finally:
            consumer.close()


def test_34_a_topic_is_made_by_asking_for_it_unless_the_client_says_not_to(
    semel_broker: Broker,
) -> None:
    with RawClient(semel_broker) as client:

        def code(version: int, name: str, *, may_create: bool = True) -> int:
            topics = [MetadataRequestTopic(name=name)]
            request = MetadataRequest(topics, allow_auto_topic_creation=may_create)
            (topic,) = client.call("metadata", version, request).topics
            return int(topic.error_code)

        for version in (0, 1, 4, 8, 9, 12):
            assert code(version, f"asked-for-in-v{version}") == 0
            assert code(12, f"asked-for-in-v{version}", may_create=False) == 0
        for version in (4, 12):
            assert code(version, "not-wanted", may_create=False) == UNKNOWN_TOPIC
        assert produce_values(client, "asked-for-in-v12", [b"at once"]) == 0


def test_35_a_producer_with_its_defaults_is_idempotent(semel_broker: Broker) -> None:
    for _ in range(2):
        producer = KafkaProducer(bootstrap_servers=semel_broker.bootstrap_servers)
        try:
            for value in (b"one", b"two"):
                producer.send("defaults", value).get(60)
        finally:
            producer.close()
    with RawClient(semel_broker) as client:
        assert fetched_values(client, "defaults") == [b"one", b"two"] * 2
        headers = [
            read_header(bytes(fetch(client, "defaults", offset, max_bytes=1).records))
            for offset in range(4)
        ]
    assert [(each.producer_epoch, each.base_sequence) for each in headers] == [(0, 0), (0, 1)] * 2
    assert len({each.producer_id for each in headers} - {-1}) == 2


def test_36_batches_carry_the_brokers_leader_epoch_and_it_tells_where_each_ended() -> None:
    """librdkafka writes epoch 0 into its batches, whatever the epoch is."""
    rng = Random(1)
    device = MemoryDevice(rng)
    batch = encode_batch([Record(None, b"x", 1)] * 3, leader_epoch=0)

    async def life(term: int) -> None:
        broker = opened(device, rng)
        async with started(broker):
            assert state_of(broker).term == term
            if term == 0:
                request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
                await call(broker, "create_topics", 7, request)
            await call(broker, "produce", 9, produce_request("t", batch))
            fetched = await call(broker, "fetch", 11, fetch_request("t", 3 * term))
            (answer,) = fetched.responses[0].partitions
            assert read_header(b"".join(answer.records)).leader_epoch == term
            wanted = [OffsetForLeaderPartition(0, term, epoch) for epoch in range(term + 1)]
            found = [
                (await call(broker, "offset_for_leader_epoch", 4, _asking(each))).topics[0]
                for each in wanted
            ]
            ends = [
                (each.partitions[0].leader_epoch, each.partitions[0].end_offset) for each in found
            ]
            assert ends == [(epoch, 3 * epoch + 3) for epoch in range(term + 1)]

    for term in range(3):
        run(rng, life(term))
        device.power_loss()


def _asking(wanted: OffsetForLeaderPartition) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [wanted])])
