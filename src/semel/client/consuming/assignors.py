"""How the leader of a group shares out its partitions: by ranges, round robin, or as before. Pure.

As before: evenly, while members keep what they have. A partition that goes from one member to
another is given to nobody at first: its owner has to hear that it is not its own any more, and
joins again; then it is free (KIP-429).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

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
        for partition, member in enumerate(members):
            end = begin + count // len(members) + (partition < count % len(members))
            shares[member].update(TopicPartition(topic, number) for number in range(begin, end))
            begin = end
    return _frozen(shares)


def assign_round_robin(
    subscriptions: Subscriptions, partition_counts: PartitionCounts
) -> Assignments:
    """All partitions of all topics, one to each member after the other."""
    shares: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    turns = cycle(_in_order(subscriptions))
    for partition in _all_partitions(partition_counts):
        if any(partition.topic in each.topics for each in subscriptions.values()):
            taker = next(each for each in turns if partition.topic in subscriptions[each].topics)
            shares[taker].add(partition)
    return _frozen(shares)


def _in_order(subscriptions: Subscriptions) -> Sequence[str]:
    """Static members by the name that they keep, so that a restart does not move their shares."""

    def rank(member: str) -> tuple[bool, str]:
        instance_id = subscriptions[member].group_instance_id
        return (instance_id is None, instance_id or member)

    return sorted(subscriptions, key=rank)


def _all_partitions(partition_counts: PartitionCounts) -> Iterable[TopicPartition]:
    for topic in sorted(partition_counts):
        for number in range(partition_counts[topic]):
            yield TopicPartition(topic, number)


def _frozen(shares: Mapping[str, set[TopicPartition]]) -> Assignments:
    return {member: frozenset(share) for member, share in shares.items()}


def user_data_of(generation_id: int) -> bytes:
    """For leaders that read no more than version 1 of a subscription."""
    return generation_id.to_bytes(4, "big", signed=True)


def assign_sticky(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> dict[str, frozenset[TopicPartition]]:
    shares = _Shares(subscriptions, partition_counts)
    shares.give_out()
    shares.balance()
    return {
        member: frozenset(share - _claimed_by_others(member, share, subscriptions))
        for member, share in shares.by_member.items()
    }


def _claimed_by_others(
    member: str, share: Iterable[TopicPartition], subscriptions: Mapping[str, Subscription]
) -> set[TopicPartition]:
    gained = set(share) - subscriptions[member].owned
    return {
        partition
        for other, claim in subscriptions.items()
        if other != member
        for partition in claim.owned
    } & gained


def _owners(subscriptions: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Who has which partition: of two that claim it, the one of the younger generation."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member, subscription in subscriptions.items():
        for partition in subscription.owned:
            claims.setdefault(partition, []).append((_generation(subscription), member))
    owners = {}
    for partition, rivals in claims.items():
        rivals.sort(reverse=True)
        # Of one generation only one can be right, and nobody knows which.
        if len(rivals) == 1 or rivals[0][0] > rivals[1][0]:
            owners[partition] = rivals[0][1]
    return owners


def _generation(subscription: Subscription) -> int:
    if subscription.generation_id >= 0 or len(subscription.user_data or b"") != 4:
        return subscription.generation_id
    return int.from_bytes(subscription.user_data or b"", "big", signed=True)


class _Hop(NamedTuple):
    previous: str
    topic: str


class _Shares:
    def __init__(
        self, subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
    ) -> None:
        self._counts = partition_counts
        self._takers: dict[str, Sequence[str]] = {
            topic: sorted(each for each in subscriptions if topic in subscriptions[each].topics)
            for topic in partition_counts
        }
        self._owners = {
            partition: owner
            for partition, owner in _owners(subscriptions).items()
            # Members may claim what is not there any more, or never was.
            if 0 <= partition.partition < partition_counts.get(partition.topic, 0)
            and partition.topic in subscriptions[owner].topics
        }
        self.by_member: dict[str, set[TopicPartition]] = {
            member: set() for member in sorted(subscriptions)
        }
        for partition, owner in self._owners.items():
            self.by_member[owner].add(partition)

    def give_out(self) -> None:
        """What nobody has goes to those who have least; what few may take goes first."""
        free = [
            TopicPartition(topic, number)
            for topic in sorted(self._counts, key=lambda topic: (len(self._takers[topic]), topic))
            for number in range(self._counts[topic])
            if self._takers[topic] and TopicPartition(topic, number) not in self._owners
        ]
        for partition in free:
            taker = min(self._takers[partition.topic], key=lambda each: len(self.by_member[each]))
            self.by_member[taker].add(partition)

    def balance(self) -> None:
        """Until nobody has two more than another who could take one, directly or by others."""
        while any(
            self._relieve(member)
            for member in sorted(self.by_member, key=lambda each: -len(self.by_member[each]))
        ):
            pass

    def _relieve(self, member: str) -> bool:
        hops = self._reachable(member)
        if not hops:
            return False
        poorest = min(hops, key=lambda each: len(self.by_member[each]))
        if len(self.by_member[poorest]) > len(self.by_member[member]) - 2:
            return False
        taker = poorest
        while taker != member:
            giver, topic = hops[taker]
            partition = min(
                (partition for partition in self.by_member[giver] if partition.topic == topic),
                key=lambda partition: self._cost(partition, giver, taker),
            )
            self.by_member[giver].remove(partition)
            self.by_member[taker].add(partition)
            taker = giver
        return True

    def _cost(
        self, partition: TopicPartition, giver: str, taker: str
    ) -> tuple[bool, bool, TopicPartition]:
        owner = self._owners.get(partition)
        return (owner != taker, owner == giver, partition)

    def _reachable(self, member: str) -> dict[str, _Hop]:
        """Who could take a partition of this member's, and from whom by how few steps."""
        hops: dict[str, _Hop] = {}
        waiting = deque([member])
        while waiting:
            giver = waiting.popleft()
            for topic in sorted({partition.topic for partition in self.by_member[giver]}):
                for taker in self._takers[topic]:
                    if taker != member and taker not in hops:
                        hops[taker] = _Hop(giver, topic)
                        waiting.append(taker)
        return hops


ASSIGNORS: Mapping[str, Assignor] = {
    each.name: each
    for each in (
        Assignor("range", False, assign_ranges),
        Assignor("roundrobin", False, assign_round_robin),
        Assignor("cooperative-sticky", True, assign_sticky, user_data_of),
    )
}
