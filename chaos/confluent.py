"""Clients of confluent-kafka, that is of librdkafka: unmodified, and with its own defaults but for
how long it waits for an answer and before it connects again, and whether it forgets all nodes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ConfluentPartition

from chaos.scene import (
    CLIENT_TIMEOUT_MS,
    LEFT,
    PLAIN,
    RIGHT,
    SENDS_PER_TURN,
    TURN_S,
    Client,
    Hung,
    Scene,
    within,
)
from semel.types import TopicPartition
from semel.verify.judging.operations import (
    Commit,
    End,
    Init,
    Inputs,
    Known,
    OffsetRead,
    Poll,
    Seen,
    Send,
)

WAIT_S: Final = 30.0
OFFSETS_S: Final = 10.0
HUNG_S: Final = 15.0
QUEUED_MAX: Final = 200
ABORTED_OF_TEN: Final = 1
INPUTS_MAX: Final = 20


def common(scene: Scene) -> dict[str, Any]:
    return {
        "bootstrap.servers": scene.servers,
        "socket.timeout.ms": CLIENT_TIMEOUT_MS,
        # As with other clients: ten seconds are the default, and a node that was away leads again.
        "reconnect.backoff.max.ms": 1_000,
        # Who begins anew with its first addresses forgets a coordinator in the middle of a request,
        # and then waits for ever (librdkafka's issue 5511).
        "metadata.recovery.strategy": "none",
        # Complaints about brokers that are away are what this is about.
        "log_level": 0,
    }


class Unwelcome(Exception):
    """A client was told what it should never hear."""


def error_of(raised: KafkaException) -> KafkaError:
    error = raised.args[0]
    assert isinstance(error, KafkaError)
    return error


class Sender:
    """Notes what becomes of each record."""

    def __init__(self, scene: Scene, process: str, producer: Producer) -> None:
        self._scene = scene
        self._process = process
        self._producer = producer
        self._under_way: dict[str, tuple[float, TopicPartition, str | None]] = {}
        self.acknowledged = 0
        self.refused: list[str] = []

    def send(self, partition: TopicPartition, value: str, transaction: str | None = None) -> None:
        self._under_way[value] = (self._scene.now_s(), partition, transaction)
        self._producer.produce(
            partition.topic, value.encode(), partition=partition.partition, on_delivery=self._told
        )

    def _told(self, error: KafkaError | None, message: Message) -> None:
        content = message.value()
        assert isinstance(content, bytes)
        if error is None:
            self.acknowledged += 1
            self._note(content.decode(), Known.OK, message.offset())
        else:
            self.refused.append(str(error))
            self._note(content.decode(), Known.UNKNOWN, None)

    def give_up(self) -> None:
        """Nothing more will be heard of what is under way."""
        for value in list(self._under_way):
            self._note(value, Known.UNKNOWN, None)

    def _note(self, value: str, known: Known, offset: int | None) -> None:
        if value not in self._under_way:
            return
        began_s, partition, transaction = self._under_way.pop(value)
        self._scene.note(
            Send(
                self._scene.since(began_s),
                self._process,
                partition,
                value,
                known,
                offset,
                transaction,
            )
        )


class IdempotentProducer(Client):
    """No record may be refused: there is always somebody who will take it."""

    is_first = True
    is_quick = True

    def open(self) -> None:
        self._producer = Producer({**common(self.scene), "enable.idempotence": True})
        self._sender = Sender(self.scene, self.name, self._producer)
        self._count = 0

    def turn(self) -> None:
        if len(self._producer) < QUEUED_MAX:
            for _ in range(SENDS_PER_TURN):
                self._sender.send(self.pick((PLAIN,)), f"{self.name}-{self._count}")
                self._count += 1
        self._producer.poll(0)
        self.scene.stopping.wait(TURN_S)
        self._producer.poll(0)
        self.done_count = self._sender.acknowledged
        self._complain()

    def close(self) -> None:
        left = self._producer.flush(2 * WAIT_S)
        self._complain()
        if left:
            raise Unwelcome(f"{left} records were not acknowledged at the end")

    def _complain(self) -> None:
        if self._sender.refused:
            raise Unwelcome(f"an idempotent send was refused: {self._sender.refused[0]}")


class Transactions(Client):
    """A transactional producer, which starts anew when it is fenced."""

    def open(self) -> None:
        self.fatal: list[str] = []
        self.hung: list[str] = []
        self._number = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.process = f"{self.name}.{self.restarts}"
        self.producer = Producer(
            {**common(self.scene), "transactional.id": self.name, "transaction.timeout.ms": 30_000}
        )
        self.sender = Sender(self.scene, self.process, self.producer)
        began_s = self.scene.now_s()
        self._insist(lambda: self.producer.init_transactions(WAIT_S))
        self.scene.note(Init(self.scene.since(began_s), self.process, self.name))

    @staticmethod
    def _insist(deed: Callable[[], object]) -> None:
        """As the library's manual has it: what is retriable is called again."""
        while True:
            try:
                deed()
            except KafkaException as raised:
                if not error_of(raised).retriable():
                    raise
            else:
                return

    def transact(self, work: Callable[[str], None], *, is_commit: bool = True) -> bool:
        """Whether it is committed, for all that is known."""
        self._number += 1
        transaction = f"{self.process}-{self._number}"
        began_s = self.scene.now_s()
        try:
            self.producer.begin_transaction()
            work(transaction)
            began_s = self.scene.now_s()
            if is_commit:
                self._insist(lambda: self.producer.commit_transaction(WAIT_S))
            else:
                self._insist(lambda: self.producer.abort_transaction(WAIT_S))
        except KafkaException as raised:
            self._recover(transaction, began_s, error_of(raised))
            return False
        except Hung:
            self.hung.append(transaction)
            self._leave(transaction, began_s)
            return False
        self.scene.note(
            End(self.scene.since(began_s), self.process, transaction, Known.OK, is_commit)
        )
        self.done_count += 1
        return is_commit

    def _recover(self, transaction: str, began_s: float, error: KafkaError) -> None:
        if error.txn_requires_abort():
            try:
                self._insist(lambda: self.producer.abort_transaction(WAIT_S))
            except KafkaException as raised:
                error = error_of(raised)
            else:
                self.scene.note(
                    End(self.scene.since(began_s), self.process, transaction, Known.OK, False)
                )
                return
        # Fenced: whether it is committed cannot be told by this client.
        self.fatal.append(f"{transaction}: {error}")
        self.producer.purge()
        # It tells of the fence once more.
        with suppress(KafkaException):
            self.producer.poll(0)
        self._leave(transaction, began_s)

    def _leave(self, transaction: str, began_s: float) -> None:
        """For a new producer, which ends what this one has begun."""
        self.scene.note(End(self.scene.since(began_s), self.process, transaction, Known.UNKNOWN))
        self.sender.give_up()
        self.restarts += 1
        self._begin_anew()


