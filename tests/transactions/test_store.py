"""The transactional ids of a lane: found by either name, their timers, their size."""

import random
import sys
import tracemalloc

import msgspec
from msgspec.structs import replace

from semel.transactions.records import decode, encode
from semel.transactions.store import Transactions
from semel.transactions.transaction import Status, Transaction, TransactionsSnapshot, dead
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition, TransactionalId

WALL_MS = 2 * 1_700_000_000_000
"""What values say of their times, which nothing may be judged by."""


def value_of(
    number: int,
    *,
    status: Status = Status.EMPTY,
    timeout_ms: int = 1_000,
    producer_id: int | None = None,
) -> Transaction:
    return Transaction(
        transactional_id=TransactionalId(f"id-{number}"),
        producer_id=ProducerId(number if producer_id is None else producer_id),
        producer_epoch=ProducerEpoch(0),
        timeout_ms=timeout_ms,
        status=status,
        started_at_ms=WALL_MS,
        last_update_ms=WALL_MS,
        epoch_term=Term(0),
    )


def test_the_newest_value_wins_and_is_found_by_both_names() -> None:
    store = Transactions()
    store.apply(value_of(1), 0)
    newest = value_of(1, status=Status.ONGOING)
    store.apply(newest, 5)
    assert store.get(TransactionalId("id-1")) == newest
    assert store.of_producer(ProducerId(1)) == newest
    assert store.open() == (newest,)
    assert len(store) == 1


def test_a_replaced_producer_id_belongs_to_no_one() -> None:
    store = Transactions()
    store.apply(value_of(1), 0)
    store.apply(value_of(1, producer_id=9), 0)
    assert store.of_producer(ProducerId(1)) is None
    assert store.of_producer(ProducerId(9)) == value_of(1, producer_id=9)


def test_a_forgotten_id_leaves_nothing() -> None:
    store = Transactions()
    store.apply(value_of(1), 0)
    store.apply(dead(TransactionalId("id-1")), 0)
    store.apply(dead(TransactionalId("id-2")), 0)
    assert len(store) == 0
    assert store.of_producer(ProducerId(1)) is None


def test_overdue_are_those_whose_time_is_up_and_they_are_named_until_they_end() -> None:
    store = Transactions()
    for number in range(3):
        store.apply(value_of(number, status=Status.ONGOING), number * 100)
    assert store.next_deadline_ms() == 1_000
    assert store.overdue(999, 100) == []
    assert store.overdue(1_100, 100) == ["id-0", "id-1"]
    assert store.overdue(1_100, 100) == ["id-0", "id-1"]
    assert store.overdue(1_100, 1) == ["id-0"]
    store.apply(value_of(0, status=Status.COMPLETE_ABORT), 0)
    assert store.overdue(1_100, 100) == ["id-1"]


def test_the_next_transaction_of_an_id_has_its_own_deadline() -> None:
    store = Transactions()
    store.apply(value_of(0, status=Status.ONGOING), 0)
    store.apply(value_of(0, status=Status.COMPLETE_COMMIT), 0)
    store.apply(value_of(0, status=Status.ONGOING), 900)
    assert store.overdue(1_000, 100) == []
    assert store.overdue(1_899, 100) == []
    assert store.overdue(1_900, 100) == ["id-0"]


def test_a_shorter_timeout_is_heeded() -> None:
    store = Transactions()
    store.apply(value_of(0, status=Status.ONGOING, timeout_ms=60_000), 0)
    store.apply(value_of(0), 0)
    store.apply(value_of(0, status=Status.ONGOING, timeout_ms=5), 10)
    assert store.next_deadline_ms() == 15
    assert store.overdue(15, 100) == ["id-0"]


