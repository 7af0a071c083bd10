"""Real transactional clients whose broker is killed in every step, or loses power."""

from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from compat.transactional_producers import (
    PRODUCERS,
    ConfluentProducer,
    TransactionalProducer,
    transactional_producer,
)
from semel.testing import Broker
from support.clients import Background
from support.power_loss import SLOW_FLUSH, Disk
from support.raw_client import METRICS, RawClient, metric
from support.transactional_wire import committed_offset, fetch

STEPS = ("init", "begin", "send", "flush", "offsets", "commit", "end")
SMALL = {"journal.segment.bytes": 8 * 2**20}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "data")


@pytest.fixture
def broker(disk: Disk) -> Iterator[Broker]:
    settings = {**SLOW_FLUSH, **SMALL}
    with Broker(data=disk.folder, settings=settings, arguments=METRICS) as broker:
        with RawClient(broker) as client:
            client.create_topic("t")
            client.create_group_topic()
        yield broker
        assert metric(broker, "semel_requests_late") == 0


@pytest.fixture(params=PRODUCERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def shown(broker: Broker) -> list[bytes | None]:
    with RawClient(broker) as client:
        return fetch(client, "t").committed_values


def offset_of(broker: Broker, group: str) -> int:
    with RawClient(broker) as client:
        return committed_offset(client, group, "t")[0]


def test_a_broker_killed_in_any_step_loses_and_doubles_nothing(broker: Broker, kind: str) -> None:
    def kill() -> None:
        broker.kill()
        broker.start()

    with transactional_producer(kind, broker.bootstrap_servers, "a") as producer:
        kill()
        producer.init()
        for number, step in enumerate(STEPS):
            if step == "init":
                kill()
            producer.begin()
            if step == "begin":
                kill()
            producer.send("t", b"%d" % number)
            if step == "send":
                kill()
            producer.flush()
            if step == "flush":
                kill()
            producer.send_offsets("g", "t", number + 1)
            if step == "offsets":
                kill()
            if step == "commit":
                committing = Background(producer.commit)
                kill()
                committing.join()
            else:
                producer.commit()
            if step == "end":
                kill()
            assert offset_of(broker, "g") == number + 1
    assert shown(broker) == [b"%d" % number for number in range(len(STEPS))]


def after_an_open_transaction(
    producer: TransactionalProducer, lose_power: Callable[[], None]
) -> None:
    producer.begin()
    producer.send("t", b"lost")
    producer.flush()
    lose_power()
    producer.commit()


def in_front_of_a_transaction(
    producer: TransactionalProducer, lose_power: Callable[[], None]
) -> None:
    lose_power()
    producer.begin()
    producer.send("t", b"refused")
    producer.flush()
    producer.commit()


def between_two_records(producer: TransactionalProducer, lose_power: Callable[[], None]) -> None:
    producer.begin()
    producer.send("t", b"lost")
    producer.flush()
    lose_power()
    producer.send("t", b"refused")
    producer.flush()
    producer.commit()


def before_the_offsets(producer: TransactionalProducer, lose_power: Callable[[], None]) -> None:
    producer.begin()
    producer.send("t", b"lost")
    producer.flush()
    lose_power()
    producer.send_offsets("g", "t", 99)
    producer.commit()


LOSSES = (
    after_an_open_transaction,
    in_front_of_a_transaction,
    between_two_records,
    before_the_offsets,
)


def test_after_a_power_loss_confluent_aborts_and_goes_on_with_the_same_producer(
    broker: Broker, disk: Disk
) -> None:
    with transactional_producer("confluent-kafka", broker.bootstrap_servers, "a") as producer:
        assert isinstance(producer, ConfluentProducer)
        producer.init()
        for number, loss in enumerate(LOSSES):
            disk.remember()
            with pytest.raises(confluent_kafka.KafkaException) as caught:
                loss(producer, lambda: disk.lose_power(broker))
            assert caught.value.args[0].txn_requires_abort(), (loss.__name__, caught.value)
            attempts = _until_committed(producer, b"%d" % number)
            assert attempts <= 2, (loss.__name__, attempts)
    assert shown(broker) == [b"%d" % number for number in range(len(LOSSES))]
    assert offset_of(broker, "g") == -1


def _until_committed(producer: ConfluentProducer, value: bytes, offset: int | None = None) -> int:
    """Abort what is open and write the value, and the offset; how often that took."""
    attempts = 0
    while True:
        attempts += 1
        producer.abort()
        producer.begin()
        producer.send("t", value)
        try:
            if offset is not None:
                producer.send_offsets("g", "t", offset)
            producer.commit()
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        else:
            return attempts


def copy_between_two(producer: TransactionalProducer, lose_power: Callable[[], None]) -> None:
    lose_power()
    producer.begin()
    producer.send("t", b"refused")
    # Without waiting, as those do who copy: this may overtake the partition's joining.
    producer.send_offsets("g", "t", 99)
    producer.commit()


def copy_in_the_middle(producer: TransactionalProducer, lose_power: Callable[[], None]) -> None:
    producer.begin()
    producer.send("t", b"lost")
    producer.flush()
    lose_power()
    producer.send("t", b"refused")
    producer.send_offsets("g", "t", 99)
    producer.commit()


@pytest.mark.parametrize("loss", [copy_between_two, copy_in_the_middle, before_the_offsets])
def test_after_a_power_loss_confluent_goes_on_copying_with_the_same_producer(
    broker: Broker, disk: Disk, loss: Callable[..., None]
) -> None:
    """Of AddOffsetsToTxn alone it would not learn to ask for a new epoch."""
    with transactional_producer("confluent-kafka", broker.bootstrap_servers, "a") as producer:
        assert isinstance(producer, ConfluentProducer)
        producer.init()
        for number in range(3):
            disk.remember()
            with pytest.raises(confluent_kafka.KafkaException) as caught:
                loss(producer, lambda: disk.lose_power(broker))
            assert caught.value.args[0].txn_requires_abort(), caught.value
            assert _until_committed(producer, b"%d" % number, offset=number) <= 2
    assert shown(broker) == [b"0", b"1", b"2"]
    assert offset_of(broker, "g") == 2


@pytest.mark.parametrize("kind", ["kafka-python", "aiokafka"])
def test_after_a_power_loss_one_clean_error_and_a_new_producer_goes_on(
    broker: Broker, disk: Disk, kind: str
) -> None:
    for number, loss in enumerate(LOSSES):
        with transactional_producer(kind, broker.bootstrap_servers, "a") as producer:
            producer.init()
            producer.begin()
            producer.send("t", b"%d" % number)
            producer.commit()
            disk.remember()
            with pytest.raises(Exception) as caught:  # noqa: PT011
                loss(producer, lambda: disk.lose_power(broker))
            assert "Timeout" not in type(caught.value).__name__, (loss.__name__, caught.value)
    assert shown(broker) == [b"%d" % number for number in range(len(LOSSES))]
    assert offset_of(broker, "g") == -1


def offsets_alone(producer: TransactionalProducer, lose_power: Callable[[], None]) -> None:
    lose_power()
    producer.begin()
    producer.send_offsets("g", "t", 99)
    producer.commit()


@pytest.mark.parametrize("loss", [*LOSSES, offsets_alone])
def test_after_a_power_loss_nobody_is_refused_for_ever(
    broker: Broker, disk: Disk, kind: str, loss: Callable[..., None]
) -> None:
    """An application that aborts and tries again goes on, or is told that it cannot."""
    with transactional_producer(kind, broker.bootstrap_servers, "a") as producer:
        producer.init()
        disk.remember()
        with pytest.raises(Exception):  # noqa: B017, PT011
            loss(producer, lambda: disk.lose_power(broker))
        attempts = 1
        while (ended := _tried_again(producer, loss)) is None:
            attempts += 1
            assert attempts <= 3
    with transactional_producer(kind, broker.bootstrap_servers, "a") as heir:
        heir.init()
        heir.begin()
        heir.send("t", b"last")
        heir.commit()
    is_written = ended == "went on" and loss is not offsets_alone
    assert shown(broker) == ([b"again", b"last"] if is_written else [b"last"])


def _tried_again(producer: TransactionalProducer, loss: Callable[..., None]) -> str | None:
    """Abort, and the same once more; None if it was refused and may be tried again."""
    try:
        producer.abort()
        producer.begin()
    except Exception:  # noqa: BLE001 - each client has its own.
        return "for good"
    try:
        if loss is not offsets_alone:
            producer.send("t", b"again")
            producer.flush()
        producer.send_offsets("g", "t", 7)
        producer.commit()
    except Exception:  # noqa: BLE001
        return None
    return "went on"


def test_a_commit_that_may_be_a_retry_of_the_last_one_is_fenced_after_a_power_loss(
    broker: Broker, disk: Disk, kind: str
) -> None:
    """All that is left is a commit under this epoch, so success and refusal could both be wrong."""
    with transactional_producer(kind, broker.bootstrap_servers, "a") as producer:
        producer.init()
        producer.begin()
        producer.send("t", b"first")
        producer.commit()
        disk.remember()
        with pytest.raises(Exception) as caught:  # noqa: PT011
            after_an_open_transaction(producer, lambda: disk.lose_power(broker))
        assert producer.is_fenced(caught.value), caught.value
    with transactional_producer(kind, broker.bootstrap_servers, "a") as heir:
        heir.init()
        heir.begin()
        heir.send("t", b"second")
        heir.commit()
    assert shown(broker) == [b"first", b"second"]


def test_an_open_transaction_that_was_not_lost_is_aborted_and_confluent_goes_on(
    broker: Broker, disk: Disk
) -> None:
    with transactional_producer("confluent-kafka", broker.bootstrap_servers, "a") as producer:
        assert isinstance(producer, ConfluentProducer)
        producer.init()
        producer.begin()
        producer.send("t", b"first")
        producer.commit()
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            after_an_open_transaction(
                producer, lambda: disk.lose_power(broker, everything_unsynced=False)
            )
        assert caught.value.args[0].txn_requires_abort(), caught.value
        assert _until_committed(producer, b"second") == 1
    assert shown(broker) == [b"first", b"second"]
