"""Keys and values as Python's types: read as what an annotation names, written from the same."""

import asyncio
import enum
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, NewType, TypedDict

import msgspec
import pydantic
import pytest

import semel
from semel.client.consuming.refusals import UndeliverableRecord
from semel.client.payloads import PayloadRefused, decoder_of, encode
from semel.errors import ConfigError
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics

OrderId = NewType("OrderId", str)


@dataclass
class Line:
    article: str
    count: int = 1


class Struct(msgspec.Struct):
    article: str
    count: int


class Typed(TypedDict):
    article: str
    count: int


class Model(pydantic.BaseModel):
    article: str
    count: int = pydantic.Field(alias="howMany")


class Colour(enum.StrEnum):
    RED = "red"


LINE = b'{"article":"apple","count":3}'
MODEL = b'{"article":"apple","howMany":3}'
AN_ID = uuid.UUID(int=7)

BOTH_WAYS = [
    (bytes, b"\xff\x00", b"\xff\x00"),
    (str, "Äpfel", "Äpfel".encode()),
    (OrderId, OrderId("o-1"), b"o-1"),
    (uuid.UUID, AN_ID, str(AN_ID).encode()),
    (Colour, Colour.RED, b"red"),
    (int, 42, b"42"),
    (bool, True, b"true"),
    (date, date(2026, 1, 2), b'"2026-01-02"'),
    (dict, {"a": [1, None]}, b'{"a":[1,null]}'),
    (list[Line], [Line("apple", 3)], b"[" + LINE + b"]"),
    (Line, Line("apple", 3), LINE),
    (Struct, Struct("apple", 3), LINE),
    (Typed, {"article": "apple", "count": 3}, LINE),
    (Model, Model(article="apple", howMany=3), MODEL),
    (list[Model], [Model(article="apple", howMany=3)], b"[" + MODEL + b"]"),
    (Line | None, Line("apple", 3), LINE),
    (Line | None, None, None),
    (Model | None, None, None),
]


def read(kind: Any, content: bytes | None) -> Any:
    decode = decoder_of(kind)
    return content if decode is None else decode(content)


@pytest.mark.parametrize(("kind", "content", "stored"), BOTH_WAYS)
def test_what_is_written_is_read_again(kind: Any, content: object, stored: bytes | None) -> None:
    assert encode(content) == stored
    found = read(kind, stored)
    assert found == content
    assert type(found) is type(content)


@pytest.mark.parametrize(
    ("kind", "stored", "words"),
    [
        (str, b"\xff", "is no str: .*0xff"),
        (int, b"x", "is no int: JSON is malformed"),
        (Line, b'{"article":7}', r"is no Line: Expected `str`, got `int` - at `\$.article`"),
        (Line, b"", "is no Line: Input data was truncated"),
        (dict, b"[]", "is no dict: Expected `object`, got `array`"),
        (Colour, b"blue", "is no Colour: 'blue' is not a valid Colour"),
        (Model, b'{"howMany":"many"}', "is no Model: article: Field required; howMany: Input .*"),
        (Model, b"{", "is no Model: Invalid JSON.*"),
        (Line, None, "is missing, and Line is wanted; Line | None takes both"),
        (bytes, None, "is missing, and bytes is wanted; .*"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_wrong(
    kind: Any, stored: bytes | None, words: str
) -> None:
    with pytest.raises(PayloadRefused, match=words) as refused:
        read(kind, stored)
    assert "\n" not in str(refused.value)
    assert "http" not in str(refused.value)


class Opaque: ...


@dataclass
class Priced:
    price: float


@pytest.mark.parametrize("kind", [Opaque, "Line", 3, None])
def test_a_type_that_nothing_can_be_read_as_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read as|None is no type"):
        decoder_of(kind)


@pytest.mark.parametrize("content", [Opaque(), {"a": Opaque()}, Opaque, print])
def test_what_cannot_be_written_is_refused(content: object) -> None:
    with pytest.raises(TypeError, match=r"cannot be written .*or a serializer"):
        encode(content)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [float, lambda number: {"a": [None, (number,)]}, Priced])
def test_a_number_that_json_does_not_have_is_refused(
    number: float, wrap: Callable[[float], object]
) -> None:
    with pytest.raises(TypeError, match=rf"cannot be written \(JSON has no number {number}\)"):
        encode(wrap(number))


@pytest.fixture
def topic(semel_broker: Broker, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(semel_broker.bootstrap_servers, name)
    return name


def test_a_consumer_reads_what_a_producer_was_given(semel_broker: Broker, topic: str) -> None:
    servers = semel_broker.bootstrap_servers
    with semel.Producer(servers) as producer:
        producer.send(topic, Line("apple", 3), key=AN_ID)
    with semel.Consumer(servers, key=uuid.UUID, value=Line) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.poll(10_000)
    # The type checker knows this, too.
    assert record.value.article == "apple"
    assert (record.key, record.value) == (AN_ID, Line("apple", 3))
    (same,) = asyncio.run(read_asynchronously(servers, topic))
    assert same.value == record.value


async def read_asynchronously(servers: str, topic: str) -> list[semel.Record[Any, Line]]:
    async with semel.AsyncConsumer(servers, value=Line) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return await consumer.poll(10_000)


def test_a_record_that_does_not_fit_is_raised_with_its_place(
    semel_broker: Broker, topic: str
) -> None:
    servers = semel_broker.bootstrap_servers
    topics.fill(servers, topic, [LINE, b"nonsense"])
    with semel.Consumer(servers, value=Line) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in consumer.poll(10_000)] == [Line("apple", 3)]
        words = f"^{topic}-0 at offset 1: its value is no Line: JSON is malformed"
        with pytest.raises(UndeliverableRecord, match=words):
            consumer.poll(10_000)


def test_types_and_functions_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="value and value_deserializer exclude each other"):
        semel.Consumer("127.0.0.1:1", value=Line, value_deserializer=str)


@pytest.mark.parametrize("side", ["key", "value"])
def test_a_function_that_is_none_is_refused(side: str) -> None:
    def producer(**options: Any) -> object:
        return semel.Producer("127.0.0.1:1", **options)

    def consumer(**options: Any) -> object:
        return semel.Consumer("127.0.0.1:1", **options)

    makers: list[tuple[Callable[..., object], str]] = [
        (producer, "serializer"),
        (consumer, "deserializer"),
    ]
    for make, option in makers:
        with pytest.raises(ConfigError, match=f"{side}_{option} is 'json', and must be a function"):
            make(**{f"{side}_{option}": "json"})
