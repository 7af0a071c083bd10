"""A socket that speaks Kafka by hand, so that a test can say what no client would."""

import json
import re
import socket
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from semel.records.batch import split
from semel.records.records import Record, decode_batch, encode_batch
from semel.testing import Broker
from semel.wire.apis import APIS, Api
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIMEOUT_S = 60
LATEST = -1
BY_MODULE: dict[str, Api] = {api.module: api for api in APIS}


def request_frame(
    module: str, version: int, body: bytes, correlation_id: int = 1, key: int | None = None
) -> bytes:
    """A request with its size in front."""
    api = BY_MODULE[module]
    header = (
        struct.pack(">hhih", api.key if key is None else key, version, correlation_id, 1) + b"x"
    )
    if version >= api.flexible_version_min:
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def encoded(module: str, version: int, request: Any) -> bytes:
    return b"".join(bytes(part) for part in BY_MODULE[module].encode_request(request, version))


class Listening(Protocol):
    """A broker, in a process or a thread of its own."""

    port: int


class RawClient:
    def __init__(self, broker: Listening) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)

    def send(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def receive(self) -> bytes | None:
        """One reply without its size; None if the broker has closed the connection."""
        head = self._receive_exactly(4)
        if head is None:
            return None
        (size,) = struct.unpack(">i", head)
        return self._receive_exactly(size)

    def call(self, module: str, version: int, request: Any) -> Any:
        """The decoded response; fails if the connection is closed instead."""
        self.send(request_frame(module, version, encoded(module, version, request)))
        reply = self.receive()
        assert reply is not None, "the broker closed the connection"
        return decoded_reply(module, version, reply)

    @property
    def is_closed_by_broker(self) -> bool:
        """Waits until the broker has closed, or says anything else."""
        return self.receive() is None

    def create_topic(self, name: str, partition_count: int = 1, **config: str) -> None:
        settings = [
            CreatableTopicConfig(key.replace("_", "."), value) for key, value in config.items()
        ]
        topic = CreatableTopic(name, partition_count, 1, configs=settings)
        (result,) = self.call("create_topics", 7, CreateTopicsRequest([topic])).topics
        assert result.error_code == 0, result.error_message

    def create_group_topic(self) -> None:
        """The topic of the groups' offsets, which the broker makes for the first group."""
        answer = self.call("find_coordinator", 4, FindCoordinatorRequest(coordinator_keys=["g"]))
        assert [found.error_code for found in answer.coordinators] == [0]

    def produce_to_partitions(self, topic: str, batches: Sequence[bytes]) -> list[int]:
        """One request with a batch for each partition from 0 on; the error codes."""
        data = [PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
        request = ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, data)])
        (answer,) = self.call("produce", 9, request).responses
        return [each.error_code for each in answer.partition_responses]

    def send_produce_without_acks(self, topic: str, batch: bytes) -> None:
        request = produce_request(topic, batch, acks=0)
        self.send(request_frame("produce", 9, encoded("produce", 9, request)))

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The durable end of the partition."""
        return self.offset_at(topic, LATEST, partition)

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int:
        """The first offset at or after a time."""
        wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=timestamp_ms)])
        (answer,) = self.call("list_offsets", 7, ListOffsetsRequest(topics=[wanted])).topics
        (found,) = answer.partitions
        assert found.error_code == 0
        return int(found.offset)

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        """Where the partition starts then."""
        wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, before_offset)])
        (answer,) = self.call("delete_records", 2, DeleteRecordsRequest([wanted])).topics
        (deleted,) = answer.partitions
        assert deleted.error_code == 0
        return int(deleted.low_watermark)

    def shut_down(self) -> None:
        """Send nothing more, as a client does that is about to go."""
        self._socket.shutdown(socket.SHUT_WR)

    def _receive_exactly(self, size: int) -> bytes | None:
        received = bytearray()
        while len(received) < size:
            try:
                more = self._socket.recv(min(size - len(received), 1 << 20))
            except ConnectionError:
                return None
            if not more:
                return None
            received += more
        return bytes(received)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()


def produce_request(
    topic: str, batch: bytes | None, *, acks: int = -1, partition: int = 0
) -> ProduceRequest:
    data = PartitionProduceData(partition, batch)
    return ProduceRequest(None, acks, 30_000, [TopicProduceData(topic, partition_data=[data])])


def produce(client: RawClient, topic: str, batch: bytes | None, **options: int) -> Any:
    """The answer for the one partition written to."""
    response = client.call("produce", 9, produce_request(topic, batch, **options))
    return response.responses[0].partition_responses[0]


def produce_values(client: RawClient, topic: str, values: Sequence[bytes]) -> int:
    """The offset of the first."""
    records = [Record(None, value, 1_000) for value in values]
    answer = produce(client, topic, encode_batch(records))
    assert answer.error_code == 0, answer.error_message
    return int(answer.base_offset)


def fetch_request(
    topic: str,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    leader_epoch: int = -1,
) -> FetchRequest:
    wanted = FetchPartition(
        0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic, partitions=[wanted])],
    )


def fetch(client: RawClient, topic: str, offset: int, **options: int) -> Any:
    """The answer for partition 0."""
    response = client.call("fetch", 11, fetch_request(topic, offset, **options))
    return response.responses[0].partitions[0]


def fetched_values(client: RawClient, topic: str, offset: int = 0) -> list[bytes | None]:
    answer = fetch(client, topic, offset)
    assert answer.error_code == 0
    return [
        record.value
        for _, batch in split(bytes(answer.records or b""))
        for record in decode_batch(batch)
        if record.offset >= offset
    ]


def decoded_reply(module: str, version: int, reply: bytes) -> Any:
    api = BY_MODULE[module]
    start = 5 if api.response_header_version(version) else 4
    response, end = api.decode_response(reply, start, version)
    assert end == len(reply)
    return response


def resident_bytes(broker: Broker) -> int:
    status = Path(f"/proc/{broker.process_id}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def peak_resident_bytes(broker: Broker) -> int:
    status = Path(f"/proc/{broker.process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


METRICS = ("--metrics", "127.0.0.1:0")
"""Arguments of a broker whose numbers `metric` reads."""


def monitoring_address(broker: Broker) -> str:
    address = re.search(r"(http://[0-9.:]+)/metrics", broker.complaints())
    assert address is not None, "start the broker with METRICS"
    return address[1]


def readiness(broker: Broker, query: str = "") -> tuple[int, str, bool]:
    """The status, the state, and whether writes are taken."""
    try:
        with urllib.request.urlopen(
            f"{monitoring_address(broker)}/readyz{query}", timeout=TIMEOUT_S
        ) as page:
            status, told = page.status, json.load(page)
    except urllib.error.HTTPError as refused:
        with refused:
            status, told = refused.code, json.loads(refused.read())
    assert told["ready"] == (status == 200)
    return status, told["state"], told["writes"]


def metric(broker: Broker, name: str) -> float:
    value = metric_if_shown(broker, name)
    assert value is not None, f"there is no {name}"
    return value


def metric_if_shown(broker: Broker, name: str) -> float | None:
    with urllib.request.urlopen(f"{monitoring_address(broker)}/metrics", timeout=TIMEOUT_S) as page:
        text = page.read().decode()
    found = re.search(rf"^{name}(?:_total)? (\S+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def until_shown(broker: Broker, name: str, value: float) -> None:
    """It is counted now and then; nobody tells when."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while (shown := metric_if_shown(broker, name)) != value:
        assert time.monotonic() < deadline_s, f"{name} is {shown} and not {value}"
