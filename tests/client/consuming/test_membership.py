"""The core of a member: what each answer means, and groups of cores in any order of events."""

from collections.abc import Callable

import pytest

from client.consuming.model_group import ModelGroup, gained_and_given
from semel.client.consuming.actions import Change, Join, Learn, Leave, MemberIdentity, Sync, Tell
from semel.client.consuming.membership import Membership, Phase
from semel.client.consuming.subscription import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from semel.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InconsistentGroupProtocol,
    NetworkException,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from semel.types import TopicPartition
from semel.wire.messages.join_group import JoinGroupResponse

PLACES = frozenset(TopicPartition("t", number) for number in range(4))
FIRST = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


def joined_reply(generation_id: int = 1, leader: str = "other") -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation_id,
        protocol_name="cooperative-sticky",
        leader=leader,
        member_id="me",
    )


def member(assignor: str = "cooperative-sticky", instance_id: str | None = None) -> Membership:
    return Membership(["t"], [assignor], instance_id)


def stable(core: Membership, owned: frozenset[TopicPartition] = PLACES) -> Membership:
    """The core as it is after a rebalance that gave it these."""
    core.joining()
    core.joined(joined_reply(core.identity.generation_id + 1 if core.is_member else 1))
    core.synced(encode_assignment(owned))
    while isinstance(tell := core.due(), Tell):
        core.telling(tell)
        core.told(tell)
    return core


def tell_all(core: Membership) -> list[tuple[Change, frozenset[TopicPartition]]]:
    told = []
    while isinstance(tell := core.due(), Tell):
        core.telling(tell)
        core.told(tell)
        told.append((tell.change, tell.partitions))
    return told


def test_a_member_joins_twice_if_it_is_named_first() -> None:
    core = member()
    first = core.due()
    assert isinstance(first, Join)
    assert first.member_id == ""
    core.joining()
    assert core.due() is None
    core.named("me")
    second = core.due()
    assert isinstance(second, Join)
    assert second.member_id == "me"


def test_a_leader_learns_shares_out_and_watches() -> None:
    core = member()
    core.joining()
    join = core.due()
    reply = joined_reply(leader="me")
    core.joined(reply)
    assert join is None
    assert core.due() == Learn(frozenset())
    core.learned({"t": 4})
    assert core.due() == Sync(1, "me", "cooperative-sticky", {})


def test_only_the_leader_rejoins_when_topics_change() -> None:
    follower = stable(member())
    follower.noticed({"t": 9})
    assert follower.phase is Phase.STABLE
    group = ModelGroup(0, "range", {"t": 4, "u": 2})
    group.add(["t"])
    group.add(["u"])
    group.settle()
    leader = next(
        each.core
        for each in group.members
        if each.core.identity.member_id == group.coordinator.leader_id
    )
    # It watches the topics of the others, too.
    assert leader.watched_topics == {"t", "u"}
    leader.noticed({"t": 4, "u": 2, "unrelated": 1})
    assert leader.phase is Phase.STABLE
    leader.noticed({"t": 4, "u": 3})
    assert isinstance(leader.due(), Tell | Join)


def test_an_eager_member_joins_with_nothing_and_a_cooperative_one_with_what_it_has() -> None:
    for assignor, owned in (("range", frozenset[TopicPartition]()), ("cooperative-sticky", PLACES)):
        core = stable(member(assignor))
        core.beaten(core.identity, RebalanceInProgress(""))
        told = tell_all(core)
        assert told == ([(Change.REVOKED, PLACES)] if assignor == "range" else [])
        join = core.due()
        assert isinstance(join, Join)
        subscription = decode_subscription(join.protocols[0][1])
        assert subscription.owned == owned
        assert subscription.generation_id == (1 if owned else -1)


def test_a_cooperative_member_gives_up_what_another_shall_have_and_joins_again() -> None:
    core = stable(member())
    core.beaten(core.identity, RebalanceInProgress(""))
    core.joining()
    core.joined(joined_reply(2))
    core.synced(encode_assignment(FIRST))
    assert tell_all(core) == [(Change.REVOKED, PLACES - FIRST), (Change.ASSIGNED, frozenset())]
    assert core.owned == FIRST
    assert isinstance(core.due(), Join)


@pytest.mark.parametrize(
    ("error", "keeps_id"), [(UnknownMemberId(""), False), (IllegalGeneration(""), True)]
)
@pytest.mark.parametrize("asked", ["heartbeat", "join", "sync"])
def test_who_is_not_known_any_more_has_lost_what_it_had(
    error: RequestError, keeps_id: bool, asked: str
) -> None:
    core = stable(member())
    if asked == "heartbeat":
        core.beaten(core.identity, error)
    else:
        core.beaten(core.identity, RebalanceInProgress(""))
        core.joining()
        if asked == "sync":
            core.joined(joined_reply(2))
        core.refused(error)
    assert tell_all(core) == [(Change.LOST, PLACES)]
    join = core.due()
    assert isinstance(join, Join)
    assert join.member_id == ("me" if keeps_id else "")


