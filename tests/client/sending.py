"""Records into a topic, before what the test is about."""

from collections.abc import Iterable
from typing import Unpack

from semel.client.producing.asynchronous import AsyncProducer
from semel.client.producing.sent import Delivered
from semel.client.producing.settings import ProducerOptions
from semel.records.records import Record


async def send(
    bootstrap_servers: str,
    topic: str,
    records: Iterable[Record],
    partition: int | None = None,
    **options: Unpack[ProducerOptions],
) -> list[Delivered]:
    """Where each record is, once all are stored."""
    async with AsyncProducer(bootstrap_servers, **options) as producer:
        sent = [
            await producer.send(
                topic,
                record.value,
                record.key,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
                partition=partition,
            )
            for record in records
        ]
        return [await each for each in sent]
