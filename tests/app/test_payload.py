"""Listeners that say by their annotation what they want of a record."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pydantic
import pytest

from semel import App, Record, Transaction
from semel.app.failure import ListenerFailed
from semel.app.payload import CallShape, Payload, payload_of
from semel.errors import ConfigError
from support.app_topics import Topics
from support.topics import committed, fill, values

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Order:
    article: str
    count: int


class Invoice(pydantic.BaseModel):
    article: str
    total: float


def bare(order: Record) -> None: ...


def unsaid(order) -> None: ...  # type: ignore[no-untyped-def]


def anything(order: Any) -> None: ...


def typed(order: Record[str, Order]) -> None: ...


def as_text(order: "Record[str, Order]") -> None: ...


def alone(order: Order) -> None: ...


def optional(order: Order | None) -> None: ...


def several(orders: list[Record[str, Order]]) -> None: ...


def several_plain(orders: list[Record]) -> None: ...


def several_alone(orders: list[Order]) -> None: ...


def for_checkers_only(order: "Decimal") -> None: ...


def other_for_checkers_only(order: "Record[str, Order]", out: "Transaction | Decimal") -> None: ...


RECORD, RECORDS = CallShape.RECORD, CallShape.RECORDS


@pytest.mark.parametrize(
    ("function", "batch", "payload"),
    [
        (bare, False, Payload(RECORD)),
        (unsaid, False, Payload(RECORD)),
        (anything, False, Payload(RECORD)),
        (typed, False, Payload(RECORD, str, Order)),
        (as_text, False, Payload(RECORD, str, Order)),
        (other_for_checkers_only, False, Payload(RECORD, str, Order)),
        (alone, False, Payload(RECORD, None, Order, is_value_alone=True)),
        (optional, False, Payload(RECORD, None, Order | None, is_value_alone=True)),
        (several, False, Payload(RECORDS, str, Order)),
        (several, True, Payload(RECORDS, str, Order)),
        (typed, True, Payload(RECORDS, str, Order)),
        (several_plain, False, Payload(RECORDS)),
        (several_alone, True, Payload(RECORDS, None, Order, is_value_alone=True)),
        (several_alone, False, Payload(RECORD, None, list[Order], is_value_alone=True)),
    ],
)
def test_the_annotation_says_what_is_wanted(
    function: Callable[..., Any], batch: bool, payload: Payload
) -> None:
    assert payload_of(function, batch) == payload


def test_an_annotation_that_cannot_be_looked_up_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigError, match=r"order is annotated with Decimal, .*top of the module"):
        App().listener("orders", group="g")(for_checkers_only)


def test_a_type_that_cannot_be_read_is_refused_where_it_is_declared() -> None:
    def opaque(order: Record[str, App]) -> None: ...

    with pytest.raises(ConfigError, match="cannot be read as App"):
        App().listener("orders", group="g")(opaque)


def put(topics: Topics, *contents: bytes) -> None:
    fill(topics.servers, topics.source, contents)


def test_orders_come_in_and_invoices_go_out_as_they_are_annotated(topics: Topics) -> None:
    app = App(topics.servers)

    @app.listener(topics.source, group=topics.group)
    @app.transactional
    def bill(order: Order, out: Transaction) -> None:
        out.send(topics.target, Invoice(article=order.article, total=order.count * 0.5), key=7)

    put(topics, b'{"article": "apple", "count": 3}')
    app.run_until_idle()
    (stored,) = committed(topics.servers, topics.target)
    assert (stored.key, json.loads(stored.value or b"")) == (
        b"7",
        {"article": "apple", "total": 1.5},
    )


def test_values_come_in_lists_as_well(topics: Topics) -> None:
    app, seen = App(topics.servers), []

    @app.listener(topics.source, group=topics.group, batch=True)
    def collect(orders: list[Order]) -> None:
        seen.extend(orders)

    put(topics, b'{"article": "apple", "count": 3}', b'{"article": "pear", "count": 1}')
    app.run_until_idle()
    assert seen == [Order("apple", 3), Order("pear", 1)]


def test_what_does_not_fit_is_laid_aside_at_once_with_the_reason(topics: Topics) -> None:
    app = App(topics.servers)

    # A pause between tries would outlast the test.
    @app.listener(
        topics.source,
        group=topics.group,
        dead_letters=topics.dead,
        backoff_ms=3_600_000,
        backoff_ms_max=3_600_000,
    )
    @app.transactional
    def bill(order: Record[str | None, Order], out: Transaction) -> None:
        out.send(topics.target, order.value.article)

    put(topics, b'{"article": "apple"}', b'{"article": "pear", "count": 1}')
    assert app.run_until_idle()["bill"].dead_letters == 1
    assert values(topics.servers, topics.target) == [b"pear"]
    (letter,) = committed(topics.servers, topics.dead)
    assert letter.value == b'{"article": "apple"}'
    headers = dict(letter.headers)
    assert headers["semel.dead.message"] == (
        b"its value is no Order: Object missing required field `count`"
    )
    assert headers["semel.dead.attempts"] == b"1"


def test_without_dead_letters_the_place_and_the_reason_end_the_application(topics: Topics) -> None:
    app = App(topics.servers)

    @app.listener(topics.source, group=topics.group)
    def bill(order: Record[str, Order]) -> None: ...

    put(topics, b'{"article": "apple", "count": 3}')
    words = f"the record at {topics.source}-0 offset 0 failed once, .*its key is missing, and str"
    with pytest.raises(ListenerFailed, match=words) as failed:
        app.run_until_idle()
    # Its author has nothing to look for in a trace.
    assert not failed.value.is_of_function


def test_a_deserializer_comes_before_the_annotation(topics: Topics) -> None:
    app, seen = App(topics.servers), []

    @app.listener(topics.source, group=topics.group, value_deserializer=len)
    def measure(order: Record[Any, int]) -> None:
        seen.append(order.value)

    put(topics, b"four")
    app.run_until_idle()
    assert seen == [4]