@pytest.mark.parametrize("error", [NetworkException(""), CoordinatorNotAvailable("")])
def test_a_coordinator_that_is_away_takes_nothing_from_a_member(error: RequestError) -> None:
    core = stable(member())
    core.beaten(core.identity, error)
    assert core.phase is Phase.STABLE
    core.beaten(core.identity, RebalanceInProgress(""))
    core.joining()
    core.refused(error)
    assert isinstance(core.due(), Join)
    assert core.owned == PLACES


@pytest.mark.parametrize(
    "error",
    [FencedInstanceId(""), GroupAuthorizationFailed(""), InconsistentGroupProtocol("")],
)
def test_what_will_never_be_allowed_ends_the_membership(error: RequestError) -> None:
    core = stable(member(instance_id="one"))
    core.beaten(core.identity, error)
    assert tell_all(core) == [(Change.LOST, PLACES)]
    assert core.due() is None
    assert core.fatal is error


def test_an_answer_to_who_the_member_was_before_means_nothing() -> None:
    core = stable(member())
    before = core.identity
    core.beaten(core.identity, RebalanceInProgress(""))
    stable(core)
    assert core.identity == MemberIdentity(2, "me")
    core.beaten(before, IllegalGeneration(""))
    assert core.phase is Phase.STABLE


@pytest.mark.parametrize("instance_id", [None, "static"])
def test_who_stays_away_leaves_and_joins_when_it_is_back(instance_id: str | None) -> None:
    core = stable(member(instance_id=instance_id))
    core.overslept()
    if instance_id is None:
        assert core.due() == Leave("me")
        core.left()
    # It is told when it asks for records, and that is when it is back.
    assert tell_all(core) == [(Change.LOST, PLACES)]
    assert core.due() is None
    assert core.polled()
    assert isinstance(core.due(), Join)


def test_who_has_stayed_away_hears_of_its_loss_before_its_group_has_let_it_go() -> None:
    core = stable(member())
    core.overslept()
    assert core.due() == Leave("me")
    tell = core.due_tell()
    assert tell is not None
    assert (tell.change, tell.partitions) == (Change.LOST, PLACES)
    core.told(tell)
    assert core.due_tell() is None
    assert core.due() == Leave("me")


@pytest.mark.parametrize("error", [UnknownMemberId(""), IllegalGeneration("")])
def test_what_was_lost_is_held_by_who_it_was_until_the_application_is_told(
    error: RequestError,
) -> None:
    core = stable(member())
    before = core.identity
    core.beaten(before, error)
    assert not core.is_member
    assert core.holder == before
    tell_all(core)
    assert core.holder.generation_id == -1


def test_a_subscription_that_changes_while_joining_is_joined_with_afterwards() -> None:
    core = member()
    core.joining()
    core.subscribe(["u"])
    core.joined(joined_reply())
    core.synced(encode_assignment(PLACES))
    # What it is given is not what it wants any more.
    assert tell_all(core) == [(Change.ASSIGNED, frozenset())]
    join = core.due()
    assert isinstance(join, Join)
    assert decode_subscription(join.protocols[0][1]).topics == {"u"}


def test_topics_that_are_not_subscribed_to_any_more_are_given_up_before_joining() -> None:
    core = stable(member())
    core.subscribe(["u"])
    assert tell_all(core) == [(Change.REVOKED, PLACES)]


ATTACKS: list[Callable[[ModelGroup], None]] = [
    lambda group: group.add(["t", "u"]),
    lambda group: group.add(["t"]),
    lambda group: group.kill(group.rng.choice(group.members)),
    lambda group: group.expel(group.rng.choice(group.members)),
    lambda group: group.rng.choice(group.members).core.overslept(),
    lambda group: group.rng.choice(group.members).core.subscribe(group.rng.choice([["t"], ["u"]])),
    lambda group: group.counts.update(t=group.rng.randint(1, 9)),
]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("block", range(4))
def test_a_group_in_any_disorder_never_has_two_owners_and_comes_to_rest(
    assignor: str, block: int
) -> None:
    for seed in range(40 * block, 40 * (block + 1)):
        group = ModelGroup(seed, assignor, {"t": 6, "u": 3})
        group.add(["t", "u"])
        for _ in range(group.rng.randint(20, 200)):
            if group.rng.random() < 0.1:
                group.rng.choice(ATTACKS)(group)
                if not group.members:
                    group.add(["t", "u"])
            for each in group.members:
                each.core.polled()
            group.step(fault_rate=0.1)
            for place, owners in group.owners().items():
                assert len(owners) == 1, f"seed {seed}: {place} has {len(owners)} owners"
        for each in group.members:
            each.core.polled()
        # Whoever leads has had a look at the topics since they changed.
        for each in group.members:
            each.core.noticed(group.counts)
        group.settle()
        check_rest(group, seed)


def check_rest(group: ModelGroup, seed: int) -> None:
    expected = {
        TopicPartition(topic, number)
        for each in group.members
        for topic in each.core.topics
        for number in range(group.counts[topic])
    }
    owners = group.owners()
    assert owners.keys() == expected, f"seed {seed}"
    for each in group.members:
        assert each.core.phase is Phase.STABLE, f"seed {seed}"
        assert gained_and_given(each.told) == each.core.owned, f"seed {seed}"
        assert {place.topic for place in each.core.owned} <= each.core.topics


def test_what_a_leader_writes_its_members_read() -> None:
    assert decode_assignment(encode_assignment(PLACES)) == PLACES
