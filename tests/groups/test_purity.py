"""A decision changes nothing: it can be dropped, and made again with the same result."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groups.test_schedules import Run
from semel.groups.commands import (
    UNASKED,
    Command,
    DeleteGroups,
    Expire,
    ForgetIds,
    ForgetTicket,
    ForgetTopic,
    Heartbeat,
    JoinReply,
    Ticket,
)
from semel.groups.deciding import GroupDecision
from semel.groups.settings import GroupSettings
from semel.types import NO_PRODUCER_ID, GroupId, MemberId, ProducerId
from support.group_world import GROUP, NOBODY, GroupWorld, everything

GHOST = MemberId("ghost")
PAUSES_MS = (0, 1, 2_999, 3_000, 6_000, 60_000, 8 * 24 * 3_600_000)
SIZES = (0, 150, 1_000, 10**6)


class WatchedWorld(GroupWorld):
    """Looks at all state whenever something is decided, and decides it twice."""

    def __init__(self, settings: GroupSettings, seed: int = 0) -> None:
        super().__init__(settings, seed)
        self.kinds: set[type] = set()
        self._taken: list[tuple[GroupDecision, str]] = []

    def take(
        self,
        command: Command,
        ticket: Ticket = UNASKED,
        producer_id: ProducerId = NO_PRODUCER_ID,
    ) -> GroupDecision:
        self.kinds.add(type(command))
        before = everything(self.groups)
        dropped = self.groups.decide(command, ticket, self.at)
        assert everything(self.groups) == before
        decided = super().take(command, ticket, producer_id)
        assert decided == dropped
        self._check_that_nobody_is_overlooked()
        self._taken.append((decided, repr(decided)))
        return decided

    def _check_that_nobody_is_overlooked(self) -> None:
        """Every session has a time at which it is looked at, and not too late."""
        volatile = self.groups._volatile
        for group_id, group in volatile.by_id.items():
            sessions = group.sessions
            look_ms = sessions._deadlines._scheduled_ms
            members = group.membership.members
            assert members.keys() <= sessions.deadline_ms.keys()
            for member_id, deadline_ms in sessions.deadline_ms.items():
                if member_id not in members or members[member_id].can_expire:
                    assert look_ms[member_id] <= deadline_ms
            next_ms = group.next_deadline_ms()
            assert next_ms is None or volatile._deadlines._scheduled_ms[group_id] <= next_ms

    def check_values(self) -> None:
        """What was decided is a value: nothing that came later has changed it."""
        assert all(repr(decided) == told for decided, told in self._taken)


class Asked(NamedTuple):
    """One of everything that a command may need; each takes what it knows."""

    kind: str
    member: int
    """Which of the ids seen so far; 0 for one that nobody has."""
    number: int
    flag: bool


KINDS = (
    *("join", "enter", "static", "assign", "sync", "heartbeat", "leave"),
    *("commit", "pending", "end_transaction", "delete_offsets", "delete_groups"),
    *("forget_ticket", "forget_ids", "forget_partitions", "expire", "pass_time", "restart"),
)
asked = st.builds(
    Asked, st.sampled_from(KINDS), st.integers(0, 5), st.integers(0, 6), st.booleans()
)


class Sequence:
    def __init__(self, delay_ms: int) -> None:
        limits = GroupSettings(initial_rebalance_delay_ms=delay_ms, member_count_max=4)
        self.world = WatchedWorld(limits)
        self.tickets: list[Ticket] = []

    @property
    def generation(self) -> int:
        replies = self.world.replies.values()
        return max((r.generation for r in replies if isinstance(r, JoinReply)), default=0)

    def member_id(self, index: int) -> MemberId:
        replies = self.world.replies.values()
        ids = dict.fromkeys(r.member_id for r in replies if isinstance(r, JoinReply))
        return [GHOST, *ids][-index % (len(ids) + 1)] if index else GHOST

    def do(self, step: Asked) -> None:  # noqa: PLR0912  One case per command.
        world, member_id = self.world, self.member_id(step.member)
        generation = self.generation - (step.number == 6)
        match step.kind:
            case "join":
                self.tickets.append(world.join(member_id if step.member else NOBODY))
            case "enter":
                new = world.joined(world.join()).member_id
                if new:
                    self.tickets.append(world.join(new, can_skip_assignment=step.flag))
            case "static":
                name = f"i{step.number % 3}"
                self.tickets.append(world.join(group_instance_id=name))
            case "sync":
                given = {self.member_id(index): bytes([index]) for index in range(6)}
                self.tickets.append(world.sync(member_id, generation, given))
            case "assign":
                world.pass_time(3_000)
                for reply in list(world.replies.values()):
                    if isinstance(reply, JoinReply) and reply.members:
                        world.sync(reply.member_id, reply.generation, {reply.member_id: b"all"})
            case "heartbeat":
                world.heartbeat(member_id, generation)
            case "leave":
                again = self.member_id(step.number)
                world.leave((member_id, None), (again, None), (member_id, "i1"), (NOBODY, "i2"))
            case "commit":
                member = member_id if step.flag else NOBODY
                world.commit(step.number, member, generation if step.flag else -1)
            case "pending":
                world.commit(step.number, topic="u", producer_id=ProducerId(step.number % 2))
            case "end_transaction":
                world.end_transaction(ProducerId(step.number % 2), step.flag)
            case "delete_offsets":
                world.delete_offsets("t", "u")
            case "delete_groups":
                world.ask(DeleteGroups((GROUP, GroupId("none"), GROUP)))
            case "forget_ticket":
                waiting = [ticket for ticket in self.tickets if ticket not in world.replies]
                world.take(ForgetTicket(waiting[-1] if waiting else Ticket(10**6)))
            case "forget_ids":
                world.take(ForgetIds(GROUP, (member_id, GHOST)))
            case "forget_partitions":
                world.take(ForgetTopic("u"))
            case "expire":
                world.take(Expire(world.now_ms, SIZES[step.number % len(SIZES)]))
            case "pass_time":
                world.now_ms += PAUSES_MS[step.number]
                if step.flag:
                    world.expire()
            case "restart":
                world.restart()


@settings(max_examples=400)
@given(st.lists(asked, min_size=10, max_size=40), st.sampled_from([0, 3_000]))
def test_what_is_decided_and_dropped_is_decided_again(steps: list[Asked], delay_ms: int) -> None:
    sequence = Sequence(delay_ms)
    for step in steps:
        sequence.do(step)
    sequence.world.check_values()


@pytest.mark.parametrize("seed", range(8))
def test_no_decision_about_living_clients_changes_anything(seed: int) -> None:
    run = Run(seed)
    run.world = world = WatchedWorld(run.world.settings, seed)
    run.go(action_count=300)
    assert run.successes
    assert len(world.kinds) >= 6
    world.check_values()


def test_a_heartbeat_carries_a_deadline_and_nothing_of_the_others() -> None:
    world = GroupWorld()
    (leader, *_), generation = world.stable(50)
    decided = world.groups.decide(Heartbeat(GROUP, generation, leader, None), Ticket(99), world.at)
    assert not decided.records
    assert len(repr(decided)) < 500
