"""One member of a group in the classic protocol: what is asked, and what the answers mean. Pure.

    UNJOINED → JOINING → (LEADING →) SYNCING → ADOPTING → STABLE
        ↑__________________________________________________|   whenever the group rebalances

Law: partitions come and go only while the application is told, and it is told only when it asks
for records. Without cooperation all of them go before the member joins; with it, those that
another will have go afterwards, and the member joins once more so that they are free (KIP-429).
A member that its group does not know any more has lost what it had.
"""

import enum
from collections.abc import Collection, Mapping

from semel.client.consuming.actions import (
    NOBODY,
    Action,
    Change,
    Join,
    Learn,
    Leave,
    MemberIdentity,
    Sync,
    Tell,
)
from semel.client.consuming.assignors import ASSIGNORS, Assignor
from semel.client.consuming.subscription import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from semel.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    RequestError,
    SemelError,
    UnknownMemberId,
)
from semel.types import TopicPartition
from semel.wire.messages.join_group import JoinGroupResponse


class Phase(enum.Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    LEADING = "leading"
    SYNCING = "syncing"
    ADOPTING = "adopting"
    STABLE = "stable"


_ANSWER_PENDING = (Phase.JOINING, Phase.LEADING, Phase.SYNCING)


class Membership:
    def __init__(
        self,
        topics: Collection[str],
        assignors: Collection[str],
        group_instance_id: str | None = None,
    ) -> None:
        self.topics = frozenset(topics)
        self.phase = Phase.UNJOINED
        self.identity = NOBODY
        self._identity_last = NOBODY
        self.owned: frozenset[TopicPartition] = frozenset()
        """What the application has been told to have."""
        self.fatal: SemelError | None = None
        self._assignors = [ASSIGNORS[name] for name in assignors]
        self.is_cooperative = all(each.is_cooperative for each in self._assignors)
        self._is_static = group_instance_id is not None
        self._owned_generation_id = NOBODY.generation_id
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._is_stale = False
        self._is_asleep = False
        self._leaving_id: str | None = None
        self._protocol_name: str | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._skips_assignment = False
        self._partition_counts: dict[str, int] | None = None
        self._assignments: dict[str, bytes] = {}

    @property
    def is_member(self) -> bool:
        return self.identity.generation_id >= 0

    @property
    def holder(self) -> MemberIdentity:
        """As whom it has its partitions; once it has lost them, and is not told yet, had them.

        A commit for nobody in particular is one that no group refuses.
        """
        return self._identity_last if self.owned and not self.is_member else self.identity

    @property
    def may_beat(self) -> bool:
        """Whoever waits for an answer of the group's need not tell that it is there."""
        return self.is_member and self.phase not in _ANSWER_PENDING and self.fatal is None

    def is_settled(self, identity: MemberIdentity) -> bool:
        """Whether this is who the member is, and no rebalance is about to change that."""
        return identity == self.identity and self.phase not in _ANSWER_PENDING

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics that make the group rebalance when they change: a leader watches all of them."""
        return self.topics if self._partition_counts is None else self._group_topics()

    def _group_topics(self) -> frozenset[str]:
        return frozenset().union(*(each.topics for each in self._subscriptions.values()))

    def due(self) -> Action | None:
        """What is to be done now; nothing while an answer is awaited or all is well."""
        if self._leaving_id is not None:
            return Leave(self._leaving_id)
        if self.fatal is not None:
            return self._tell(Change.LOST, self.owned) if self.owned else None
        action: Action | None = None
        match self.phase:
            case Phase.UNJOINED:
                action = self._before_joining()
            case Phase.LEADING:
                action = Learn(self._group_topics())
            case Phase.SYNCING:
                action = Sync(*self.identity, self._protocol_name, self._assignments)
            case Phase.ADOPTING:
                action = self._adopting()
            case Phase.JOINING | Phase.STABLE:
                pass
        return action

    def due_tell(self) -> Tell | None:
        """What the application is to be told before it gets any records."""
        if self.owned and not self.is_member:
            # Also while the group is still being asked to let go.
            return self._tell(Change.LOST, self.owned)
        action = self.due()
        return action if isinstance(action, Tell) else None

    def _adopting(self) -> Tell:
        revoked = self.owned - self._assigned
        if revoked:
            return self._tell(Change.REVOKED, revoked)
        return self._tell(Change.ASSIGNED, self._assigned - self.owned)

    def _before_joining(self) -> Action | None:
        if self.owned and not self.is_member:
            return self._tell(Change.LOST, self.owned)
        kept = {each for each in self.owned if each.topic in self.topics and self.is_cooperative}
        if self.owned != kept:
            return self._tell(Change.REVOKED, self.owned - kept)
        if self._is_asleep:
            return None
        protocols = tuple((each.name, self._subscription(each)) for each in self._assignors)
        return Join(self.identity.member_id, protocols)

    def _subscription(self, assignor: Assignor) -> bytes:
        generation_id = self._owned_generation_id if self.owned else NOBODY.generation_id
        return encode_subscription(
            Subscription(
                self.topics,
                self.owned,
                generation_id,
                user_data=assignor.user_data(generation_id),
            )
        )

    def _tell(self, change: Change, partitions: frozenset[TopicPartition]) -> Tell:
        return Tell(change, partitions, self.identity.generation_id)

    # What the application does

    def subscribe(self, topics: Collection[str]) -> None:
        if self.topics != frozenset(topics):
            self.topics = frozenset(topics)
            self._rejoin()

    def telling(self, tell: Tell) -> None:
        """The application is about to be told: partitions are its own from here on."""
        if tell.change is Change.ASSIGNED:
            self.owned |= tell.partitions
            self._owned_generation_id = tell.generation_id

    def told(self, tell: Tell) -> None:
        if tell.change is not Change.ASSIGNED:
            self.owned -= tell.partitions
        elif self.phase is Phase.ADOPTING and tell.generation_id == self.identity.generation_id:
            self.phase = Phase.UNJOINED if self._is_stale else Phase.STABLE
            self._is_stale = False

    def polled(self) -> bool:
        """Whether that wakes a member that has overslept."""
        was_asleep, self._is_asleep = self._is_asleep, False
        return was_asleep

    def overslept(self) -> None:
        """The application has not asked for records for too long: others shall have its share."""
        if self.may_beat:
            if not self._is_static:
                self._leaving_id = self.identity.member_id
            self._reset()
            self._is_asleep = True

    # What the coordinator answers

    def joining(self) -> None:
        self._is_stale = False
        self.phase = Phase.JOINING

    def named(self, member_id: str) -> None:
        """Join again under this id (KIP-394)."""
        self.identity = MemberIdentity(NOBODY.generation_id, member_id)
        self.phase = Phase.UNJOINED

    def joined(self, reply: JoinGroupResponse) -> None:
        self.identity = MemberIdentity(reply.generation_id, reply.member_id)
        # Before version 7 the protocol's name is never null, and its type is not told.
        self._protocol_name = reply.protocol_name
        self._assignments = {}
        self._partition_counts = None
        self.phase = Phase.SYNCING
        if reply.leader != reply.member_id:
            return
        if reply.protocol_name not in [each.name for each in self._assignors]:
            self._fail(
                InconsistentGroupProtocol(f"the group has chosen {reply.protocol_name}, unknown")
            )
            return
        self._subscriptions = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in reply.members
        }
        self._skips_assignment = reply.skip_assignment
        self.phase = Phase.LEADING

    def learned(self, partition_counts: Mapping[str, int]) -> None:
        """What the leader needs to know for sharing out the partitions."""
        topics = self._group_topics() & partition_counts.keys()
        self._partition_counts = {topic: partition_counts[topic] for topic in topics}
        if not self._skips_assignment:
            shares = ASSIGNORS[self._protocol_name or ""].assign(
                self._subscriptions, self._partition_counts
            )
            self._assignments = {
                member: encode_assignment(share) for member, share in shares.items()
            }
        self.phase = Phase.SYNCING

    def synced(self, assignment: bytes) -> None:
        self._assignments = {}
        assigned = decode_assignment(assignment)
        self._assigned = frozenset(each for each in assigned if each.topic in self.topics)
        if not self.owned <= self._assigned:
            # Those that go are free for others once this member has joined without them.
            self._is_stale = True
        self.phase = Phase.ADOPTING

    def refused(self, error: SemelError) -> None:
        """Of a join or a sync: it is tried again, unless it never will succeed."""
        self.phase = Phase.UNJOINED
        self._judge(error)

    def beaten(self, identity: MemberIdentity, error: RequestError | None) -> None:
        """The answer to a heartbeat; or to a commit, which tells as much."""
        if error is None or not self.is_settled(identity):
            return
        if isinstance(error, RebalanceInProgress):
            self._rejoin()
        else:
            self._judge(error)

    def noticed(self, partition_counts: Mapping[str, int]) -> None:
        """How many partitions the watched topics have now; of interest to a leader only."""
        known = self._partition_counts
        if known is not None and self.phase in (Phase.ADOPTING, Phase.STABLE):
            topics = self._group_topics() & partition_counts.keys()
            if known != {topic: partition_counts[topic] for topic in topics}:
                self._rejoin()

    def left(self) -> None:
        self._leaving_id = None

    def _rejoin(self) -> None:
        if self.phase is Phase.STABLE:
            self.phase = Phase.UNJOINED
        elif self.phase is not Phase.UNJOINED:
            self._is_stale = True

    def _judge(self, error: SemelError) -> None:
        if isinstance(error, UnknownMemberId):
            self._reset()
        elif isinstance(error, IllegalGeneration):
            self._reset(self.identity.member_id)
        elif isinstance(error, RebalanceInProgress):
            pass
        elif not (isinstance(error, RequestError) and error.retriable):
            self._fail(error)

    def _reset(self, member_id: str = NOBODY.member_id) -> None:
        if self.is_member:
            self._identity_last = self.identity
        self.identity = MemberIdentity(NOBODY.generation_id, member_id)
        self.phase = Phase.UNJOINED
        self._is_stale = False

    def _fail(self, error: SemelError) -> None:
        self.fatal = error
        self._reset()
