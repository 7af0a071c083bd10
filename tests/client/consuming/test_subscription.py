"""Subscriptions as kafka-python writes and reads them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from semel.client.consuming.subscription import (
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from semel.errors import ProtocolError
from semel.types import TopicPartition

names = st.text(max_size=8)
partitions = st.frozensets(st.builds(TopicPartition, names, st.integers(0, 99)), max_size=6)
subscriptions = st.builds(
    Subscription,
    st.frozensets(names, max_size=4),
    partitions,
    st.integers(-1, 2**31 - 1),
    st.none(),
    st.one_of(st.none(), st.binary(min_size=1, max_size=8)),
)


@given(subscriptions)
def test_others_read_what_we_write(subscription: Subscription) -> None:
    read = ConsumerProtocolSubscription.decode(encode_subscription(subscription))
    assert set(read.topics) == subscription.topics
    assert read.user_data == subscription.user_data
    assert {
        TopicPartition(each.topic, number)
        for each in read.owned_partitions
        for number in each.partitions
    } == subscription.owned
    assert read.generation_id == subscription.generation_id


@given(subscriptions, st.integers(0, 3))
def test_we_read_what_others_write(subscription: Subscription, version: int) -> None:
    topics: dict[str, list[int]] = {}
    for topic, number in subscription.owned:
        topics.setdefault(topic, []).append(number)
    written = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in topics.items()
        ],
        generation_id=subscription.generation_id,
        version=version,
    ).encode()
    expected = subscription
    if version < 1:
        expected = expected._replace(owned=frozenset())
    if version < 2:
        expected = expected._replace(generation_id=-1)
    assert decode_subscription(written) == expected


@given(partitions)
def test_others_read_the_shares_we_give(share: frozenset[TopicPartition]) -> None:
    read = ConsumerProtocolAssignment.decode(encode_assignment(share))
    assert {
        TopicPartition(each.topic, number)
        for each in read.assigned_partitions
        for number in each.partitions
    } == share


@given(st.binary(max_size=60))
def test_junk_is_refused_or_read_but_never_crashes(junk: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_subscription(junk)


def test_a_subscription_that_is_cut_is_refused() -> None:
    whole = encode_subscription(Subscription(frozenset({"t"})))
    with pytest.raises(ProtocolError):
        decode_subscription(whole[:8])
