"""Declaring listeners: what their functions take, and what is refused at once."""

import functools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from app.records import record
from semel import App, Outbox, Record, Transaction
from semel.app.listener import Listener
from semel.app.payload import CallShape
from semel.errors import ConfigError


def only(app: App) -> Listener:
    (listener,) = app.listeners
    return listener


def test_a_declared_function_stays_what_it_is() -> None:
    app = App()

    @app.listener("orders", group="billing")
    @app.transactional
    def bill(order: Record, out: Transaction) -> None:
        out.send("invoices", key=order.key, value=b"for " + order.value)

    out = Transaction()
    bill(record(3), out)
    assert [(each.topic, each.key, each.value) for each in out.records] == [
        ("invoices", b"key", b"for 3")
    ]


def test_the_decorators_may_stand_in_any_order() -> None:
    app = App()

    @app.transactional
    @app.listener("orders", group="g", name="one")
    def one(order: Record) -> None: ...

    @app.listener("orders", group="g", name="other")
    @app.transactional
    def other(order: Record) -> None: ...

    @app.listener("orders", group="g")
    def neither(order: Record) -> None: ...

    assert [each.is_transactional for each in app.listeners] == [True, True, False]


def logged(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def call(*arguments: Any) -> None:
        function(*arguments)

    return call


def test_a_decorator_in_between_takes_no_transaction_away() -> None:
    app = App()

    @app.listener("orders", group="g")
    @logged
    @app.transactional
    def below(order: Record, out: Transaction) -> None: ...

    @app.transactional
    @logged
    @app.listener("orders", group="g")
    def above(order: Record, out: Transaction) -> None: ...

    assert [each.is_transactional for each in app.listeners] == [True, True]


def test_a_function_that_takes_a_transaction_does_not_run_without() -> None:
    app = App()

    @app.listener("orders", group="g")
    def bill(order: Record, out: Transaction) -> None: ...

    with pytest.raises(ConfigError, match="listener bill: it takes a Transaction"):
        app.run_until_idle()


def one(order: Record) -> None: ...


def two(order: Record, out: Outbox) -> None: ...


def with_default(order: Record, factor: int = 3) -> None: ...


async def on_the_loop(order: Record) -> None: ...


def columns(batch: pa.RecordBatch) -> None: ...


@pytest.mark.parametrize(
    ("function", "batch", "shape", "takes_outbox", "is_coroutine"),
    [
        (one, False, CallShape.RECORD, False, False),
        (two, False, CallShape.RECORD, True, False),
        (two, True, CallShape.RECORDS, True, False),
        (with_default, False, CallShape.RECORD, False, False),
        (on_the_loop, False, CallShape.RECORD, False, True),
        (columns, False, CallShape.COLUMNS, False, False),
        (columns, True, CallShape.COLUMNS, False, False),
        (one, "arrow", CallShape.COLUMNS, False, False),
    ],
)
def test_what_a_function_takes_is_read_from_its_signature(
    function: Callable[..., Any],
    batch: bool | str,
    shape: CallShape,
    takes_outbox: bool,
    is_coroutine: bool,
) -> None:
    app = App()
    app.listener("orders", group="g", batch=batch)(function)
    listener = only(app)
    assert (listener.shape, listener.takes_outbox) == (shape, takes_outbox)
    assert listener.is_coroutine == is_coroutine


def nothing() -> None: ...


def three(order: Record, out: Outbox, more: int) -> None: ...


@pytest.mark.parametrize("function", [nothing, three])
def test_a_function_that_cannot_be_called_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="is called with a record"):
        App().listener("orders", group="g")(function)


def one_by_one(order: Record) -> Iterator[None]:
    yield


async def one_by_one_on_the_loop(order: Record) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("function", [one_by_one, one_by_one_on_the_loop])
def test_a_function_whose_call_would_do_nothing_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="it has a yield, and a call of it would do nothing"):
        App().listener("orders", group="g")(function)


def test_a_listener_that_would_read_its_own_dead_letters_is_refused() -> None:
    for topics in ("orders.dead", ["orders", "orders.dead"], re.compile(r"orders\..*")):
        listener = App().listener(topics, group="g", dead_letters="orders.dead")
        with pytest.raises(ConfigError, match="listens to its own dead_letters"):
            listener(one)


def test_an_empty_prefix_of_transactional_ids_is_refused() -> None:
    with pytest.raises(ConfigError, match="transactional_id_prefix is empty"):
        App(transactional_id_prefix="")


