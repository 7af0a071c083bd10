"""What looks like a fault of the broker and is one of a client, on any cluster."""

import asyncio

import kafka

from semel.testing import Broker
from support import looking
from support.raw_client import RawClient, fetched_values, produce_values

PATIENCE_MS = 30_000


def test_kafka_python_forgets_a_subscription_that_meets_a_reply_about_no_topic() -> None:
    """When it is made it asks for metadata, of no topic yet, once more than it needs.

    A subscription that comes before the reply sets the mark that more is wanted, and the reply
    clears it. Then nothing is asked and nothing read until metadata is too old, in five minutes.
    """
    with Broker() as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            produce_values(client, "t", [b"stored"])
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=None,
            auto_offset_reset="earliest",
            # The time until it asks once more, in which the broker has to be frozen.
            retry_backoff_ms=2_000,
        )
        try:
            broker.pause()
            metadata = consumer._cluster
            asyncio.run(looking.until(lambda: metadata.metadata_refresh_in_progress))
            consumer.subscribe(["t"])
            broker.resume()
            asyncio.run(looking.until(lambda: not metadata.metadata_refresh_in_progress))
            assert consumer.poll(2_000) == {}
            assert (consumer.assignment(), metadata.need_update) == (set(), False)
            with RawClient(broker) as client:
                assert fetched_values(client, "t") == [b"stored"]
            # Asking for the names of all topics makes it ask, and there everything is.
            assert consumer.topics() >= {"t"}
            ((record,),) = consumer.poll(PATIENCE_MS).values()
            assert record.value == b"stored"
        finally:
            broker.resume()
            consumer.close()
