"""Random clients, deaths, retries and restarts, against an oracle that knows only the replies."""

import itertools
import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import (
    NONE,
    FencedInstanceId,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from semel.groups.commands import JoinReply, Protocol, SyncReply, Ticket
from semel.groups.records import GenerationRecorded
from semel.groups.settings import GroupSettings
from semel.types import MemberId, ProducerId
from support.group_world import GROUP, NOBODY, GroupWorld, everything, subscription

PARTITION_COUNT = 12
SESSION_TIMEOUTS_MS = (6_000, 10_000, 30_000)
REBALANCE_TIMEOUTS_MS = (8_000, 20_000)
PROTOCOLS = tuple(Protocol(name, subscription("t")) for name in ("range", "sticky", "roundrobin"))


class Client:
    """A consumer that follows the protocol, as far as it has been answered."""

    def __init__(self, name: str, instance: str | None, chance: random.Random) -> None:
        self.name = name
        self.instance = instance
        protocols = [PROTOCOLS[0], *chance.sample(PROTOCOLS[1:], chance.randint(0, 2))]
        chance.shuffle(protocols)
        self.options: dict[str, Any] = {
            "client_id": name,
            "group_instance_id": instance,
            "session_timeout_ms": chance.choice(SESSION_TIMEOUTS_MS),
            "rebalance_timeout_ms": chance.choice(REBALANCE_TIMEOUTS_MS),
            "protocols": tuple(protocols),
            "returns_with_member_id": chance.random() < 0.7,
            "can_skip_assignment": chance.random() < 0.5,
        }
        self.reset()

    def reset(self) -> None:
        self.member_id = NOBODY
        self.generation = -1
        self.ticket: Ticket | None = None
        self.joined: JoinReply | None = None


class Oracle:
    """What must hold of all replies of one life of the broker, told by the replies alone."""

    def __init__(self) -> None:
        self.agreed: dict[int, tuple[MemberId, str | None]] = {}
        self.listed: dict[int, frozenset[MemberId]] = {}
        self.owners: defaultdict[int, dict[int, MemberId]] = defaultdict(dict)
        self.newest_generation = 0

    def saw_join(self, reply: JoinReply, static: bool) -> None:
        if reply.error_code != NONE:
            assert reply.generation == -1
            return
        generation = reply.generation
        assert generation >= self.newest_generation
        self.newest_generation = generation
        leader, protocol = self.agreed.setdefault(generation, (reply.leader, reply.protocol_name))
        assert reply.protocol_name == protocol
        # A static leader, named after its instance, changes its id when it returns.
        assert reply.leader == leader or (reply.leader[0], leader[0]) == ("i", "i")
        if reply.members:
            assert reply.leader == reply.member_id
            members = frozenset(member.member_id for member in reply.members)
            assert reply.member_id in members
            if not reply.skip_assignment:
                assert self.listed.setdefault(generation, members) == members
        if generation in self.listed and not static:
            assert reply.member_id in self.listed[generation]

    def saw_sync(
        self, member_id: MemberId, generation: int, reply: SyncReply, static: bool
    ) -> None:
        if reply.error_code != NONE or static:
            return
        owned = self.owners[generation]
        for partition in reply.assignment:
            assert owned.setdefault(partition, member_id) == member_id


class Run:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        delay_ms = self.chance.choice((0, 3_000))
        self.world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=delay_ms), seed)
        self.clients = [
            Client(f"c{n}", f"i{n}" if n % 3 == 2 else None, self.chance) for n in range(6)
        ]
        self.oracle = Oracle()
        self.committed: dict[str, int] = {}
        self.lost_tickets: set[Ticket] = set()
        self.past: list[tuple[MemberId, int, str | None]] = [(MemberId("ghost"), 1, None)]
        self.sent: dict[Ticket, tuple[Client, MemberId, int]] = {}
        self.restarts = 0
        self.successes = 0

    # What clients do

    def join(self, client: Client) -> None:
        ticket = self.world.join(client.member_id, **client.options)
        self.sent[ticket] = (client, client.member_id, -1)
        client.ticket = ticket

    def sync(self, client: Client) -> None:
        assert client.joined is not None
        assignments: dict[MemberId, bytes] = {}
        if client.joined.members and not client.joined.skip_assignment:
            shares: dict[MemberId, list[int]] = {m.member_id: [] for m in client.joined.members}
            for partition in range(PARTITION_COUNT):
                shares[self.chance.choice(list(shares))].append(partition)
            assignments = {member_id: bytes(share) for member_id, share in shares.items()}
        ticket = self.world.sync(
            client.member_id, client.generation, assignments, group_instance_id=client.instance
        )
        self.sent[ticket] = (client, client.member_id, client.generation)
        client.ticket = ticket

    def read_reply(self, client: Client) -> None:
        if client.ticket is None or client.ticket not in self.world.replies:
            return
        reply = self.world.replies[client.ticket]
        client.ticket = None
        if isinstance(reply, JoinReply):
            self.read_join(client, reply)
        elif isinstance(reply, SyncReply):
            if reply.error_code in (UnknownMemberId.code, FencedInstanceId.code):
                client.reset()
            elif reply.error_code != NONE:
                client.joined = None

    def read_join(self, client: Client, reply: JoinReply) -> None:
        if reply.error_code == MemberIdRequired.code:
            client.member_id = reply.member_id
            self.join(client)
        elif reply.error_code == NONE:
            self.successes += 1
            client.member_id, client.generation = reply.member_id, reply.generation
            client.joined = reply
            self.past.append((reply.member_id, reply.generation, client.instance))
            self.sync(client)
        elif reply.error_code != RebalanceInProgress.code:
            client.reset()

    def heartbeat(self, client: Client) -> None:
        if client.joined is None:
            return
        code = self.world.heartbeat(client.member_id, client.generation, client.instance)
        if code in (UnknownMemberId.code, FencedInstanceId.code, IllegalGeneration.code):
            client.reset()
        elif code == RebalanceInProgress.code and client.ticket is None:
            self.join(client)

    def commit(self, client: Client) -> None:
        offset = self.chance.randrange(1_000)
        topic = self.chance.choice(("t", "u"))
        code = self.world.commit(
            offset, client.member_id, client.generation, topic, group_instance_id=client.instance
        )
        if code == NONE:
            self.committed[topic] = offset
            if client.generation >= 0:
                assert client.generation >= self.oracle.newest_generation

    def leave(self, client: Client) -> None:
        """Its connection stays, so a request that waits there must still be answered."""
        self.world.leave((client.member_id, client.instance))
        client.reset()

    def lose_connection(self, client: Client) -> None:
        if client.ticket is not None and client.ticket not in self.world.replies:
            self.lost_tickets.add(client.ticket)
            self.world.forget(client.ticket)
        client.ticket = None

    def die(self, client: Client) -> None:
        self.lose_connection(client)
        client.reset()

    def ask_again(self, client: Client) -> None:
        """A retry on another connection, while the first request may still be waiting."""
        if client.ticket is not None and client.joined is None:
            self.join(client)
        elif client.ticket is not None:
            self.sync(client)

    def speak_from_the_past(self, _: Client) -> None:
        """A late request of any earlier member must be refused, or be one that is still true."""
        member_id, generation, instance = self.chance.choice(self.past)
        before = everything(self.world.groups)
        self.world.now_ms += 1
        code = self.world.heartbeat(member_id, generation, instance)
        if code not in (NONE, RebalanceInProgress.code):
            assert everything(self.world.groups) == before
        before = everything(self.world.groups)
        stale = self.world.sync(member_id, generation - 1, {}, group_instance_id=instance)
        assert self.world.synced(stale).error_code != NONE
        assert everything(self.world.groups) == before
        code = self.world.commit(5, member_id, generation - 1, group_instance_id=instance)
        if code == NONE:
            assert generation == 0
            self.committed["t"] = 5
        else:
            assert everything(self.world.groups) == before

    def restart(self, _: Client) -> None:
        waiting = set(self.sent) - set(self.world.replies)
        self.lost_tickets |= waiting
        for client in self.clients:
            client.ticket = None
        if self.chance.random() < 0.5:
            self.world.restart()
        else:
            self.world.restart_from_snapshot()
        self.oracle = Oracle()
        self.restarts += 1
        # A generation that was announced but not recorded never was; its number comes again.
        recorded = [r.generation for r in self.world.records if isinstance(r, GenerationRecorded)]
        newest = max(recorded, default=0)
        self.past = [past for past in self.past if past[1] <= max(newest, 1)]

    # What is checked

    def check_replies(self, seen: set[Ticket]) -> None:
        for ticket, reply in list(self.world.replies.items()):
            if ticket in seen or ticket not in self.sent:
                continue
            seen.add(ticket)
            client, member_id, generation = self.sent[ticket]
            static = client.instance is not None
            if isinstance(reply, JoinReply):
                self.oracle.saw_join(reply, static)
            elif isinstance(reply, SyncReply):
                self.oracle.saw_sync(member_id, generation, reply, static)

    def check_lasting(self) -> None:
        living, replayed = self.world.groups.snapshot(), self.world.replayed().snapshot()
        assert living.order == replayed.order
        assert living.generations == replayed.generations
        assert sorted(map(repr, living.offsets)) == sorted(map(repr, replayed.offsets))
        for topic, offset in self.committed.items():
            assert self.world.fetch(topic) == (offset, NONE)

    def go(self, action_count: int) -> None:
        seen: set[Ticket] = set()
        actions = [
            (self.join_if_out, 6),
            (self.read_reply, 12),
            (self.heartbeat, 8),
            (self.commit, 3),
            (self.leave, 1),
            (self.lose_connection, 1),
            (self.die, 1),
            (self.ask_again, 1),
            (self.speak_from_the_past, 1),
            (self.restart, 0.2),
        ]
        for _ in range(action_count):
            (action,) = self.chance.choices(
                [action for action, _ in actions], [weight for _, weight in actions]
            )
            action(self.chance.choice(self.clients))
            if self.chance.random() < 0.3:
                self.world.pass_time(self.chance.choice((1, 500, 2_000, 7_000)))
            self.check_replies(seen)
        self.check_lasting()
        # Left alone, every session ends, and no one who still listens was left without a reply.
        self.world.pass_time(2_000_000)
        self.check_replies(seen)
        assert set(self.sent) - set(self.world.replies) == self.lost_tickets - set(
            self.world.replies
        )
        assert self.world.state() in ("Empty", "Dead")
        assert not self.world.groups._volatile.waiting
        self.check_generations_rise()

    def join_if_out(self, client: Client) -> None:
        if client.ticket is None and client.joined is None:
            self.join(client)

    def check_generations_rise(self) -> None:
        recorded = [r for r in self.world.records if isinstance(r, GenerationRecorded)]
        for earlier, later in itertools.pairwise(recorded):
            if later.generation == earlier.generation:
                # Only a static member that returned: the same places under other ids.
                instances = [{m.group_instance_id for m in r.members} for r in (earlier, later)]
                assert instances[0] == instances[1]
            else:
                assert later.generation > earlier.generation or self.restarts


