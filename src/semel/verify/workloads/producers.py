"""Producers that pipeline, retry and die; each record they send has a label found nowhere else."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.errors import InvalidProducerEpoch, OutOfOrderSequence
from semel.records.compression import Compression
from semel.records.records import Record, encode_batch
from semel.types import SEQUENCE_COUNT, TopicPartition
from semel.verify.history import Acknowledged, ProducerIdGiven, Refused, Sent
from semel.verify.workloads.client import Client, Connection, Lost, Reply
from semel.verify.world.loop import START_MS
from semel.wire.messages import init_producer_id, produce

ACKS_ALL, ACKS_ONE, ACKS_NONE = -1, 1, 0
IN_FLIGHT_MAX = 5
NO_PRODUCER = (-1, -1)
PATIENCES_S = (0.02, 0.1, 1.0)
"""Who waits less than a slow sync takes sends again what is not durable yet."""
PADDING_SIZES = (0, 200, 3_000, 24_000, 24_000)
"""Bytes. Large enough that a run fills a segment."""


Contents = Callable[[Client, TopicPartition, Sequence[str]], list[Record]]
"""Makes records of labels."""


class Superseded(Exception):
    """The broker no longer knows this producer as it knows itself; it must start anew."""


@dataclass(frozen=True)
class Batch:
    labels: tuple[str, ...]
    sequence: int
    content: bytes


@dataclass
class Stream:
    """What goes to one partition, in order."""

    partition: TopicPartition
    next_number: int = 0
    next_sequence: int = 0
    unacknowledged: deque[Batch] = field(default_factory=deque)
    sent_count: int = 0
    """How many of these were sent on the present connection."""
    was_acknowledged_once_written: bool = False


class Producer:
    """Up to five requests in flight, retried byte for byte and in order until acknowledged."""

    def __init__(
        self,
        client: Client,
        partitions: Sequence[TopicPartition],
        acks: int,
        batch_count: int,
        *,
        is_careless: bool = False,
        contents: Contents | None = None,
    ) -> None:
        self._client = client
        self._contents = plain_contents if contents is None else contents
        self._rng = client.rng
        self._acks = acks
        self._batches_left = batch_count
        self._patience_s = client.rng.choice(PATIENCES_S)
        self._is_careless = is_careless
        """It gives sequences whose fate it does not know to other records."""
        self._producer = NO_PRODUCER
        self._identity_count = 0
        self._partitions = partitions
        self._streams: list[Stream] = []

    async def run(self) -> None:
        while not self._is_done():
            connection = await self._client.connect(self._partitions[0])
            try:
                if self._producer == NO_PRODUCER:
                    await self._take_identity(connection)
                await self._produce(connection)
            except Lost:
                await self._client.back_off()
                if self._is_careless:
                    self._rewrite()
            except Superseded:
                self._producer = NO_PRODUCER
            connection.drop()

    def wind_up(self) -> None:
        """Begin nothing new; what was sent is still sent again until it is acknowledged."""
        self._batches_left = 0

    def _is_done(self) -> bool:
        return not self._batches_left and not any(each.unacknowledged for each in self._streams)

    async def _take_identity(self, connection: Connection) -> None:
        reply = await connection.ask(init_producer_id, init_producer_id.InitProducerIdRequest())
        if reply.message.error_code:
            raise Lost
        self._producer = (reply.message.producer_id, reply.message.producer_epoch)
        self._client.history.note(ProducerIdGiven(self._client.name, self._producer[0]))
        self._identity_count += 1
        first_sequence = self._rng.choice((0, 0, SEQUENCE_COUNT - 7))
        self._streams = [
            Stream(partition, next_sequence=first_sequence) for partition in self._partitions
        ]

    async def _produce(self, connection: Connection) -> None:
        in_flight: deque[tuple[Any, list[tuple[Stream, Batch]]]] = deque()
        is_disturbed = True
        while True:
            if is_disturbed and not in_flight:
                # What failed is sent again from the oldest on, before anything new.
                for stream in self._streams:
                    stream.sent_count = 0
                is_disturbed = False
            while not is_disturbed and len(in_flight) < IN_FLIGHT_MAX:
                chosen = self._choose()
                if not chosen:
                    break
                future = connection.send(produce, self._request(chosen))
                in_flight.append((future, chosen))
            if not in_flight:
                return
            future, chosen = in_flight.popleft()
            reply = await connection.wait(future, self._patience_s)
            is_disturbed |= not self._settle(reply, chosen, connection.term)
            if is_disturbed and self._rng.random() < 0.3:
                raise Lost
            if self._rng.random() < 0.3:
                await self._client.think()

    def _choose(self) -> list[tuple[Stream, Batch]]:
        """The next batch of one or more partitions."""
        count = self._rng.randint(1, len(self._streams))
        chosen: list[tuple[Stream, Batch]] = []
        for stream in self._rng.sample(self._streams, len(self._streams)):
            if len(chosen) == count:
                break
            if stream.sent_count == len(stream.unacknowledged):
                if not self._batches_left or stream.sent_count == IN_FLIGHT_MAX:
                    continue
                self._batches_left -= 1
                stream.unacknowledged.append(self._new_batch(stream))
            chosen.append((stream, stream.unacknowledged[stream.sent_count]))
            stream.sent_count += 1
        return chosen

    def _new_batch(self, stream: Stream) -> Batch:
        count = self._rng.choice((1, 1, 2, 5))
        sequence = stream.next_sequence
        stream.next_sequence = (sequence + count) % SEQUENCE_COUNT
        return self._batch(stream, sequence, count)

    def _batch(self, stream: Stream, sequence: int, count: int) -> Batch:
        who = f"{self._client.name}.{self._identity_count}"
        numbers = range(stream.next_number, stream.next_number + count)
        stream.next_number += count
        labels = tuple(f"{who}/{stream.partition}/{number}" for number in numbers)
        records = self._contents(self._client, stream.partition, labels)
        content = encoded(self._client, records, (*self._producer, sequence))
        self._client.history.note(
            Sent(who, stream.partition, labels, self._acks, True, not self._is_careless)
        )
        return Batch(labels, sequence, content)

    def _rewrite(self) -> None:
        """The same sequences again, for other records."""
        for stream in self._streams:
            for place, batch in enumerate(stream.unacknowledged):
                stream.unacknowledged[place] = self._batch(
                    stream, batch.sequence, len(batch.labels)
                )

    def _request(self, chosen: list[tuple[Stream, Batch]]) -> produce.ProduceRequest:
        return request_of(self._acks, [(each.partition, batch.content) for each, batch in chosen])

    def _settle(self, reply: Reply, chosen: list[tuple[Stream, Batch]], term: int) -> bool:
        """False if something must be sent again."""
        codes = outcomes(reply.message)
        is_well = True
        for stream, batch in chosen:
            code, base_offset = codes[stream.partition]
            is_next = stream.unacknowledged[0] is batch
            if code == 0 and is_next:
                stream.unacknowledged.popleft()
                stream.sent_count -= 1
                stream.was_acknowledged_once_written |= self._acks == ACKS_ONE
                self._acknowledged(reply, stream, batch, base_offset, term)
            elif code != 0:
                is_well = False
                self._refused(stream, batch, code, is_next=is_next)
            else:
                is_well = False  # One before it was refused, so this one is sent again too.
        return is_well

    def _acknowledged(
        self, reply: Reply, stream: Stream, batch: Batch, base_offset: int, term: int
    ) -> None:
        self._client.history.note(
            Acknowledged(
                reply.span,
                self._client.name,
                stream.partition,
                batch.labels,
                self._acks,
                base_offset,
                term,
            )
        )

    def _refused(self, stream: Stream, batch: Batch, code: int, *, is_next: bool) -> None:
        self._client.history.note(
            Refused(
                self._client.name,
                stream.partition,
                batch.labels,
                self._acks,
                code,
                is_next,
                stream.was_acknowledged_once_written or self._is_careless,
            )
        )
        if is_next and code in (OutOfOrderSequence.code, InvalidProducerEpoch.code):
            raise Superseded


class PlainProducer:
    """Without a producer id: sends each batch once, whatever becomes of it."""

    def __init__(
        self, client: Client, partitions: Sequence[TopicPartition], acks: int, batch_count: int
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._acks = acks
        self._batches_left = batch_count
        self._next_number = 0

    async def run(self) -> None:
        while self._batches_left:
            connection = await self._client.connect(self._partitions[0])
            try:
                while self._batches_left:
                    self._batches_left -= 1
                    await self._send(connection)
                    await self._client.think()
            except Lost:
                await self._client.back_off()
            connection.drop()

    async def _send(self, connection: Connection) -> None:
        client = self._client
        partition = client.rng.choice(self._partitions)
        labels = (f"{client.name}/{partition}/{self._next_number}",)
        self._next_number += 1
        client.history.note(Sent(client.name, partition, labels, self._acks, is_idempotent=False))
        content = encoded(client, plain_contents(client, partition, labels), (*NO_PRODUCER, -1))
        future = connection.send(
            produce, request_of(self._acks, [(partition, content)]), has_reply=self._acks != 0
        )
        if self._acks == ACKS_NONE:
            return
        reply = await connection.wait(future)
        code, base_offset = outcomes(reply.message)[partition]
        if code == 0:
            client.history.note(
                Acknowledged(
                    reply.span,
                    client.name,
                    partition,
                    labels,
                    self._acks,
                    base_offset,
                    connection.term,
                )
            )
        else:
            client.history.note(
                Refused(
                    client.name,
                    partition,
                    labels,
                    self._acks,
                    code,
                    is_next=False,
                    was_acknowledged_once_written=False,
                )
            )


def plain_contents(
    client: Client, partition: TopicPartition, labels: Sequence[str]
) -> list[Record]:
    return [
        Record(None, f"{label} ".encode() + bytes(client.rng.choice(PADDING_SIZES)), START_MS)
        for label in labels
    ]


def encoded(client: Client, records: Sequence[Record], producer: tuple[int, int, int]) -> bytes:
    producer_id, producer_epoch, sequence = producer
    return encode_batch(
        records,
        compression=client.rng.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


def label_of(record: Record) -> str:
    """One without a value has it in a header."""
    if record.value is None and record.headers:
        return (record.headers[0][1] or b"").decode()
    return (record.value or b"").split(b" ", 1)[0].decode(errors="replace")


def request_of(
    acks: int, batches: Sequence[tuple[TopicPartition, bytes]]
) -> produce.ProduceRequest:
    by_topic: dict[str, list[produce.PartitionProduceData]] = {}
    for partition, content in batches:
        by_topic.setdefault(partition.topic, []).append(
            produce.PartitionProduceData(partition.partition, content)
        )
    topics = [produce.TopicProduceData(name, parts) for name, parts in by_topic.items()]
    return produce.ProduceRequest(None, acks, 1000, topics)


def outcomes(response: produce.ProduceResponse) -> dict[TopicPartition, tuple[int, int]]:
    """Error code and base offset by partition."""
    return {
        TopicPartition(topic.name, each.index): (each.error_code, each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    }
