"""A coordinator of one group as small as it can be, and members that meet it in any order.

Each member is the consumer's own core; what it asks is answered, delayed or lost as chance has it.
"""

from collections.abc import Callable, Sequence
from random import Random

from semel.client.consuming.actions import Change, Join, Learn, Leave, Sync, Tell
from semel.client.consuming.membership import Membership, Phase
from semel.errors import (
    IllegalGeneration,
    NetworkException,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from semel.types import TopicPartition
from semel.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember


class ModelCoordinator:
    def __init__(self) -> None:
        self.generation_id = 0
        self.members: dict[str, tuple[tuple[str, bytes], ...]] = {}
        self.joined: set[str] = set()
        self.is_preparing = False
        self.leader_id = ""
        self.assignments: dict[str, bytes] | None = None
        self._named_count = 0

    def new_id(self) -> str:
        self._named_count += 1
        return f"member-{self._named_count}"

    def join(self, member_id: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
        self.members[member_id] = protocols
        self.joined.add(member_id)
        self.is_preparing = True

    def remove(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self.joined.discard(member_id)
        self.is_preparing = True

    def complete_join(self) -> None:
        """Everyone who is known has joined: a generation begins."""
        assert self.is_preparing
        assert self.joined == self.members.keys()
        self.generation_id += 1
        self.joined = set()
        self.is_preparing = False
        self.assignments = None
        if self.leader_id not in self.members:
            self.leader_id = min(self.members, default="")

    def reply_to(self, member_id: str) -> JoinGroupResponse:
        # All members of these tests know the same assignors; the first one is elected.
        name = self.members[member_id][0][0]
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_name=name,
            leader=self.leader_id,
            member_id=member_id,
            members=[
                JoinGroupResponseMember(each, None, dict(protocols)[name])
                for each, protocols in self.members.items()
            ]
            if member_id == self.leader_id
            else [],
        )

    def refusal(self, member_id: str, generation_id: int) -> RequestError | None:
        if member_id not in self.members:
            return UnknownMemberId("unknown")
        if self.is_preparing:
            return RebalanceInProgress("rebalancing")
        return None if generation_id == self.generation_id else IllegalGeneration("old")


class ModelMember:
    def __init__(self, coordinator: ModelCoordinator, topics: Sequence[str], assignor: str) -> None:
        self.core = Membership(topics, [assignor])
        self.told: list[Tell] = []
        self._coordinator = coordinator
        self._joined_in: int | None = None
        """The generation in which its join was asked for, while that is unanswered."""

    @property
    def is_valid(self) -> bool:
        """Whether the group counts on it, in the generation that it thinks."""
        return self.core.is_member and self.core.identity.member_id in self._coordinator.members

    def step(self, counts: dict[str, int], rng: Random, fault_rate: float) -> bool:
        """Do what is due, or part of it; False if there is nothing."""
        if self.core.phase is Phase.JOINING:
            return self._hear_of_join(rng, fault_rate)
        action = self.core.due()
        if action is not None and not isinstance(action, Tell) and rng.random() < fault_rate:
            self._lose(action, rng)
            return True
        match action:
            case None:
                return self._beat()
            case Tell():
                self.core.telling(action)
                self.core.told(action)
                self.told.append(action)
            case Join():
                self._join(action)
            case Learn():
                self.core.learned({topic: counts[topic] for topic in action.topics})
            case Sync():
                return self._sync(action)
            case Leave():
                self._coordinator.remove(action.member_id)
                self.core.left()
        return True

    def _join(self, action: Join) -> None:
        self.core.joining()
        if action.member_id and action.member_id not in self._coordinator.members:
            self.core.refused(UnknownMemberId("unknown"))
            return
        if not action.member_id:
            self.core.named(self._coordinator.new_id())
            # It counts as a member from here on, as far as this small coordinator goes.
            self._coordinator.join(self.core.identity.member_id, action.protocols)
            return
        self._coordinator.join(action.member_id, action.protocols)
        self._joined_in = self._coordinator.generation_id

    def _hear_of_join(self, rng: Random, fault_rate: float) -> bool:
        coordinator, member_id = self._coordinator, self.core.identity.member_id
        if member_id not in coordinator.members:
            self.core.refused(UnknownMemberId("unknown"))
        elif coordinator.generation_id == self._joined_in:
            return False
        elif rng.random() < fault_rate:
            self.core.refused(NetworkException("lost"))
        else:
            self.core.joined(coordinator.reply_to(member_id))
        return True

    def _sync(self, action: Sync) -> bool:
        coordinator = self._coordinator
        refusal = coordinator.refusal(action.member_id, action.generation_id)
        if refusal is not None:
            self.core.refused(refusal)
            return True
        if action.member_id == coordinator.leader_id and action.assignments:
            coordinator.assignments = dict(action.assignments)
        if coordinator.assignments is None:
            return False
        self.core.synced(coordinator.assignments[action.member_id])
        return True

    def _lose(self, action: Join | Learn | Sync | Leave, rng: Random) -> None:
        """The request or its answer is lost."""
        if isinstance(action, Leave):
            self.core.left()
            return
        if isinstance(action, Sync) and action.assignments and rng.random() < 0.5:
            coordinator = self._coordinator
            if coordinator.refusal(action.member_id, action.generation_id) is None:
                coordinator.assignments = dict(action.assignments)
        self.core.refused(NetworkException("lost"))

    def _beat(self) -> bool:
        if not self.core.may_beat:
            return False
        identity = self.core.identity
        refusal = self._coordinator.refusal(identity.member_id, identity.generation_id)
        self.core.beaten(identity, refusal)
        return refusal is not None


class ModelGroup:
    def __init__(self, seed: int, assignor: str, counts: dict[str, int]) -> None:
        self.rng = Random(seed)
        self.counts = counts
        self.coordinator = ModelCoordinator()
        self.members: list[ModelMember] = []
        self._assignor = assignor

    def add(self, topics: Sequence[str]) -> None:
        self.members.append(ModelMember(self.coordinator, topics, self._assignor))

    def expel(self, member: ModelMember) -> None:
        """Its session ends, and it has not heard of that."""
        self.coordinator.remove(member.core.identity.member_id)

    def kill(self, member: ModelMember) -> None:
        self.members.remove(member)
        self.expel(member)

    def owners(self) -> dict[TopicPartition, list[ModelMember]]:
        owners: dict[TopicPartition, list[ModelMember]] = {}
        for member in self.members:
            for place in member.core.owned if member.is_valid else ():
                owners.setdefault(place, []).append(member)
        return owners

    def step(self, fault_rate: float) -> bool:
        """One thing that someone does; False if nobody has anything to do."""
        turns: list[Callable[[], bool]] = [
            lambda member=member: member.step(self.counts, self.rng, fault_rate)  # type: ignore[misc]
            for member in self.members
        ]
        turns.append(self._complete_join)
        self.rng.shuffle(turns)
        return any(turn() for turn in turns) or self._expire()

    def _expire(self) -> bool:
        """The sessions of those of whom nothing will be heard end at last."""
        alive = {member.core.identity.member_id for member in self.members}
        gone = self.coordinator.members.keys() - alive
        for member_id in list(gone):
            self.coordinator.remove(member_id)
        return bool(gone)

    def _complete_join(self) -> bool:
        coordinator = self.coordinator
        if coordinator.is_preparing and coordinator.joined == coordinator.members.keys():
            coordinator.complete_join()
            return True
        return False

    def settle(self, steps_max: int = 2_000) -> None:
        for _ in range(steps_max):
            if not self.step(0):
                return
        raise AssertionError("the group does not come to rest")


def gained_and_given(told: Sequence[Tell]) -> frozenset[TopicPartition]:
    """What is left of all that a member was told."""
    owned: frozenset[TopicPartition] = frozenset()
    for tell in told:
        if tell.change is Change.ASSIGNED:
            assert not owned & tell.partitions, "it had them"
            owned |= tell.partitions
        else:
            assert owned >= tell.partitions, "it did not have them"
            owned -= tell.partitions
    return owned
