"""Each API asks for the rights that the table says before it looks at anything, and refuses without
a trace."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handled_producer import HandledProducer
from semel.access.principal import Caller, Principal
from semel.access.rules import PatternType, Permission, Rule
from semel.broker import log
from semel.broker.answer import Answer, Call
from semel.broker.broker import Broker
from semel.broker.config import BrokerConfig
from semel.broker.dispatch import route
from semel.broker.handlers import (
    describe_producers,
    describe_topic_partitions,
    fetch,
    list_config_resources,
    list_groups,
)
from semel.broker.joins import Joins
from semel.broker.setting import AUTHORIZER, NO_AUTHORIZER
from semel.broker.transactional_produce import ProducingInTransaction
from semel.errors import ConfigError, CoordinatorLoadInProgress
from semel.lane.calls import AskToJoin, MayJoin
from semel.lane.leader import LedBy
from semel.lane.participating import Joining, MustJoin
from semel.lane.rules import AddRules, RemoveRules
from semel.lane.topics import CreateTopic
from semel.transactions.key import TransactionKey
from semel.types import Position, ProducerEpoch, ProducerId, Term, TopicPartition
from semel.wire.apis import APIS
from semel.wire.rights import (
    CLUSTER_NAME,
    CREATE_IN_CLUSTER,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_ID,
    DESCRIBE_TOPIC,
    NEEDED,
    READ_GROUP,
    READ_TOPIC,
    WRITE_ID,
    WRITE_TOPIC,
    ResourceType,
    Right,
)
from support.access_table import (
    ANN,
    CASES,
    GROUP,
    ID,
    ID_REFUSED,
    LEFT_OUT,
    NEW_TOPIC,
    REFUSALS,
    TOPIC,
    TOPIC_REFUSED,
    UNKNOWN_ID,
    Case,
    batch,
    codes,
    request,
    rule,
    rules,
)
from support.compiled import plain_python
from support.handled import CONFIG, Machine, Peer, call, on_a
from support.inside import journal_of
from support.raw_client import BY_MODULE
from support.seeded_loop import elapse

ROOT = Principal("User", "root")
ON = replace(CONFIG, authorizer_class_name=AUTHORIZER, super_users=str(ROOT))
ABSENT, ILLEGAL = "absent", "!legal"
assert len(TOPIC) == len(ABSENT) == len(ILLEGAL) == len(GROUP) == len(ID)


class Guarded(Machine):
    def __init__(self) -> None:
        super().__init__(ON)


def as_(broker: Broker, principal: Principal = ANN) -> Peer:
    peer = Peer()
    peer.caller = Caller(principal, host="127.0.0.1")
    peer.rights = broker.access.rights_of(peer.caller)
    return peer


def say(broker: Broker, said: Iterable[Rule]) -> None:
    broker.lanes.controller.submit(AddRules(tuple(said)))


def take_back(broker: Broker, said: Iterable[Rule]) -> None:
    broker.lanes.controller.submit(RemoveRules(tuple(said)))


def end_of(broker: Broker) -> Position:
    return journal_of(broker).end


async def fill(broker: Broker) -> None:
    """So that there is what requests name."""
    broker.topics.create(CreateTopic(TOPIC, 1, {}))
    producer = HandledProducer(broker, ID)
    assert await producer.init() == 0
    assert (await producer.produce(TOPIC, b"x")).error_code == 0
    assert await producer.end(commit=True) == 0
    commit = next(case for case in CASES if case.module == "offset_commit")
    response = await call(broker, commit.module, commit.version, commit.request)
    assert set(codes(response)) == {0}


async def answered(broker: Broker, case: Case, peer: Peer) -> Any:
    return await call(broker, case.module, case.version, case.request, peer)


def test_the_table_has_every_api_that_needs_a_right() -> None:
    needing = {
        api.module for api in APIS if api.served and NEEDED.get(api.key) and not api._is_opaque
    }
    assert needing == {case.module for case in CASES} | LEFT_OUT


@pytest.mark.parametrize("case", CASES, ids=str)
@on_a(Guarded)
async def test_who_has_no_right_is_refused_and_changes_nothing(
    machine: Machine, case: Case
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        before = end_of(broker)
        response = await answered(broker, case, as_(broker))
        refusals = {code for code in codes(response) if code}
        assert refusals == {case.refusal}
        assert end_of(broker) == before


@pytest.mark.parametrize("case", CASES, ids=str)
@on_a(Guarded)
async def test_exactly_the_rights_that_it_needs_are_enough(machine: Machine, case: Case) -> None:
    async with machine.broker() as broker:
        creates = any(CREATE_TOPIC in rights for rights in case.enough)
        if not creates:
            await fill(broker)
        for rights in case.enough:
            for lacking in rights:
                said = rules(each for each in rights if each is not lacking)
                say(broker, said)
                before = end_of(broker)
                response = await answered(broker, case, as_(broker))
                assert REFUSALS & {*codes(response)}, lacking
                if not (creates and rights[0] is not lacking):
                    assert end_of(broker) == before
                take_back(broker, said)
                if creates and TOPIC in broker.lanes.catalogue:
                    broker.topics.delete(broker.lanes.catalogue.named(TOPIC))
            said = rules(rights)
            say(broker, said)
            response = await answered(broker, case, as_(broker))
            assert not REFUSALS & {*codes(response)}
            take_back(broker, said)
            if creates:
                broker.topics.delete(broker.lanes.catalogue.named(TOPIC))


@on_a(Guarded)
async def test_super_users_are_refused_nothing(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        everything = ResourceType.TOPIC, "*", PatternType.LITERAL, Principal("User", "*"), "*"
        say(broker, [Rule(*everything, operation=2, permission=Permission.DENY)])  # type: ignore[arg-type]
        for case in CASES:
            response = await answered(broker, case, as_(broker, ROOT))
            assert not REFUSALS & {*codes(response)}, case


# Rule 2: a refusal does not tell what is there.


def said_of(case: Case, name: str) -> Case:
    """The same request about something of another name, of as many letters."""

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [renamed(each) for each in value]
        return name if value in (TOPIC, GROUP, ID) else value

    return case._replace(fields=renamed(case.fields))


def encoded(case: Case, response: Any) -> bytes:
    api = BY_MODULE[case.module]
    return b"".join(map(bytes, api.encode_response(response, case.version)))


@pytest.mark.parametrize("case", CASES, ids=str)
@on_a(Guarded)
async def test_a_refusal_is_the_same_for_what_is_there_what_is_not_and_what_cannot_be(
    machine: Machine, case: Case
) -> None:
    async with machine.broker() as broker:
        empty = encoded(case, await answered(broker, case, as_(broker)))
        await fill(broker)
        there = encoded(case, await answered(broker, case, as_(broker)))
        assert there == empty
        for name in (ABSENT, ILLEGAL):
            other = said_of(case, name)
            response = encoded(other, await answered(broker, other, as_(broker)))
            for known in (TOPIC, GROUP, ID):
                there = there.replace(known.encode(), name.encode())
            assert response == there
            there = encoded(case, await answered(broker, case, as_(broker)))


def by_id(topic_id: bytes) -> list[Case]:
    produced = {"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch()}]}
    fetched = {"topic_id": topic_id, "partitions": [{"partition": 0}]}
    offsets = {"topic_id": topic_id, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
    read = {"topic_id": topic_id, "partition_indexes": [0]}
    in_transaction = {"transactional_id": ID, "group_id": GROUP, "topics": [offsets]}
    return [
        Case("produce", 13, {"acks": -1, "topic_data": [produced]}, UNKNOWN_ID, ()),
        Case("fetch", 13, {"topics": [fetched]}, UNKNOWN_ID, ()),
        Case("metadata", 12, {"topics": [{"topic_id": topic_id}]}, UNKNOWN_ID, ()),
        Case("delete_topics", 6, {"topics": [{"topic_id": topic_id}]}, UNKNOWN_ID, ()),
        Case("offset_commit", 10, {"group_id": GROUP, "topics": [offsets]}, UNKNOWN_ID, ()),
        Case(
            "offset_fetch",
            10,
            {"groups": [{"group_id": GROUP, "topics": [read]}]},
            UNKNOWN_ID,
            (),
        ),
        Case("txn_offset_commit", 6, in_transaction, UNKNOWN_ID, ()),
    ]


@on_a(Guarded)
async def test_who_may_not_know_of_a_topic_hears_that_nobody_has_its_id(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        say(broker, rules([READ_GROUP, WRITE_ID]))
        topic_id = broker.lanes.catalogue.named(TOPIC).topic_id
        other_id = bytes(range(16))
        for case, other in zip(by_id(topic_id), by_id(other_id), strict=True):
            before = end_of(broker)
            response = await answered(broker, case, as_(broker))
            assert {code for code in codes(response) if code} == {UNKNOWN_ID}
            absent = encoded(other, await answered(broker, other, as_(broker)))
            assert encoded(case, response).replace(topic_id, other_id) == absent
            assert end_of(broker) == before


@on_a(Guarded)
async def test_who_may_know_of_a_topic_hears_that_it_may_not(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        say(broker, rules([READ_GROUP, WRITE_ID, DESCRIBE_TOPIC]))
        topic_id = broker.lanes.catalogue.named(TOPIC).topic_id
        for case in by_id(topic_id):
            response = await answered(broker, case, as_(broker))
            describes = case.module in ("metadata", "offset_fetch")
            expected = set() if describes else {TOPIC_REFUSED}
            assert {code for code in codes(response) if code} == expected, case


@on_a(Guarded)
async def test_the_leader_is_asked_for_nothing_that_the_client_may_not_see(
    machine: Machine,
) -> None:
    asked: list[str] = []

    def leader_to_ask(broker: Broker, call: Any) -> LedBy:
        return LedBy(Term(1), 2, "there", 9)

    async def forwarded(broker: Broker, leader: LedBy, call: Any, body: Any) -> Any:
        asked.extend(topic.name for topic in body.topics)
        raise CoordinatorLoadInProgress

    async with machine.broker() as broker:
        await fill(broker)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(describe_topic_partitions, "leader_to_ask", leader_to_ask)
            patch.setattr(describe_topic_partitions, "forwarded", forwarded)
            for name in (TOPIC, NEW_TOPIC):
                topics = [{"name": name}]
                body = request("describe_topic_partitions", topics=topics)
                told = await call(broker, "describe_topic_partitions", 0, body, as_(broker))
                assert [*codes(told)] == [TOPIC_REFUSED]
            assert asked == []
            say(broker, rules([DESCRIBE_TOPIC], NEW_TOPIC))
            await call(broker, "describe_topic_partitions", 0, body, as_(broker))
            assert asked == [NEW_TOPIC]


class JoiningLane:
    """Another lane than that of the coordinator, which lets join only after it was asked."""

    number = 1
    view = SimpleNamespace(joined=lambda producer_id: None, term=1, has_joined=False)

    def __init__(self) -> None:
        self.written: list[Joining] = []

    def check_leads(self) -> None:
        """It does."""

    def submit(self, command: Any) -> Any:
        if command.joining.key is None:
            raise MustJoin(frozenset({TopicPartition(TOPIC, 0)}))
        self.written.append(command.joining)
        return SimpleNamespace(byte_count=0, duplicates=(), results=[0], appended_at_ms=0)


@plain_python
@pytest.mark.parametrize("taken", [None, WRITE_TOPIC, WRITE_ID], ids=str)
@on_a(Guarded)
async def test_a_write_that_waits_for_its_coordinator_asks_again_when_it_is_written(
    machine: Machine, taken: Right | None
) -> None:
    async with machine.broker() as broker:
        broker.topics.create(CreateTopic(TOPIC, 1, {}))
        say(broker, rules([WRITE_TOPIC, WRITE_ID]))
        lane: Any = JoiningLane()

        async def ask(number: int, said: AskToJoin) -> MayJoin:
            if taken is not None:
                take_back(broker, rules([taken]))
            return MayJoin(TransactionKey(0, Term(1), ProducerId(7), ProducerEpoch(0), 1))

        body = request("produce", transactional_id=ID, acks=-1, topic_data=[])
        asked = Call(route(0).api, 9, 1, None, as_(broker))
        producing = ProducingInTransaction(broker, body, asked)
        header = SimpleNamespace(producer_id=7, producer_epoch=0, record_count=1)
        partition = SimpleNamespace(topic_partition=TopicPartition(TOPIC, 0))
        incoming: Any = SimpleNamespace(partition=partition, header=header, batch=b"")
        producing._undecided.append((lane, [incoming]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker.peers, "ask", ask)
            joins = Joins(broker, lane)
            patch.setattr(broker.across, "joins", lambda lane: joins)
            await producing.decide_rest()
        if taken is None:
            assert (producing.refusal, len(lane.written)) == (None, 1)
        else:
            assert producing.refusal is not None
            code = TOPIC_REFUSED if taken is WRITE_TOPIC else ID_REFUSED
            assert (producing.refusal.code, lane.written) == (code, [])


# What is left out.


@on_a(Guarded)
async def test_what_may_not_be_seen_is_left_out_of_lists(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        ann = as_(broker)

        async def ask(module: str, version: int, **fields: Any) -> Any:
            return await call(broker, module, version, request(module, **fields), ann)

        async def topics() -> set[str]:
            named = (await ask("metadata", 9, topics=None)).topics
            listed = (await ask("describe_topic_partitions", 0)).topics
            assert {each.name for each in named} == {each.name for each in listed}
            return {each.name for each in named}

        async def groups() -> list[str]:
            return [each.group_id for each in (await ask("list_groups", 4)).groups]

        async def ids() -> list[str]:
            found = (await ask("list_transactions", 0)).transaction_states
            return [each.transactional_id for each in found]

        assert (await topics(), await groups(), await ids()) == (set(), [], [])
        say(broker, rules([DESCRIBE_TOPIC, DESCRIBE_GROUP, DESCRIBE_ID]))
        assert (await topics(), await groups(), await ids()) == ({TOPIC}, [GROUP], [ID])
        say(broker, [rule(DESCRIBE_CLUSTER)])
        take_back(broker, [rule(DESCRIBE_GROUP)])
        assert await groups() == [GROUP]

        offsets = await ask("offset_fetch", 8, groups=[{"group_id": GROUP, "topics": None}])
        assert offsets.groups[0].error_code == 30
        say(broker, [rule(DESCRIBE_GROUP)])
        take_back(broker, [rule(DESCRIBE_TOPIC)])
        offsets = await ask("offset_fetch", 8, groups=[{"group_id": GROUP, "topics": None}])
        assert (offsets.groups[0].error_code, offsets.groups[0].topics) == (0, [])


@on_a(Guarded)
async def test_topics_of_a_transaction_are_shown_to_who_may_see_them(machine: Machine) -> None:
    async with machine.broker() as broker:
        broker.topics.create(CreateTopic(TOPIC, 1, {}))
        producer = HandledProducer(broker, ID)
        await producer.init()
        await producer.produce(TOPIC, b"x")
        say(broker, [rule(DESCRIBE_ID)])

        async def topics() -> list[str]:
            asked = request("describe_transactions", transactional_ids=[ID])
            response = await call(broker, "describe_transactions", 0, asked, as_(broker))
            (state,) = response.transaction_states
            assert state.error_code == 0
            return [each.topic for each in state.topics]

        assert await topics() == []
        say(broker, [rule(DESCRIBE_TOPIC)])
        assert await topics() == [TOPIC]


@on_a(Guarded)
async def test_operations_are_those_that_are_allowed(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)

        def bits(*rights: Right) -> int:
            return sum(1 << right.operation for right in rights)

        async def asked() -> tuple[int, int, int, int]:
            ann = as_(broker)
            wanted = request(
                "metadata",
                topics=[{"name": TOPIC}],
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=True,
            )
            named = await call(broker, "metadata", 9, wanted, ann)
            wanted = request("describe_groups", groups=[GROUP], include_authorized_operations=True)
            group = (await call(broker, "describe_groups", 5, wanted, ann)).groups[0]
            wanted = request("describe_cluster", include_cluster_authorized_operations=True)
            cluster = await call(broker, "describe_cluster", 0, wanted, ann)
            assert cluster.cluster_authorized_operations == named.cluster_authorized_operations
            return (
                named.topics[0].topic_authorized_operations,
                group.authorized_operations,
                cluster.cluster_authorized_operations,
                cluster.error_code,
            )

        say(broker, rules([READ_TOPIC, READ_GROUP]))
        assert await asked() == (
            bits(READ_TOPIC, DESCRIBE_TOPIC),
            bits(READ_GROUP, DESCRIBE_GROUP),
            0,
            0,
        )
        say(broker, [rule(DESCRIBE_CLUSTER)])
        assert (await asked())[2] == bits(DESCRIBE_CLUSTER)
        # Also of a group that is not there, as Kafka says it.
        take_back(broker, rules([READ_GROUP]))
        say(broker, [rule(READ_GROUP)._replace(name="*")])
        wanted = request("describe_groups", groups=["none"], include_authorized_operations=True)
        (dead,) = (await call(broker, "describe_groups", 5, wanted, as_(broker))).groups
        assert (dead.error_code, dead.group_state) == (0, "Dead")
        assert dead.authorized_operations == bits(READ_GROUP, DESCRIBE_GROUP)


# Some of it allowed.


@on_a(Guarded)
async def test_of_several_topics_each_is_decided_by_itself(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        broker.topics.create(CreateTopic(NEW_TOPIC, 1, {}))
        say(broker, [rule(WRITE_TOPIC, NEW_TOPIC)])
        data = [
            {"name": name, "partition_data": [{"index": 0, "records": batch()}]}
            for name in (TOPIC, NEW_TOPIC)
        ]
        asked = request("produce", acks=-1, topic_data=data)
        response = await call(broker, "produce", 9, asked, as_(broker))
        found = {
            topic.name: (topic.partition_responses[0].error_code, topic.partition_responses[0])
            for topic in response.responses
        }
        assert {name: code for name, (code, _) in found.items()} == {TOPIC: 29, NEW_TOPIC: 0}
        assert found[NEW_TOPIC][1].base_offset == 0
        assert found[TOPIC][1].error_message == "User:ann may not: Write topic 'orders'"


@on_a(Guarded)
async def test_partitions_that_could_be_added_hear_that_nothing_was_tried(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        broker.topics.create(CreateTopic(NEW_TOPIC, 1, {}))
        say(broker, [rule(WRITE_ID), rule(WRITE_TOPIC, NEW_TOPIC)])
        asked = request(
            "add_partitions_to_txn",
            v3_and_below_transactional_id=ID,
            v3_and_below_topics=[{"name": each, "partitions": [0]} for each in (TOPIC, NEW_TOPIC)],
        )
        response = await call(broker, "add_partitions_to_txn", 3, asked, as_(broker))
        assert [*codes(response)] == [29, 55]


@on_a(Guarded)
async def test_settings_of_a_new_topic_are_shown_to_who_may_see_them(machine: Machine) -> None:
    async with machine.broker() as broker:
        say(broker, [rule(CREATE_TOPIC)])
        topics = [{"name": TOPIC, "num_partitions": 2, "replication_factor": 1}]
        asked = request("create_topics", topics=topics)
        response = await call(broker, "create_topics", 7, asked, as_(broker))
        (result,) = response.topics
        assert (result.error_code, result.topic_config_error_code) == (0, 29)
        assert (result.num_partitions, result.configs) == (-1, [])
        assert broker.lanes.catalogue.named(TOPIC).partition_count == 2


@on_a(Guarded)
async def test_who_may_see_a_topic_hears_whether_it_is_there_to_be_deleted(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        say(broker, [rule(DESCRIBE_TOPIC, "*"), rule(DELETE_TOPIC, ABSENT)])
        asked = request("delete_topics", topics=[{"name": TOPIC}, {"name": ABSENT}])
        response = await call(broker, "delete_topics", 6, asked, as_(broker))
        assert [each.error_code for each in response.responses] == [29, 3]
        assert TOPIC in broker.lanes.catalogue


# Without access control.


@on_a(Machine)
async def test_where_access_control_is_off_the_access_list_cannot_be_asked_for(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        found = []
        for case in CASES:
            if case.module.endswith("acls"):
                response = await answered(broker, case, Peer())
                found += [code for code in codes(response) if code]
        assert found == [54, 54, 54]


@on_a(Guarded)
async def test_rules_are_added_shown_and_removed(machine: Machine) -> None:
    async with machine.broker() as broker:
        root = as_(broker, ROOT)

        async def ask(module: str, **fields: Any) -> Any:
            return await call(broker, module, 3, request(module, **fields), root)

        good = {
            "resource_type": 2,
            "resource_name": "t",
            "resource_pattern_type": 4,
            "principal": "User:bob",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        }
        bad = [
            good | {"resource_type": 4},
            good | {"resource_type": 9},
            good | {"principal": "bob"},
            good | {"operation": 1},
            good | {"resource_name": ""},
            good | {"permission_type": 1},
            good | {"resource_pattern_type": 2},
        ]
        cluster = good | {
            "resource_type": 4,
            "resource_name": CLUSTER_NAME,
            "resource_pattern_type": 3,
        }
        created = await ask("create_acls", creations=[good, *bad, cluster, good])
        assert [each.error_code for each in created.results] == [0, *[42] * len(bad), 0, 0]
        anything = {"resource_type_filter": 1, "pattern_type_filter": 1}
        anything |= {"operation": 1, "permission_type": 1}
        shown = await ask("describe_acls", **anything)
        assert [
            (each.resource_type, each.resource_name, each.pattern_type, len(each.acls))
            for each in shown.resources
        ] == [(2, "t", 4, 1), (4, CLUSTER_NAME, 3, 1)]
        match = anything | {"resource_type_filter": 2, "resource_name_filter": "tea"}
        deleted = await ask(
            "delete_acls", filters=[match | {"pattern_type_filter": 2}, anything | {"operation": 0}]
        )
        first, second = deleted.filter_results
        assert [each.resource_name for each in first.matching_acls] == ["t"]
        assert (first.error_code, second.error_code) == (0, 42)
        assert (await ask("describe_acls", **anything | {"operation": 99})).error_code == 42
        shown = await ask("describe_acls", **anything)
        assert [each.resource_type for each in shown.resources] == [4]


# Rules 4, 5 and 15: rights that come and go.


@on_a(Guarded)
async def test_a_change_is_answered_when_it_is_durable(machine: Machine) -> None:
    async with machine.broker() as broker:
        case = next(case for case in CASES if case.module == "create_acls")
        known = route(BY_MODULE[case.module].key)
        asked = Call(known.api, case.version, 1, None, as_(broker, ROOT))
        answer = known.handler(broker, case.request, asked)
        assert isinstance(answer, Answer)
        assert answer.durable
        marks = broker.lanes.marks() if answer.marks is None else answer.marks
        assert [mark.position for mark in marks] == [end_of(broker)]


@pytest.mark.parametrize("module", ["list_offsets", "produce"])
@on_a(Guarded)
async def test_what_was_decided_on_a_connection_is_decided_anew_by_other_rules(
    machine: Machine, module: str
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        ann = as_(broker)
        case = next(case for case in CASES if case.module == module)
        right = WRITE_TOPIC if module == "produce" else DESCRIBE_TOPIC
        found = []
        for change in (say, take_back, say):
            change(broker, [rule(right)])
            found.append({*codes(await answered(broker, case, ann))})
        assert found == [{0}, {29}, {0}]


def fetching(broker: Broker, peer: Peer, max_wait_ms: int) -> "asyncio.Task[Any]":
    topic = {"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 2}]}
    topic["partitions"][0]["partition_max_bytes"] = 1_000  # type: ignore[index]
    asked = request("fetch", max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])
    return asyncio.create_task(call(broker, "fetch", 12, asked, peer))


async def stored(broker: Broker) -> None:
    case = next(case for case in CASES if case.module == "produce")
    assert {*codes(await answered(broker, case, as_(broker, ROOT)))} == {0}


def data_of(response: Any) -> tuple[int, bytes]:
    (partition,) = response.responses[0].partitions
    return partition.error_code, b"".join(map(bytes, partition.records or []))


@on_a(Guarded)
async def test_a_fetch_that_waits_is_looked_at_again_when_it_answers(machine: Machine) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        say(broker, [rule(READ_TOPIC)])
        waiting = fetching(broker, as_(broker), 10_000)
        await elapse(1.0)
        await stored(broker)
        error_code, records = data_of(await waiting)
        assert (error_code, bool(records)) == (0, True)
        topic = {"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 3}]}
        topic["partitions"][0]["partition_max_bytes"] = 1_000  # type: ignore[index]
        asked = request("fetch", max_wait_ms=10_000, min_bytes=1, topics=[topic])
        waiting = asyncio.create_task(call(broker, "fetch", 12, asked, as_(broker)))
        await elapse(1.0)
        take_back(broker, [rule(READ_TOPIC)])
        await stored(broker)
        assert data_of(await waiting) == (29, b"")


@plain_python
@on_a(Guarded)
async def test_a_right_that_goes_while_the_disk_is_read_is_gone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        say(broker, [rule(READ_TOPIC)])
        await stored(broker)

        async def found_late(self: Any) -> None:
            for lane, share in self._shares.items():
                self._keep(share, await lane.log.find(share.wanted, self._room))
            take_back(broker, [rule(READ_TOPIC)])

        monkeypatch.setattr(fetch._Look, "find_now", lambda _: False)
        monkeypatch.setattr(fetch._Look, "find", found_late)
        assert data_of(await fetching(broker, as_(broker), 0)) == (29, b"")


def joining(broker: Broker, peer: Peer) -> "asyncio.Task[Any]":
    asked = request(
        "join_group",
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"mine"}],
    )
    return asyncio.create_task(call(broker, "join_group", 3, asked, peer))


def syncing(broker: Broker, peer: Peer, joined: Any, told: bytes = b"") -> "asyncio.Task[Any]":
    member_ids = [each.member_id for each in joined.members]
    asked = request(
        "sync_group",
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[{"member_id": each, "assignment": told} for each in member_ids],
    )
    return asyncio.create_task(call(broker, "sync_group", 3, asked, peer))


GROUPS_THAT_WAIT = replace(ON, group_initial_rebalance_delay_ms=3_000)


@on_a(Machine, GROUPS_THAT_WAIT)
async def test_a_member_that_waits_is_asked_for_its_right_again_when_it_is_answered(
    machine: Machine,
) -> None:
    async with machine.broker() as broker:
        say(broker, [rule(READ_GROUP)])
        lonely = joining(broker, as_(broker))
        await elapse(1.0)
        take_back(broker, [rule(READ_GROUP)])
        refused = await lonely
        assert (refused.error_code, refused.members, refused.member_id) == (30, [], "")


@on_a(Machine, GROUPS_THAT_WAIT)
async def test_a_member_that_may_not_any_more_hears_of_no_assignment(machine: Machine) -> None:
    async with machine.broker() as broker:
        say(broker, [rule(READ_GROUP)])
        leader, ann = as_(broker, ROOT), as_(broker)
        ann.number = 2
        first = joining(broker, leader)
        await elapse(1.0)
        second = joining(broker, ann)
        led, followed = await first, await second
        assert (led.error_code, followed.error_code, len(led.members)) == (0, 0, 2)
        waiting = syncing(broker, ann, followed)
        await elapse(1.0)
        take_back(broker, [rule(READ_GROUP)])
        assert (await syncing(broker, leader, led, b"all of it")).assignment == b"all of it"
        refused = await waiting
        assert (refused.error_code, refused.assignment) == (30, b"")


@on_a(Guarded)
async def test_a_search_that_waits_for_the_disk_is_asked_for_its_right_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        lane = broker.lanes.controller
        for module, version, right, refusal, searched in (
            ("list_offsets", 7, DESCRIBE_TOPIC, 29, "youngest"),
            ("describe_log_dirs", 3, DESCRIBE_CLUSTER, 31, "bytes_of"),
        ):
            say(broker, [rule(right)])
            found = getattr(lane.log, searched)

            async def found_late(
                *asked: Any, found: Any = found, right: Right = right, **named: Any
            ) -> Any:
                take_back(broker, [rule(right)])
                return await found(*asked, **named)

            monkeypatch.setattr(type(lane.log), searched, staticmethod(found_late))
            youngest = {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -3}]}
            fields = {"topics": [youngest]} if module == "list_offsets" else {}
            response = await call(broker, module, version, request(module, **fields), as_(broker))
            assert {*codes(response)} == {refusal}


@on_a(Guarded)
async def test_metadata_that_waits_until_others_have_heard_is_asked_for_its_right_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        rights = rules([DESCRIBE_TOPIC, CREATE_IN_CLUSTER])
        say(broker, [*rights, rule(DESCRIBE_TOPIC, "made")])

        class Others:
            """They hear of a new topic, and meanwhile the right goes."""

            last_change = 0
            have_all_begun = True

            def topic(self, name: str) -> int:
                self.last_change += 1
                return self.last_change

            async def until_heard(self, change: int | None = None) -> None:
                monkeypatch.setattr(broker.topics, "telling", None)
                take_back(broker, [rule(DESCRIBE_TOPIC)])

        monkeypatch.setattr(broker.topics, "telling", Others())
        asked = request("metadata", topics=[{"name": TOPIC}, {"name": "made"}])
        asked.allow_auto_topic_creation = True
        response = await call(broker, "metadata", 12, asked, as_(broker))
        assert {each.name: each.error_code for each in response.topics} == {TOPIC: 29, "made": 0}


@on_a(Guarded)
async def test_who_lists_in_steps_is_told_nothing_behind_the_loss_of_the_right(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.broker() as broker:
        await fill(broker)
        monkeypatch.setattr(list_groups, "GROUPS_AT_ONCE", 1)
        monkeypatch.setattr(list_config_resources, "TOPICS_AT_ONCE", 1)
        monkeypatch.setattr(describe_producers, "PRODUCERS_AT_ONCE", 1)
        partition = {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        for module, version, right, fields, told in (
            ("list_groups", 4, DESCRIBE_CLUSTER, {}, GROUP),
            ("list_config_resources", 1, DESCRIBE_CLUSTER_CONFIGS, {}, TOPIC),
            ("describe_producers", 0, READ_TOPIC, partition, "producer_epoch"),
        ):
            say(broker, [rule(right)])
            shown = await call(broker, module, version, request(module, **fields), as_(broker))
            assert told in repr(shown)
            known = route(BY_MODULE[module].key)
            asked = Call(known.api, version, 1, None, as_(broker))
            listing = known.handler(broker, request(module, **fields), asked)
            assert isinstance(listing, Coroutine)
            # It lets others have their turn.
            listing.send(None)
            take_back(broker, [rule(right)])
            assert told not in repr(ended(listing).response)


def ended(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of it, of which a part is done already."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value


@on_a(Guarded)
async def test_each_request_of_a_transaction_needs_its_right(machine: Machine) -> None:
    async with machine.broker() as broker:
        broker.topics.create(CreateTopic(TOPIC, 1, {}))
        rights = rules([WRITE_ID, WRITE_TOPIC])
        say(broker, rights)
        ann = as_(broker)
        taken = await call(
            broker,
            "init_producer_id",
            4,
            request("init_producer_id", transactional_id=ID, transaction_timeout_ms=60_000),
            ann,
        )
        producer = {"producer_id": taken.producer_id, "producer_epoch": taken.producer_epoch}

        async def produced(sequence: int) -> set[int]:
            records = batch(**producer, base_sequence=sequence, is_transactional=True)
            data = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
            asked = request("produce", acks=-1, transactional_id=ID, topic_data=[data])
            return {*codes(await call(broker, "produce", 12, asked, ann))}

        async def ended() -> int:
            asked = request("end_txn", transactional_id=ID, committed=True, **producer)
            response = await call(broker, "end_txn", 5, asked, ann)
            return int(response.error_code)

        assert await produced(0) == {0}
        take_back(broker, [rule(WRITE_ID)])
        before = end_of(broker)
        assert await produced(1) == {53}
        assert await ended() == 53
        say(broker, [rule(WRITE_ID)])
        take_back(broker, [rule(WRITE_TOPIC)])
        refused = end_of(broker)
        assert await produced(1) == {29}
        assert end_of(broker) == refused
        assert before < refused
        assert await ended() == 0


# What is told.


@on_a(Guarded)
async def test_changes_and_refusals_are_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    async with machine.broker() as broker:
        monkeypatch.setattr(broker.audit, "_sink", lambda event, **what: told.append((event, what)))
        case = next(case for case in CASES if case.module == "create_acls")
        await answered(broker, case, as_(broker, ROOT))
        await answered(broker, case, as_(broker, ROOT))
        denied = rule(DESCRIBE_TOPIC)._replace(permission=Permission.DENY)
        say(broker, [denied])
        case = next(case for case in CASES if case.module == "list_offsets")
        for _ in range(3):
            await answered(broker, case, as_(broker))
    added, refused = told
    assert added[0] == "rule added"
    assert added[1]["rule"] == "ALLOW User:bob from * READ on TOPIC 't'"
    assert added[1]["principal"] == "User:root"
    assert refused[0] == "access refused"
    assert (refused[1]["right"], refused[1]["name"]) == ("Describe topic", TOPIC)
    assert refused[1]["rule"] == str(denied)


def test_settings_of_access_control_go_together() -> None:
    with pytest.raises(ConfigError, match=r"must be org\.apache\.kafka"):
        BrokerConfig.from_values({"authorizer.class.name": "my.Authorizer"})
    with pytest.raises(ConfigError, match="say nothing without access"):
        BrokerConfig.from_values({"super.users": "User:ann"})
    with pytest.raises(ConfigError, match="'ann' is no principal"):
        BrokerConfig.from_values({"authorizer.class.name": AUTHORIZER, "super.users": "ann"})
    with pytest.raises(ConfigError, match="9000 at most"):
        BrokerConfig.from_values(
            {"authorizer.class.name": AUTHORIZER, "cluster.detection.ms": 10_000}
        )
    config = BrokerConfig.from_values(
        {"authorizer.class.name": AUTHORIZER, "super.users": "User:ann;User:CN=b, OU=c; "}
    )
    assert config.principals_of_super_users == {ANN, Principal("User", "CN=b, OU=c")}


@on_a(Machine)
async def test_what_was_guarded_is_not_opened_by_a_setting_that_was_forgotten(
    machine: Machine,
) -> None:
    machine.config = ON
    async with machine.broker() as broker:
        broker.lanes.controller.submit(AddRules((rule(READ_TOPIC),)))
        await broker.lanes.controller.until_durable()
    machine.device.kill()
    machine.config = CONFIG
    with pytest.raises(BaseExceptionGroup) as refused:
        async with machine.broker():
            pytest.fail("it serves")
    (error,) = refused.value.exceptions
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, ConfigError)
    assert "everybody could do everything, although there are rules (1): say authorizer" in str(
        error
    )
    machine.device.kill()
    for config in (replace(CONFIG, authorizer_class_name=NO_AUTHORIZER), ON):
        machine.config = config
        async with machine.broker() as broker:
            assert broker.access.is_on is (config is ON)
        machine.device.kill()


@on_a(Machine)
async def test_a_list_that_lets_nobody_in_is_told_at_the_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(log, "warning", told.append)
    for config, is_told in ((replace(ON, super_users=""), True), (ON, False)):
        machine.config = config
        async with machine.broker():
            assert told == (
                ["nobody may do anything: there are no rules, and super.users names nobody"]
                if is_told
                else []
            )
            told.clear()
        machine.device.kill()