class TransactionalProducer(Transactions):
    is_quick = True

    def turn(self) -> None:
        self.transact(self._write, is_commit=self.random.randrange(10) >= ABORTED_OF_TEN)
        self.scene.stopping.wait(TURN_S)

    def _write(self, transaction: str) -> None:
        for number in range(self.random.randint(1, 6)):
            self.sender.send(self.pick((LEFT, RIGHT)), f"{transaction}/{number}", transaction)
        self.producer.poll(self.random.choice((0, 0, 0.01)))


class Member:
    """Of a group: notes what it was handed, and where it was said to go on."""

    def __init__(self, scene: Scene, process: str, group: str, topics: Sequence[str]) -> None:
        self._scene = scene
        self._process = process
        self._group = group
        self._moved: set[TopicPartition] = set()
        self.consumer = Consumer(
            {
                **common(scene),
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
            }
        )
        self.consumer.subscribe(list(topics), on_assign=self._assigned)

    def _assigned(self, _: Consumer, partitions: list[ConfluentPartition]) -> None:
        self._moved.update(TopicPartition(each.topic, each.partition) for each in partitions)

    def poll(self, transaction: Callable[[], str | None]) -> list[Message]:
        began_s = self._scene.now_s()
        found = [each for each in self.consumer.consume(INPUTS_MAX, 0.2) if each.error() is None]
        by_partition: dict[TopicPartition, list[Seen]] = {}
        for message in found:
            value, topic = message.value(), message.topic()
            assert isinstance(value, bytes)
            partition = TopicPartition(str(topic), int(message.partition() or 0))
            seen = Seen(int(message.offset() or 0), value.decode())
            by_partition.setdefault(partition, []).append(seen)
        for partition, records in by_partition.items():
            self._scene.note(
                Poll(
                    self._scene.since(began_s),
                    self._process,
                    partition,
                    tuple(records),
                    has_moved=partition in self._moved,
                    transaction=transaction(),
                )
            )
            self._moved.discard(partition)
        return found

    def go_back(self) -> None:
        """To what is committed."""
        while not self._scene.stopping.is_set():
            began_s = self._scene.now_s()
            try:
                for each in self.consumer.committed(self.consumer.assignment(), WAIT_S):
                    _raise_for(each)
                    partition = TopicPartition(each.topic, each.partition)
                    span = self._scene.since(began_s)
                    self._scene.note(OffsetRead(span, self._group, partition, max(0, each.offset)))
                    self._moved.add(partition)
                    if each.offset < 0:
                        each.offset = OFFSET_BEGINNING
                    self.consumer.seek(each)
            except KafkaException:
                # Its group is in a rebalance, or nobody coordinates it for a moment.
                self.consumer.poll(0.05)
            else:
                return