@pytest.mark.parametrize(
    "options",
    [
        {"records_max": 0},
        {"concurrency": 0},
        {"retries": -1},
        {"backoff_ms": 5, "backoff_ms_max": 1},
        {"enable_auto_commit": True},
        {"batch": "parquet"},
        {"batch": "arrow", "value_deserializer": int},
        {"cycle_ms_max": 0},
        {"nonsense": 1},
        {"auto_offset_reset": "middle"},
        {"retry_on": "ValueError"},
        {"retry_on": (ValueError, KeyboardInterrupt)},
        {"dead_letters": "orders"},
    ],
)
def test_an_option_that_cannot_be_is_refused_where_it_is_given(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        App().listener("orders", group="g", **options)(one)


@pytest.mark.parametrize(
    "option", ["retries", "backoff_ms", "records_max", "concurrency", "max_poll_records"]
)
def test_a_number_that_is_written_as_text_is_refused_in_words(option: str) -> None:
    options: dict[str, Any] = {option: "3"}
    with pytest.raises(ConfigError, match=f"{option} is '3', and must be a number"):
        App().listener("orders", group="g", **options)
    with pytest.raises(ConfigError, match="linger_ms is '5', and must be a number"):
        App(linger_ms="5")  # type: ignore[arg-type]


def test_a_misspelt_option_names_its_neighbour() -> None:
    app = App()
    for option, near in [("retires", "retries"), ("auto_offset_rest", "auto_offset_reset")]:
        with pytest.raises(ConfigError, match=f"listener option '{option}'; did you mean '{near}'"):
            app.listener("t", group="g", **{option: 1})  # type: ignore[arg-type]


def test_a_function_can_be_called_with_a_record_of_a_tests_own() -> None:
    def bill(order: Record, out: Transaction) -> None:
        out.send("invoices", key=order.key, value=order.value)

    out = Transaction()
    App().transactional(bill)(Record(key=b"k", value=b"v"), out)
    assert [(each.key, each.value) for each in out.records] == [(b"k", b"v")]


def test_two_listeners_need_two_names() -> None:
    app = App()
    app.listener("orders", group="g")(one)
    with pytest.raises(ConfigError, match="two listeners are called one"):
        app.listener("orders", group="h")(one)
    app.listener("orders", group="h", name="again")(one)


def test_transactional_ids_are_the_applications_own() -> None:
    with pytest.raises(ConfigError, match="transactional_id_prefix"):
        App(transactional_id="mine")


@pytest.mark.parametrize("options", [{"acks": 1}, {"enable_idempotence": False}])
def test_options_that_allow_no_transactions_are_refused_where_there_are_some(
    options: dict[str, Any],
) -> None:
    transactional = App(**options)
    transactional.listener("orders", group="g", name="bill")(transactional.transactional(two))
    laying_aside = App(**options)
    laying_aside.listener("orders", group="g", name="bill", dead_letters="dead")(one)
    for app in (transactional, laying_aside):
        with pytest.raises(ConfigError, match="listener bill needs transactions"):
            app.running()
    plain = App(**options)
    plain.listener("orders", group="g")(one)
    plain.running()


def test_an_application_without_listeners_does_not_run() -> None:
    with pytest.raises(ConfigError, match="no listeners"):
        App().run_until_idle()


def test_what_a_deserializer_makes_is_what_the_function_gets() -> None:
    app = App()
    seen = []
    app.listener("orders", group="g", value_deserializer=json.loads, key_deserializer=bytes.decode)(
        lambda order: seen.append((order.key, order.value))
    )
    only(app).call(record(3), Outbox())
    only(app).call(record(3)._replace(key=None, value=None), Outbox())
    assert seen == [("key", 3), (None, None)]


def test_what_cannot_be_serialized_fails_where_it_is_sent() -> None:
    out = Transaction(value_serializer=lambda value: json.dumps(value).encode())
    out.send("out", {"a": 1})
    with pytest.raises(TypeError):
        out.send("out", {1j})
    mistakes: list[dict[str, Any]] = [
        {"topic": None},
        {"partition": "0"},
        {"timestamp_ms": 1.5},
        {"timestamp_ms": 2**63},
        {"headers": [(1, b"")]},
    ]
    for mistake in mistakes:
        with pytest.raises((TypeError, ValueError)):
            out.send(**{"topic": "out", **mistake})
    assert [each.value for each in out.records] == [b'{"a": 1}']
