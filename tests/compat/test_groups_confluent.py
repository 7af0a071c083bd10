"""confluent-kafka in groups: rebalances of both kinds, static members, seeks, pauses, commits."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from support.clients import (
    DEADLINE_S,
    Confluent,
    Count,
    Sent,
    close,
    confluent_consumer,
    poll_messages,
)

MANUAL = {"enable.auto.commit": False, "heartbeat.interval.ms": 200}
"""A member learns of a rebalance at its next heartbeat."""


def fill(servers: str, topic: str, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    records = [Sent(value, partition=place % 3) for place, value in enumerate(values)]
    Confluent().produce(servers, topic, records)
    return values


def poll_until_split(consumers: Iterable[Consumer], partition_count: int) -> list[set[int]]:
    """Poll all until every one has a share and the shares are the whole."""
    consumers = list(consumers)
    for _ in range(DEADLINE_S * 20):
        for consumer in consumers:
            consumer.poll(0.05)
        shares = [{part.partition for part in each.assignment()} for each in consumers]
        if all(shares) and sorted(p for share in shares for p in share) == list(
            range(partition_count)
        ):
            return shares
    raise AssertionError(f"no agreement: {shares}")


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_inherit_those_of_one_that_leaves(
    servers: str, topic: str, group: str, strategy: str
) -> None:
    fill(servers, topic, 3)
    options = {**MANUAL, "partition.assignment.strategy": strategy}
    with ExitStack() as stack:
        members = [
            stack.enter_context(confluent_consumer(servers, group, options)) for _ in range(2)
        ]
        leaver = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": group, "log_level": 0, **options}
        )
        for member in (*members, leaver):
            member.subscribe([topic])
        shares = poll_until_split([*members, leaver], 3)
        assert [len(share) for share in shares] == [1, 1, 1]
        close(leaver)
        assert sorted(len(share) for share in poll_until_split(members, 3)) == [1, 2]


def test_a_cooperative_member_keeps_what_it_has_while_another_joins(
    servers: str, topic: str, group: str
) -> None:
    fill(servers, topic, 3)
    options = {**MANUAL, "partition.assignment.strategy": "cooperative-sticky"}
    revoked: list[int] = []

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        revoked.extend(part.partition for part in partitions)

    with (
        confluent_consumer(servers, group, options) as first,
        confluent_consumer(servers, group, options) as second,
    ):
        first.subscribe([topic], on_revoke=on_revoke)
        poll_until_split([first], 3)
        second.subscribe([topic])
        kept, gained = poll_until_split([first, second], 3)
        assert len(kept) == 2
        assert set(revoked) == gained


def test_a_static_member_returns_to_its_partitions_without_a_rebalance(
    servers: str, topic: str, group: str
) -> None:
    fill(servers, topic, 3)
    rebalances = Count()

    def options(instance: str) -> dict[str, Any]:
        return {**MANUAL, "group.instance.id": instance, "session.timeout.ms": 30_000}

    with confluent_consumer(servers, group, options("stays")) as stays:
        stays.subscribe([topic], on_assign=lambda *_: rebalances.add())
        with confluent_consumer(servers, group, options("returns")) as returns:
            returns.subscribe([topic])
            before = poll_until_split([stays, returns], 3)
        seen = rebalances.value
        with confluent_consumer(servers, group, options("returns")) as returns:
            returns.subscribe([topic])
            after = poll_until_split([stays, returns], 3)
        assert after == before
        assert rebalances.value == seen


def test_commits_of_all_kinds_are_where_the_next_member_begins(
    servers: str, topic: str, group: str
) -> None:
    values = [b"%d" % number for number in range(40)]
    Confluent().produce(servers, topic, [Sent(value) for value in values])
    done = Count()

    def on_commit(error: object, _: object) -> None:
        assert error is None, error
        done.add()

    with confluent_consumer(servers, group, {**MANUAL, "on_commit": on_commit}) as consumer:
        consumer.subscribe([topic])
        read = poll_messages(consumer, 10)
        consumer.commit(message=read[-1], asynchronous=False)
        read += poll_messages(consumer, 10)
        before = done.value
        consumer.commit(message=read[-1], asynchronous=True)
        while done.value == before:
            consumer.poll(0.05)
    with confluent_consumer(servers, group, {"auto.commit.interval.ms": 100}) as consumer:
        consumer.subscribe([topic])
        read += poll_messages(consumer, 10)
    with confluent_consumer(servers, group, MANUAL) as consumer:
        consumer.subscribe([topic])
        rest = poll_messages(consumer, 10)
        metadata = TopicPartition(topic, 0, 33, "noted")
        consumer.commit(offsets=[metadata], asynchronous=False)
        committed = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)[0]
    assert [message.value() for message in [*read, *rest]] == values
    assert (committed.offset, committed.metadata) == (33, "noted")


def test_a_paused_partition_is_silent_and_a_sought_one_begins_there(
    servers: str, topic: str, group: str
) -> None:
    fill(servers, topic, 30)
    with confluent_consumer(servers, group, MANUAL) as consumer:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(3)])
        consumer.pause([TopicPartition(topic, 1)])
        read = poll_messages(consumer, 20)
        assert {message.partition() for message in read} == {0, 2}
        consumer.seek(TopicPartition(topic, 0, 8))
        again = poll_messages(consumer, 2)
        assert [message.offset() for message in again] == [8, 9]
        consumer.resume([TopicPartition(topic, 1)])
        assert [message.offset() for message in poll_messages(consumer, 10)] == list(range(10))


def test_offsets_are_found_by_time(servers: str, topic: str, group: str) -> None:
    records = [Sent(b"%d" % n, timestamp_ms=1_000_000 + 100 * n) for n in range(20)]
    Confluent().produce(servers, topic, records)
    with confluent_consumer(servers, group, MANUAL) as consumer:

        def offset_at(time_ms: int) -> int:
            wanted = [TopicPartition(topic, 0, time_ms)]
            return int(consumer.offsets_for_times(wanted, DEADLINE_S)[0].offset)

        assert offset_at(0) == 0
        assert offset_at(1_000_300) == 3
        assert offset_at(1_000_301) == 4
        assert offset_at(1_001_900) == 19
        assert offset_at(1_001_901) == confluent_kafka.OFFSET_END


def test_a_member_of_an_old_generation_may_not_commit(servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 3)
    options = {**MANUAL, "session.timeout.ms": 1000, "max.poll.interval.ms": 1000}
    with confluent_consumer(servers, group, options) as slow:
        slow.subscribe([topic])
        message = poll_messages(slow, 1)[0]
        with confluent_consumer(servers, group, MANUAL) as other:
            other.subscribe([topic])
            poll_until_split([other], 3)
            with pytest.raises(confluent_kafka.KafkaException):
                slow.commit(message=message, asynchronous=False)