def _raise_for(asked: ConfluentPartition) -> None:
    if asked.error is not None:
        raise KafkaException(asked.error)


def next_offsets(messages: Sequence[Message]) -> dict[TopicPartition, list[int]]:
    read: dict[TopicPartition, list[int]] = {}
    for message in messages:
        partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
        read.setdefault(partition, []).append(int(message.offset() or 0))
    return read


class Copier(Transactions):
    """Consume, transform, produce: what it writes and where it has read to are one transaction."""

    group: Final = "copiers"
    target: Final = "copies"

    def open(self) -> None:
        super().open()
        self._member = Member(self.scene, self.name, self.group, [PLAIN])

    def turn(self) -> None:
        # The transaction it will be a part of, which has not begun.
        messages = self._member.poll(lambda: f"{self.process}-{self._number + 1}")
        if messages and not self.transact(lambda transaction: self._copy(transaction, messages)):
            self._member.go_back()

    def _copy(self, transaction: str, messages: Sequence[Message]) -> None:
        for message in messages:
            value = message.value()
            assert isinstance(value, bytes)
            partition = TopicPartition(self.target, 0)
            self.sender.send(partition, f"{value.decode()}>{transaction}", transaction)
        read = next_offsets(messages)
        for partition, offsets in read.items():
            self.scene.note(
                Inputs(transaction, self.group, partition, offsets[-1] + 1, tuple(offsets))
            )
        offsets_read = [
            ConfluentPartition(partition.topic, partition.partition, offsets[-1] + 1)
            for partition, offsets in read.items()
        ]
        member = self._member.consumer.consumer_group_metadata()
        # It may never return when a coordinator has gone (librdkafka's issues 5456 and 5511).
        within(
            HUNG_S,
            lambda: self.producer.send_offsets_to_transaction(offsets_read, member, OFFSETS_S),
        )

    def close(self) -> None:
        self._member.consumer.close()


class Reader(Client):
    """A member of a group that commits what it has read."""

    group: Final = "readers"

    def open(self) -> None:
        self._member = Member(self.scene, self.name, self.group, [LEFT, RIGHT])

    def turn(self) -> None:
        messages = self._member.poll(lambda: None)
        if not messages:
            return
        read = next_offsets(messages)
        began_s = self.scene.now_s()
        try:
            self._member.consumer.commit(
                offsets=[
                    ConfluentPartition(partition.topic, partition.partition, offsets[-1] + 1)
                    for partition, offsets in read.items()
                ],
                asynchronous=False,
            )
        except KafkaException:
            known = Known.UNKNOWN
        else:
            known = Known.OK
            self.done_count += 1
        for partition, offsets in read.items():
            span = self.scene.since(began_s)
            self.scene.note(Commit(span, self.group, partition, offsets[-1] + 1, known))

    def close(self) -> None:
        self._member.consumer.close()
