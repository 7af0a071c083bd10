"""What a transaction costs: a bare TV2 client against the same records with acks=all."""

import os
import selectors
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench import load, processes
from bench.figures import Figure, Plan, durable_broker
from semel.records.checksum import crc32c
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.apis import BY_KEY
from semel.wire.messages import end_txn, init_producer_id, produce

TOPIC = "bench"
PRODUCE, INIT, END = 0, 22, 26
PARTITION_COUNTS = (1, 8, 64)
NOW_MS = 1_700_000_000_000
EPOCH_MARK = 0x7A7B
"""Stands in a prepared request where the epoch will be."""
_EPOCH = struct.Struct(">h")
_CHECKSUM = struct.Struct(">I")


class TransactionalClient:
    """One connection, one transactional id, nothing but the requests that a transaction needs."""

    def __init__(self, port: int, transactional_id: str) -> None:
        self.link = socket.create_connection(("127.0.0.1", port))
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transactional_id = transactional_id
        reply = self._ask(INIT, 5, init_producer_id.InitProducerIdRequest(transactional_id, 60_000))
        assert reply.error_code == 0, f"InitProducerId answered {reply.error_code}"
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch

    def send(self, partition_count: int) -> None:
        """One record to each of the partitions, as part of the transaction."""
        batch = encode_batch(
            [Record(None, b"x" * 100, NOW_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self._produce(12, self._transactional_id, batch, partition_count)

    def send_plainly(self, partition_count: int) -> None:
        """The same records outside of a transaction, with acks=all."""
        batch = encode_batch([Record(None, b"x" * 100, NOW_MS)])
        self._produce(12, None, batch, partition_count)

    def commit(self) -> None:
        reply = self._ask(
            END,
            5,
            end_txn.EndTxnRequest(self._transactional_id, self.producer_id, self.epoch, True),
        )
        assert reply.error_code == 0, f"EndTxn answered {reply.error_code}"
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch

    def close(self) -> None:
        self.link.close()

    def _produce(
        self, version: int, transactional_id: str | None, batch: bytes, partition_count: int
    ) -> None:
        data = [produce.PartitionProduceData(index, batch) for index in range(partition_count)]
        topics = [produce.TopicProduceData(TOPIC, data)]
        reply = self._ask(
            PRODUCE, version, produce.ProduceRequest(transactional_id, -1, 30_000, topics)
        )
        for answered in reply.responses[0].partition_responses:
            assert answered.error_code == 0, f"Produce answered {answered.error_code}"

    def _ask(self, key: int, version: int, body: object) -> Any:
        self.link.sendall(load.request(key, version, body))
        reply = load.receive(self.link)
        header_size = 5 if version >= BY_KEY[key].flexible_version_min else 4
        return BY_KEY[key].decode_response(reply, header_size, version)[0]


def transaction_overhead(plan: Plan) -> Iterator[Figure]:
    """Median time of a transaction over that of the same records with acks=all."""
    rounds = int(plan.seconds * 200)
    commits: dict[int, float] = {}
    with durable_broker(num_partitions=64) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        client = TransactionalClient(broker.port, "overhead")
        floor = {"bare_round_trip_ms": _round_trip_ms(broker), "bare_sync_ms": sync_ms()}
        for count in PARTITION_COUNTS:
            plain, whole, commit = [], [], []
            for _ in range(rounds):
                started = time.perf_counter()
                client.send_plainly(count)
                plain.append(time.perf_counter() - started)
                started = time.perf_counter()
                client.send(count)
                sent = time.perf_counter()
                client.commit()
                done = time.perf_counter()
                whole.append(done - started)
                commit.append(done - sent)
            plain_ms, whole_ms = _median_ms(plain), _median_ms(whole)
            commits[count] = _median_ms(commit)
            yield Figure(
                f"transaction over {count} partition{'s' * (count > 1)}: time / acks=all",
                whole_ms / plain_ms,
                "<= 1.8",
                {"transaction_ms": whole_ms, "acks_all_ms": plain_ms, **floor},
            )
        client.close()
    yield Figure(
        "commit over 64 partitions: time / that over one",
        commits[64] / commits[1],
        "<= 2.5",
        {"commit_1_ms": commits[1], "commit_64_ms": commits[64]},
    )


def commits_at_once(plan: Plan) -> Iterator[Figure]:
    """Commits per second of 64 producers over those of one."""
    rates = {}
    for count in (1, 64):
        with durable_broker() as broker:
            load.wait_for_topic(broker.port, TOPIC)
            rates[count] = _commits_per_s(broker, count, plan.seconds)
    yield Figure(
        "64 producers committing at once: commits/s / those of one",
        rates[64] / rates[1],
        ">= 4",
        {"one_per_s": rates[1], "all_per_s": rates[64]},
    )


def idle_transactional_ids(plan: Plan) -> Iterator[Figure]:
    """What 100,000 transactional ids cost that nobody uses."""
    count = 100_000
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        broker = Broker(data=folder)
        with broker:
            load.wait_for_topic(broker.port, TOPIC)
            TransactionalClient(broker.port, "first").close()
            before_mb = processes.resident_mb(broker.process_id)
            _initialise(broker.port, count)
            grown_mb = processes.resident_mb(broker.process_id) - before_mb
            started = time.perf_counter()
            broker.kill()
            broker.start()
            killed_s = time.perf_counter() - started
            broker.stop()
            started = time.perf_counter()
            broker.start()
            stopped_s = time.perf_counter() - started
    yield Figure(
        "memory of an idle transactional id, KB",
        grown_mb * 1024 / count,
        "<= 1",
        {"start_after_kill_s": killed_s, "start_after_stop_s": stopped_s},
    )


def _initialise(port: int, count: int) -> None:
    names = (f"idle-{number:06d}" for number in range(count))
    with socket.create_connection(("127.0.0.1", port)) as link:
        window = 100
        for _ in range(count // window):
            link.sendall(
                b"".join(
                    load.request(INIT, 5, init_producer_id.InitProducerIdRequest(name, 60_000))
                    for _, name in zip(range(window), names, strict=False)
                )
            )
            for _ in range(window):
                load.receive_exactly(link)


def _commits_per_s(broker: Broker, producer_count: int, seconds: float) -> float:
    """All producers from one thread: each sends, commits, and begins anew."""
    selector = selectors.DefaultSelector()
    links = [PreparedClient(broker.port, f"at-once-{number}") for number in range(producer_count)]
    for link in links:
        selector.register(link.socket, selectors.EVENT_READ, link)
        link.send()
    started = now = time.perf_counter()
    while now - started < seconds:
        for key, _ in selector.select(1):
            key.data.go_on()
        now = time.perf_counter()
    selector.close()
    for link in links:
        link.socket.close()
    return sum(link.committed for link in links) / (now - started)


class PreparedClient:
    """A transactional producer whose requests are made once; only the epoch is put in anew."""

    def __init__(self, port: int, transactional_id: str) -> None:
        first = TransactionalClient(port, transactional_id)
        self.socket = first.link
        self.committed = 0
        self._is_committing = False
        batch = encode_batch(
            [Record(None, b"x" * 100, NOW_MS)],
            producer_id=first.producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        data = [produce.PartitionProduceData(0, batch)]
        topics = [produce.TopicProduceData(TOPIC, data)]
        sending = load.request(
            PRODUCE, 12, produce.ProduceRequest(transactional_id, -1, 30_000, topics)
        )
        self._sending = bytearray(sending)
        self._batch = sending.index(batch)
        self._batch_end = self._batch + len(batch)
        ending = end_txn.EndTxnRequest(transactional_id, first.producer_id, EPOCH_MARK, True)
        self._ending = bytearray(load.request(END, 5, ending))
        self._epoch_in_ending = self._ending.index(_EPOCH.pack(EPOCH_MARK))
        self._stamp(first.epoch)

    def send(self) -> None:
        self.socket.sendall(self._sending)

    def go_on(self) -> None:
        reply = load.receive_exactly(self.socket)
        if not self._is_committing:
            self._is_committing = True
            self.socket.sendall(self._ending)
            return
        answer, _ = end_txn.decode_response(reply, 5, 5)
        assert answer.error_code == 0, f"EndTxn answered {answer.error_code}"
        self.committed += 1
        self._is_committing = False
        self._stamp(answer.producer_epoch)
        self.send()

    def _stamp(self, epoch: int) -> None:
        _EPOCH.pack_into(self._sending, self._batch + 51, epoch)
        checksum = crc32c(memoryview(self._sending)[self._batch + 21 : self._batch_end])
        _CHECKSUM.pack_into(self._sending, self._batch + 17, checksum)
        _EPOCH.pack_into(self._ending, self._epoch_in_ending, epoch)


def _round_trip_ms(broker: Broker) -> float:
    """A request that the broker answers from memory."""
    frame = load.request(18, 0, BY_KEY[18].messages.ApiVersionsRequest())
    done = load.run(broker.port, lambda: frame, connections=1, in_flight=1, seconds=0.5)
    return statistics.median(done.latencies_ms)


def sync_ms() -> float:
    """Append 1 KB to a preallocated file and fdatasync it."""
    with tempfile.NamedTemporaryFile() as file:
        number = file.fileno()
        os.posix_fallocate(number, 0, 1 << 20)
        times = []
        for step in range(300):
            started = time.perf_counter()
            os.pwrite(number, bytes(1024), step * 1024)
            os.fdatasync(number)
            times.append(time.perf_counter() - started)
    return _median_ms(times)


def _median_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000