@pytest.mark.parametrize("seed", range(80))
def test_any_schedule_keeps_the_promises_of_the_protocol(seed: int) -> None:
    run = Run(seed)
    run.go(action_count=300)
    assert run.successes


def test_two_runs_of_a_seed_agree() -> None:
    runs = [Run(7), Run(7)]
    for run in runs:
        run.go(200)
    assert everything(runs[0].world.groups) == everything(runs[1].world.groups)
    assert runs[0].world.replies == runs[1].world.replies
    assert runs[0].world.log == runs[1].world.log


commits = st.tuples(st.just("commit"), st.sampled_from("tu"), st.sampled_from([-1, 1, 2]))
ends = st.tuples(st.just("end"), st.booleans(), st.sampled_from([1, 2]))
deletes = st.tuples(st.just("delete"), st.sampled_from("tu"), st.just(-1))


@settings(max_examples=300)
@given(st.lists(st.one_of(commits, ends, deletes), max_size=25), st.integers(0, 25))
def test_offsets_are_those_of_the_log_read_with_its_markers(
    events: list[tuple[str, Any, int]], restart_at: int
) -> None:
    world = GroupWorld()
    for number, (kind, argument, producer) in enumerate(events):
        if number == restart_at:
            world.restart_from_snapshot()
        if kind == "commit":
            world.commit(number, topic=argument, producer_id=ProducerId(producer))
        elif kind == "end":
            world.end_transaction(ProducerId(producer), argument)
        else:
            world.delete_offsets(argument)
    for topic in "tu":
        final, pending = offset_by_reading(events, topic)
        assert world.fetch(topic)[0] == final
        assert (world.fetch(topic, require_stable=True)[1] != NONE) == pending


def offset_by_reading(events: list[tuple[str, Any, int]], topic: str) -> tuple[int, bool]:
    """The newest event of the topic that is not undone, and whether any is still open."""
    fate: dict[int, bool | None] = {}
    for number, (kind, argument, producer) in enumerate(events):
        if kind == "commit":
            fate[number] = True if producer == -1 else None
        elif kind == "end":
            for earlier, outcome in fate.items():
                if outcome is None and events[earlier][2] == producer:
                    fate[earlier] = argument
        elif argument == topic:
            fate = {n: outcome for n, outcome in fate.items() if events[n][1] != topic}
    of_topic = {n: outcome for n, outcome in fate.items() if events[n][1] == topic}
    final = max((n for n, outcome in of_topic.items() if outcome), default=-1)
    return final, None in of_topic.values()


def test_the_group_of_the_schedules_is_the_one_that_is_looked_at() -> None:
    run = Run(3)
    run.go(50)
    assert {listing.group_id for listing in run.world.groups.listed()} <= {GROUP}
