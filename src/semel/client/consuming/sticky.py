"""Sharing out partitions evenly while members keep what they have. Pure.

A partition that goes from one member to another is given to nobody at first: its owner has to
hear that it is not its own any more, and joins again; then it is free (KIP-429).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from semel.client.consuming.subscription import Subscription
from semel.types import TopicPartition


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
        place for other, claim in subscriptions.items() if other != member for place in claim.owned
    } & gained


def _owners(subscriptions: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Who has which partition: of two that claim it, the one of the younger generation."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member, subscription in subscriptions.items():
        for place in subscription.owned:
            claims.setdefault(place, []).append((_generation(subscription), member))
    owners = {}
    for place, rivals in claims.items():
        rivals.sort(reverse=True)
        # Of one generation only one can be right, and nobody knows which.
        if len(rivals) == 1 or rivals[0][0] > rivals[1][0]:
            owners[place] = rivals[0][1]
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
            place: owner
            for place, owner in _owners(subscriptions).items()
            # Members may claim what is not there any more, or never was.
            if 0 <= place.partition < partition_counts.get(place.topic, 0)
            and place.topic in subscriptions[owner].topics
        }
        self.by_member: dict[str, set[TopicPartition]] = {
            member: set() for member in sorted(subscriptions)
        }
        for place, owner in self._owners.items():
            self.by_member[owner].add(place)

    def give_out(self) -> None:
        """What nobody has goes to those who have least; what few may take goes first."""
        free = [
            TopicPartition(topic, number)
            for topic in sorted(self._counts, key=lambda topic: (len(self._takers[topic]), topic))
            for number in range(self._counts[topic])
            if self._takers[topic] and TopicPartition(topic, number) not in self._owners
        ]
        for place in free:
            taker = min(self._takers[place.topic], key=lambda each: len(self.by_member[each]))
            self.by_member[taker].add(place)

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
            place = min(
                (place for place in self.by_member[giver] if place.topic == topic),
                key=lambda place: self._cost(place, giver, taker),
            )
            self.by_member[giver].remove(place)
            self.by_member[taker].add(place)
            taker = giver
        return True

    def _cost(
        self, place: TopicPartition, giver: str, taker: str
    ) -> tuple[bool, bool, TopicPartition]:
        owner = self._owners.get(place)
        return (owner != taker, owner == giver, place)

    def _reachable(self, member: str) -> dict[str, _Hop]:
        """Who could take a partition of this member's, and from whom by how few steps."""
        hops: dict[str, _Hop] = {}
        waiting = deque([member])
        while waiting:
            giver = waiting.popleft()
            for topic in sorted({place.topic for place in self.by_member[giver]}):
                for taker in self._takers[topic]:
                    if taker != member and taker not in hops:
                        hops[taker] = _Hop(giver, topic)
                        waiting.append(taker)
        return hops
