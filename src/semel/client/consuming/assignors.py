"""How the leader of a group shares out its partitions: by ranges, in turn, or as before. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from semel.client.consuming.sticky import assign_sticky, user_data_of
from semel.client.consuming.subscription import Subscription
from semel.types import TopicPartition

Subscriptions = Mapping[str, Subscription]
"""By member id."""
PartitionCounts = Mapping[str, int]
"""By topic; one that does not exist is left out."""
Assignments = dict[str, frozenset[TopicPartition]]


class Assignor(NamedTuple):
    name: str
    """As groups know it, the same in every client."""
    is_cooperative: bool
    """Members keep what they have while the group rebalances (KIP-429)."""
    assign: Callable[[Subscriptions, PartitionCounts], Assignments]
    user_data: Callable[[int], bytes | None] = lambda generation_id: None


def assign_ranges(subscriptions: Subscriptions, partition_counts: PartitionCounts) -> Assignments:
    """Each topic on its own: neighbouring partitions to one member, the first ones get more."""
    shares: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    for topic, count in partition_counts.items():
        members = [each for each in _in_order(subscriptions) if topic in subscriptions[each].topics]
        begin = 0
        for place, member in enumerate(members):
            end = begin + count // len(members) + (place < count % len(members))
            shares[member].update(TopicPartition(topic, number) for number in range(begin, end))
            begin = end
    return _frozen(shares)


def assign_in_turn(subscriptions: Subscriptions, partition_counts: PartitionCounts) -> Assignments:
    """All partitions of all topics, one to each member after the other."""
    shares: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    turns = cycle(_in_order(subscriptions))
    for place in _places(partition_counts):
        if any(place.topic in each.topics for each in subscriptions.values()):
            taker = next(each for each in turns if place.topic in subscriptions[each].topics)
            shares[taker].add(place)
    return _frozen(shares)


def _in_order(subscriptions: Subscriptions) -> Sequence[str]:
    """Static members by the name that they keep, so that a restart does not move their shares."""

    def rank(member: str) -> tuple[bool, str]:
        instance_id = subscriptions[member].group_instance_id
        return (instance_id is None, instance_id or member)

    return sorted(subscriptions, key=rank)


def _places(partition_counts: PartitionCounts) -> Iterable[TopicPartition]:
    for topic in sorted(partition_counts):
        for number in range(partition_counts[topic]):
            yield TopicPartition(topic, number)


def _frozen(shares: Mapping[str, set[TopicPartition]]) -> Assignments:
    return {member: frozenset(share) for member, share in shares.items()}


ASSIGNORS: Mapping[str, Assignor] = {
    each.name: each
    for each in (
        Assignor("range", False, assign_ranges),
        Assignor("roundrobin", False, assign_in_turn),
        Assignor("cooperative-sticky", True, assign_sticky, user_data_of),
    )
}
