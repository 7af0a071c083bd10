"""In which order the work of a cycle is handed to the cluster."""

import asyncio
from typing import Any, cast

import pytest

from semel import App, Record, Transaction
from semel.app.delivery import AtLeastOnce, InTransactions, Meaning, NotDelivered
from semel.app.member import ListenerMember
from semel.app.outbox import Outgoing
from semel.client.consuming.asynchronous import AsyncConsumer
from semel.client.producing.asynchronous import AsyncProducer
from semel.client.producing.coordination import GroupMetadata
from semel.errors import RequestTimedOut, UnknownTopicOrPartition
from semel.testing import Broker
from semel.types import TopicPartition
from support.topics import create, fill, values

MEMBER = GroupMetadata("g", 1, "m")


class NotingProducer:
    """Notes what it is asked for, and knows one topic."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def note(*_: object, **__: object) -> None:
            self.asked.append(name)

        return note

    async def learn_topics(self, topics: set[str]) -> None:
        self.asked.append("learn_topics")
        if topics - {"known"}:
            raise UnknownTopicOrPartition(str(topics))


class RefusingProducer(NotingProducer):
    """Takes the first record, and stores none."""

    async def send(self, topic: str, *_: object, **__: object) -> None:
        if "send" in self.asked:
            raise UnknownTopicOrPartition(topic)
        self.asked.append("send")

    async def close(self) -> None:
        raise RequestTimedOut("the first record")


def test_a_producer_that_has_failed_says_nothing_more_when_it_is_closed() -> None:
    committed: list[object] = []

    async def commit(offsets: object, membership: object) -> None:
        committed.append(offsets)

    delivery = AtLeastOnce(lambda: cast("AsyncProducer", RefusingProducer()), commit)

    async def scenario() -> None:
        with pytest.raises(NotDelivered) as caught:
            await delivery.deliver(
                [Outgoing("a", b"x"), Outgoing("b", b"x")], {TopicPartition("in", 0): 1}, MEMBER
            )
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartition)

    asyncio.run(scenario())
    assert not committed


def test_offsets_are_committed_as_the_member_that_was_given_the_records() -> None:
    committed: list[object] = []

    class Joined:
        membership = MEMBER

        async def commit(self, offsets: object) -> None:
            committed.append(offsets)

    member = ListenerMember.__new__(ListenerMember)
    member.consumer = cast("AsyncConsumer", Joined())
    delivery = AtLeastOnce(lambda: cast("AsyncProducer", NotingProducer()), member._commit)
    offsets = {TopicPartition("in", 0): 1}

    async def scenario() -> None:
        with pytest.raises(NotDelivered) as caught:
            await delivery.deliver([], offsets, MEMBER._replace(generation_id=0))
        assert caught.value.meaning is Meaning.AGAIN
        assert caught.value.is_of_group
        assert not committed
        await delivery.deliver([], offsets, MEMBER)

    asyncio.run(scenario())
    assert committed == [offsets]


def test_no_transaction_is_open_while_its_topics_are_looked_for() -> None:
    producer = NotingProducer()
    delivery = InTransactions(lambda: cast("AsyncProducer", producer))
    offsets = {TopicPartition("in", 0): 1}

    async def scenario() -> None:
        with pytest.raises(NotDelivered) as caught:
            await delivery.deliver([Outgoing("unknown", b"x")], offsets, MEMBER)
        assert caught.value.meaning is Meaning.RECORDS
        assert producer.asked == ["start", "learn_topics"]
        await delivery.deliver([Outgoing("known", b"x")], offsets, MEMBER)

    asyncio.run(scenario())
    assert producer.asked[2:] == [
        "learn_topics",
        "begin_transaction",
        "send",
        "send_offsets_to_transaction",
        "commit_transaction",
    ]


def test_a_record_whose_output_topic_is_misspelt_is_laid_aside() -> None:
    with Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        servers = broker.bootstrap_servers
        for topic in ("in", "out", "dead"):
            create(servers, topic, 1)
        fill(servers, "in", [b"1", b"2", b"3"])
        app = App(servers, block_timeout_ms=500)

        @app.listener("in", group="g", retries=0, dead_letters="dead")
        @app.transactional
        def copy(record: Record, out: Transaction) -> None:
            out.send("oot" if record.value == b"2" else "out", value=record.value)

        (counts,) = app.run_until_idle().values()
        assert (counts.records, counts.dead_letters) == (2, 1)
        assert values(servers, "dead") == [b"2"]
        assert values(servers, "out") == [b"1", b"3"]
