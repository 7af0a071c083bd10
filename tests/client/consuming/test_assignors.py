"""Sharing out partitions: complete, never one twice, even, and as before where that is possible."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.consuming.assignors import (
    ASSIGNORS,
    Assignments,
    assign_ranges,
    assign_round_robin,
    assign_sticky,
)
from semel.client.consuming.subscription import Subscription
from semel.types import TopicPartition

TOPICS = ["a", "b", "c"]
MEMBERS = [f"member-{number}" for number in range(5)]

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
topic_sets = st.frozensets(st.sampled_from(TOPICS), min_size=1)
subscriptions = st.dictionaries(
    st.sampled_from(MEMBERS),
    st.builds(Subscription, topic_sets, st.just(frozenset()), st.just(-1), st.none(), st.none()),
    min_size=1,
)


def places(partition_counts: Mapping[str, int]) -> set[TopicPartition]:
    return {
        TopicPartition(topic, number)
        for topic, count in partition_counts.items()
        for number in range(count)
    }


def check_shares(
    shares: Assignments, members: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> None:
    """Everything that someone has subscribed to is given out, once, and to a subscriber."""
    given = [place for share in shares.values() for place in share]
    wanted = {topic for each in members.values() for topic in each.topics}
    assert shares.keys() == members.keys()
    assert len(given) == len(set(given))
    assert set(given) == {place for place in places(partition_counts) if place.topic in wanted}
    for member, share in shares.items():
        assert {place.topic for place in share} <= members[member].topics


@pytest.mark.parametrize("name", ASSIGNORS)
@given(members=subscriptions, partition_counts=counts)
def test_all_partitions_are_given_out_once(
    name: str, members: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    shares = ASSIGNORS[name].assign(members, partition_counts)
    check_shares(shares, members, partition_counts)


def test_ranges_and_turns_are_those_of_other_clients() -> None:
    members = {name: Subscription(frozenset({"t", "u"})) for name in ("x", "y")}
    partition_counts = {"t": 3, "u": 3}

    def named(shares: Assignments) -> dict[str, list[str]]:
        return {member: sorted(map(str, share)) for member, share in shares.items()}

    assert named(assign_ranges(members, partition_counts)) == {
        "x": ["t-0", "t-1", "u-0", "u-1"],
        "y": ["t-2", "u-2"],
    }
    assert named(assign_round_robin(members, partition_counts)) == {
        "x": ["t-0", "t-2", "u-1"],
        "y": ["t-1", "u-0", "u-2"],
    }


def test_static_members_keep_their_ranges_under_new_ids() -> None:
    topics = frozenset({"t"})

    def shares(first: str, second: str) -> Assignments:
        return assign_ranges(
            {
                first: Subscription(topics, group_instance_id="one"),
                second: Subscription(topics, group_instance_id="two"),
                "0": Subscription(topics),
            },
            {"t": 7},
        )

    before, after = shares("a", "b"), shares("z", "y")
    assert (before["a"], before["b"]) == (after["z"], after["y"])


def owning(shares: Assignments, topics: Mapping[str, frozenset[str]]) -> dict[str, Subscription]:
    """The members as they join once they have what they were given."""
    return {
        member: Subscription(topics[member], shares.get(member, frozenset()), 7)
        for member in topics
    }


def settled(members: dict[str, Subscription], partition_counts: dict[str, int]) -> Assignments:
    """After the second rebalance, in which what was given up is free."""
    first = assign_sticky(members, partition_counts)
    topics = {member: each.topics for member, each in members.items()}
    return assign_sticky(owning(first, topics), partition_counts)


@given(members=subscriptions, partition_counts=counts)
def test_sticky_shares_are_as_even_as_subscriptions_allow(
    members: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    shares = assign_sticky(members, partition_counts)
    # Nobody could give one to another who has two less, not even by way of others.
    for member, share in shares.items():
        reachable, waiting = {member}, [member]
        while waiting:
            giver = waiting.pop()
            for place in shares[giver]:
                for taker, each in members.items():
                    if place.topic in each.topics and taker not in reachable:
                        reachable.add(taker)
                        waiting.append(taker)
        assert all(len(shares[taker]) >= len(share) - 1 for taker in reachable)


@given(members=subscriptions, partition_counts=counts)
def test_nothing_moves_when_nothing_has_changed(
    members: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    topics = {member: each.topics for member, each in members.items()}
    before = assign_sticky(members, partition_counts)
    assert assign_sticky(owning(before, topics), partition_counts) == before


@given(
    before=st.sets(st.sampled_from(MEMBERS), min_size=1),
    after=st.sets(st.sampled_from(MEMBERS), min_size=1),
    partition_counts=counts,
)
def test_among_equals_no_more_moves_than_must(
    before: set[str], after: set[str], partition_counts: dict[str, int]
) -> None:
    topics = frozenset(TOPICS)
    old = assign_sticky({each: Subscription(topics) for each in before}, partition_counts)
    members = {each: Subscription(topics, old.get(each, frozenset()), 3) for each in after}
    new = settled(members, partition_counts)
    check_shares(new, members, partition_counts)
    total = len(places(partition_counts))
    floor, larger_count = divmod(total, len(after))
    sizes = sorted((len(old.get(each, ())) for each in after), reverse=True)
    must = sum(max(0, size - floor - (rank < larger_count)) for rank, size in enumerate(sizes))
    moved = sum(len(members[each].owned - new[each]) for each in after)
    assert moved == must
    assert max(map(len, new.values())) - min(map(len, new.values())) <= 1


@given(
    claims=st.dictionaries(
        st.sampled_from(MEMBERS),
        st.tuples(
            st.frozensets(
                st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(-1, 5)), max_size=8
            ),
            st.integers(-1, 3),
        ),
        min_size=1,
    ),
    partition_counts=counts,
)
def test_whatever_members_claim_nobody_gets_what_another_may_still_have(
    claims: dict[str, tuple[frozenset[TopicPartition], int]], partition_counts: dict[str, int]
) -> None:
    members = {
        member: Subscription(frozenset(TOPICS), owned, generation_id)
        for member, (owned, generation_id) in claims.items()
    }
    shares = assign_sticky(members, partition_counts)
    given = [place for share in shares.values() for place in share]
    assert len(given) == len(set(given))
    for member, share in shares.items():
        for place in share - members[member].owned:
            assert not any(place in each.owned for each in members.values())
    # Whoever claims what it was not given joins again without it, and then all are shared out.
    topics = {member: each.topics for member, each in members.items()}
    kept = {member: shares[member] & members[member].owned for member in members}
    gained = {member: shares[member] | kept[member] for member in members}
    check_shares(assign_sticky(owning(gained, topics), partition_counts), members, partition_counts)


def test_of_two_that_claim_a_partition_the_younger_generation_has_it() -> None:
    place = TopicPartition("t", 0)
    topics = frozenset({"t"})
    old = Subscription(topics, frozenset({place}), -1, user_data=(4).to_bytes(4, "big"))
    new = Subscription(topics, frozenset({place}), 5)
    assert assign_sticky({"x": old, "y": new}, {"t": 1}) == {"x": frozenset(), "y": {place}}
    # Only one of two can be right who claim the same, and both have to give it up.
    rivals = {"x": new, "y": new}
    shares = assign_sticky(rivals, {"t": 1})
    assert sum(map(len, shares.values())) <= 1