def test_deadlines_agree_with_looking_at_every_value() -> None:
    rng = random.Random(7)
    store = Transactions()
    deadlines_ms: dict[str, int] = {}
    now_ms = 0
    for _ in range(5_000):
        now_ms += rng.randrange(30)
        status = rng.choice(list(Status)[:6])
        value = value_of(rng.randrange(20), status=status, timeout_ms=rng.randrange(1, 400))
        store.apply(value, now_ms)
        if status is Status.ONGOING:
            # More partitions that join do not give it more time.
            deadlines_ms.setdefault(value.transactional_id, now_ms + value.timeout_ms)
        else:
            deadlines_ms.pop(value.transactional_id, None)
        next_ms = store.next_deadline_ms()
        if deadlines_ms:
            assert next_ms is not None
            assert next_ms <= min(deadlines_ms.values())
        due = {each for each, deadline_ms in deadlines_ms.items() if deadline_ms <= now_ms}
        assert set(store.overdue(now_ms, 100)) == due


def test_many_short_transactions_of_one_id_keep_one_deadline() -> None:
    store = Transactions()
    for number in range(1_000):
        store.apply(value_of(0, status=Status.ONGOING), number)
        store.apply(value_of(0, status=Status.COMPLETE_COMMIT), 0)
    assert len(store._deadlines._heap) == 1


def test_idle_ids_are_those_that_nothing_has_changed_since() -> None:
    store = Transactions()
    store.apply(value_of(0), 10)
    store.apply(value_of(1), 11)
    store.apply(value_of(2, status=Status.ONGOING), 1)
    assert list(store.idle_since(10, 100)) == ["id-0"]
    assert list(store.idle_since(10, 2)) == ["id-0", None]


def test_a_checkpoint_holds_all_of_it() -> None:
    store = Transactions()
    for number, status in enumerate(list(Status)[:6]):
        value = value_of(number, status=status)
        partitions = frozenset({TopicPartition("t", number)})
        doomed = replace(value, partitions=partitions, is_doomed=status is Status.ONGOING)
        store.apply(doomed, number)
    image = msgspec.msgpack.encode(store.snapshot())
    restored = Transactions()
    restored.apply(value_of(99, status=Status.ONGOING), 0)
    restored.restore(msgspec.msgpack.decode(image, type=TransactionsSnapshot))
    assert list(restored) == list(store)
    assert restored.open() == store.open()
    assert restored.of_producer(ProducerId(99)) is None
    for now_ms in range(8):
        assert list(restored.idle_since(now_ms, 100)) == list(store.idle_since(now_ms, 100))


def test_a_checkpoint_that_knows_no_times_but_those_in_the_values_is_judged_by_them() -> None:
    values = tuple(replace(value_of(number), last_update_ms=number) for number in range(3))
    store = Transactions()
    store.restore(TransactionsSnapshot(values))
    assert list(store.idle_since(1, 100)) == ["id-0", "id-1"]


def test_a_process_that_has_recovered_gives_each_open_transaction_its_full_timeout() -> None:
    store = Transactions()
    store.apply(value_of(0, status=Status.ONGOING), 0)
    store.apply(value_of(1, status=Status.PREPARE_COMMIT), 0)
    store.start_timers(5_000_000)
    assert store.next_deadline_ms() == 5_001_000
    assert store.overdue(5_000_999, 100) == []
    assert store.overdue(5_001_000, 100) == ["id-0"]


def test_an_idle_id_takes_less_than_a_kilobyte() -> None:
    count = 5_000
    entries = []
    for number in range(count):
        named = replace(
            value_of(number),
            transactional_id=TransactionalId(f"payments-service-{number:08}-0"),
            producer_id=ProducerId(10**6 + number),
            timeout_ms=60_000 + number,
            last_update_ms=WALL_MS + number,
        )
        entries.append(encode(named))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        store = Transactions()
        for now_ms, entry in enumerate(entries, WALL_MS):
            read = decode(*entry)
            assert read is not None
            store.apply(read, now_ms)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store) == count
    assert (after - before) / count < 1_000, sys.version
