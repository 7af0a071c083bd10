"""The stream of orders, the products they name, and what a pipeline has to make of them."""

import json
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa

import semel


class Product(NamedTuple):
    name: str
    category: str
    price_cents: int


PRODUCTS = {
    number: Product(*fields)
    for number, fields in enumerate(
        [
            ("apples", "fruit", 349),
            ("pears", "fruit", 415),
            ("bread", "bakery", 520),
            ("rolls", "bakery", 75),
            ("milk", "dairy", 139),
            ("cheese", "dairy", 899),
            ("coffee", "pantry", 1249),
            ("rice", "pantry", 267),
        ]
    )
}


class Truth(NamedTuple):
    """What must come out for the orders that went in."""

    amounts_cents: dict[str, int]
    """By order."""
    revenue_cents: dict[str, int]
    """By category."""


def order(number: int) -> dict[str, Any]:
    return {
        "order": f"order-{number:07}",
        "customer": f"customer-{number * 7_919 % 997}",
        "product": number * 31 % len(PRODUCTS),
        "quantity": 1 + number * 17 % 5,
    }


def table_of_orders(start: int, stop: int) -> pa.Table:
    orders = [order(number) for number in range(start, stop)]
    return pa.table(
        {
            "key": [each["customer"].encode() for each in orders],
            "value": [json.dumps(each).encode() for each in orders],
        }
    )


def truth_about(topic: str, bootstrap_servers: str) -> Truth:
    """Computed from the orders that are in the log, without the pipeline."""
    amounts_cents: dict[str, int] = {}
    revenue_cents: Counter[str] = Counter()
    for value in values_of(topic, bootstrap_servers):
        product = PRODUCTS[value["product"]]
        amount_cents = product.price_cents * value["quantity"]
        assert value["order"] not in amounts_cents, "orders are written once"
        amounts_cents[value["order"]] = amount_cents
        revenue_cents[product.category] += amount_cents
    return Truth(amounts_cents, dict(revenue_cents))


def values_of(topic: str, bootstrap_servers: str) -> list[dict[str, Any]]:
    """What every reader of committed records finds in a topic."""
    records = semel.read(topic, bootstrap_servers=bootstrap_servers, columns=["value"])
    return [json.loads(value) for value in records.column("value").to_pylist()]
