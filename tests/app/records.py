"""Records and cycles for tests of applications that need no broker."""

from collections.abc import Callable, Iterable

from semel.app.calling import in_thread
from semel.app.cycle import CycleOutcome, Rules, Steps
from semel.app.outbox import Outbox
from semel.app.portion import Portion, of_records
from semel.app.retry_policy import RetryPolicy
from semel.client.consuming.record import Record, TimestampType
from semel.types import TopicPartition


def record(offset: int, partition: int = 0, value: bytes | None = None) -> Record:
    text = b"%d" % offset if value is None else value
    return Record("in", partition, offset, 1_000 + offset, TimestampType.CREATE_TIME, b"key", text)


def portion(places: Iterable[tuple[int, int]]) -> Portion:
    """Records at these partitions and offsets, in this order."""
    return of_records([record(offset, partition) for partition, offset in places])


def place(partition: int) -> TopicPartition:
    return TopicPartition("in", partition)


def rules(retries: int = 0, dead_letters: str | None = None) -> Rules:
    return Rules(RetryPolicy(retries=retries), dead_letters)


def failing_at(*bad: tuple[int, int]) -> Callable[[Record, Outbox], None]:
    """A function that sends each record on, and fails at these partitions and offsets."""

    def function(each: Record, out: Outbox) -> None:
        out.send("out", value=f"{each.partition}-{each.offset}")
        if (each.partition, each.offset) in bad:
            raise ValueError(f"{each.partition}-{each.offset} is bad")

    return function


def performed(steps: Steps, function: Callable[..., None]) -> CycleOutcome:
    return in_thread(steps, function)


def sent(outcome: CycleOutcome) -> list[str]:
    return [(each.value or b"").decode() for each in outcome.outbox.records]
