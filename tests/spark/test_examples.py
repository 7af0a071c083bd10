"""The examples on PySpark do what they show, also when they are run again on the same broker."""

from collections import Counter

from examples import bank_transfers, join_topics, orders, word_count

from semel.spark import Session
from spark.queries import once_python_is_there

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
