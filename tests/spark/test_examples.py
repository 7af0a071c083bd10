"""The examples on PySpark do what they show, also when they are run again on the same broker."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from examples import (
    avro_records,
    bank_transfers,
    join_topics,
    orders,
    paired_sinks,
    stateful,
    windows,
    word_count,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import semel
import semel.spark
from semel.spark import Session
from spark import queries
from spark.queries import once_python_is_there
from support import topics

RUNS = 2


def test_words_are_counted(spark: Session) -> None:
    for _ in range(RUNS):
        assert once_python_is_there(lambda: word_count.main(spark)) == {
            "all": 2,
            "that": 2,
            "is": 3,
            "once": 2,
            "enough": 1,
            "well": 2,
            "ends": 1,
        }


def test_orders_are_enriched_and_added_up(spark: Session) -> None:
    due = [
        (order["order"], orders.PRICES_CENTS[order["product"]] * order["quantity"])
        for order in orders.ORDERS
    ]
    for _ in range(RUNS):
        results = once_python_is_there(lambda: orders.main(spark))
        assert sorted((each["order"], each["amount_cents"]) for each in results["enriched"]) == due
        revenue: Counter[str] = Counter()
        for added in results["revenue"]:
            revenue[added["product"]] += added["amount_cents"]
        assert revenue.total() == sum(amount_cents for _, amount_cents in due)
        assert revenue.keys() == orders.PRICES_CENTS.keys()


def test_the_total_of_a_bank_never_changes_for_a_reader(spark: Session) -> None:
    balances: Counter[str] = Counter()
    for transfer in bank_transfers.TRANSFERS:
        balances[transfer["giver"]] -= transfer["cents"]
        balances[transfer["taker"]] += transfer["cents"]
    for _ in range(RUNS):
        books = once_python_is_there(lambda: bank_transfers.main(spark))
        assert {look.total_cents for look in books.looks} == {0}
        assert books.balances_cents == balances


def test_payments_are_joined_with_their_orders(spark: Session) -> None:
    for _ in range(RUNS):
        assert once_python_is_there(lambda: join_topics.main(spark)) == {
            order: f"{join_topics.ORDERS[order]} for {amount}"
            for order, amount in join_topics.PAYMENTS.items()
        }


def test_windows_are_written_once_with_what_came_late(spark: Session) -> None:
    expected = {
        (start, page): 5 for start in ("12:00", "12:10", "12:20") for page in ("page-0", "page-1")
    }
    expected["12:20", "page-0"] += 1
    assert once_python_is_there(lambda: windows.main(spark)) == expected


def test_each_third_failure_is_told(spark: Session) -> None:
    counts = Counter(stateful.USERS)
    told = Counter(user for user, _ in once_python_is_there(lambda: stateful.main(spark)))
    assert told == Counter({user: n // stateful.LIMIT for user, n in counts.items()}) != Counter()


def test_avro_is_read_and_written(spark: Session) -> None:
    hot = [reading for reading in avro_records.READINGS if reading["note"] == "hot"]
    assert once_python_is_there(lambda: avro_records.main(spark)) == hot


def test_a_topic_a_database_and_files_have_each_row_once_though_batches_are_run_again(
    spark: Session, name: str, tmp_path: Path
) -> None:
    """The driver is as good as dead after each of the three, in another batch each time."""
    servers = spark.bootstrap_servers
    values = [json.dumps(payment).encode() for payment in paired_sinks.PAYMENTS]
    topics.fill(servers, f"{name}-in", values)
    ran: Counter[int] = Counter()

    def count(batch: DataFrame, batch_id: int) -> None:
        ran[batch_id] += 1

    def dies(dying: int) -> paired_sinks.Sink:
        def die(batch: DataFrame, batch_id: int) -> None:
            if batch_id == dying and ran[batch_id] == 1:
                raise RuntimeError("the driver dies")

        return die

    sink = paired_sinks.in_turn(
        count,
        partial(paired_sinks.to_duckdb, tmp_path / "balances.duckdb"),
        dies(0),
        partial(paired_sinks.to_parquet, tmp_path / "payments"),
        dies(1),
        semel.spark.exactly_once(paired_sinks.receipts, topic=name),
        dies(2),
    )
    for _ in range(3):
        with pytest.raises(StreamingQueryException, match="the driver dies"):
            run(spark, f"{name}-in", sink, tmp_path)
    run(spark, f"{name}-in", sink, tmp_path)
    queries.forget_commits(tmp_path / "checkpoint", 2)
    run(spark, f"{name}-in", sink, tmp_path)
    assert ran == {0: 2, 1: 2, 2: 3}
    paid: Counter[str] = Counter()
    for payment in paired_sinks.PAYMENTS:
        paid[payment["account"]] += payment["cents"]
    assert paired_sinks.found(spark, name, tmp_path) == (paid, paid, paid)


def run(spark: Session, topic: str, sink: paired_sinks.Sink, folder: Path) -> None:
    payments = paired_sinks.payments_of(spark, topic)
    queries.finish(payments.writeStream.foreachBatch(sink), folder / "checkpoint")
