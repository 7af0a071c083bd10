"""The access list on nodes of a store: who follows it, for how long, and who answers for whom."""

import asyncio
import math
from typing import Any, Final, cast

import pytest

from semel.access.access_list import AccessList
from semel.access.access_view import AccessView
from semel.access.principal import Principal
from semel.access.rules import ANY, PatternType, Permission, Rule
from semel.broker.access_control import STALE_S, AccessControl
from semel.broker.audit import Audit
from semel.broker.config import BrokerConfig
from semel.broker.led_lanes import LedLanes
from semel.broker.setting import AUTHORIZER
from semel.errors import ConfigError
from semel.wire.rights import Operation, ResourceType
from support.access_table import codes, request
from support.cluster_calls import ready
from support.simulated_cluster import NotAnswered, SimulatedCluster, SimulatedNode, on_nodes

FOLLOWED_S: Final = 2.0
REFUSED: Final = 29
SETTINGS: Final = {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": True}
"""Everybody may do everything, until a rule is about somebody else."""
ABOUT_ANOTHER: Final = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


async def ask(node: SimulatedNode, module: str, version: int, **fields: Any) -> set[int]:
    """The error codes of the answer, or 0."""
    found = {*codes(await node.ask(module, version, request(module, **fields)))}
    return found - {0} or {0}


async def shown(node: SimulatedNode) -> set[int]:
    return await ask(node, "metadata", 9, topics=[{"name": "t"}])


async def add_rule(node: SimulatedNode) -> None:
    assert await ask(node, "create_acls", 3, creations=[ABOUT_ANOTHER]) == {0}


@on_nodes(1, 2, 3, settings=SETTINGS)
async def test_a_rule_is_taken_by_any_node_and_counts_on_all(cluster: SimulatedCluster) -> None:
    leader, others = await ready(cluster)
    for node in (leader, *others):
        assert await shown(node) == {0}
    await add_rule(others[0])
    assert await shown(leader) == {REFUSED}
    await asyncio.sleep(FOLLOWED_S)
    for node in others:
        assert await shown(node) == {REFUSED}
        # The leader decides by what the client may do, and not by what the node may that asks.
        assert await ask(node, "delete_acls", 3, filters=[ANYTHING]) == {0}
        await asyncio.sleep(FOLLOWED_S)
        assert await shown(node) == {0}
        await add_rule(leader)
        await asyncio.sleep(FOLLOWED_S)


ANYTHING: Final = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}


@on_nodes(1, 2, 3, settings=SETTINGS)
async def test_who_cannot_read_the_store_decides_by_what_it_knew_no_longer(
    cluster: SimulatedCluster,
) -> None:
    leader, (blind, _) = await ready(cluster)
    assert await shown(blind) == {0}
    blind.store.is_cut = True
    await add_rule(leader)
    await asyncio.sleep(STALE_S)
    with pytest.raises(NotAnswered):
        await shown(blind)
    blind.store.is_cut = False
    await asyncio.sleep(FOLLOWED_S)
    assert await shown(blind) == {REFUSED}


@on_nodes(1, 2, 3, settings=SETTINGS)
async def test_rules_are_there_under_the_next_leader(cluster: SimulatedCluster) -> None:
    leader, _ = await ready(cluster)
    await add_rule(leader)
    leader.kill()
    following = await cluster.leader()
    assert await shown(following) == {REFUSED}
    # As long as it leads it knows.
    await asyncio.sleep(3 * STALE_S)
    assert await shown(following) == {REFUSED}
    assert await ask(following, "delete_acls", 3, filters=[ANYTHING]) == {0}
    assert await shown(following) == {0}


@on_nodes(1, 2, 3, settings=SETTINGS)
async def test_a_leader_that_slept_decides_nothing_by_its_old_list(
    cluster: SimulatedCluster,
) -> None:
    leader, _ = await ready(cluster)
    leader.freeze(2 * STALE_S)
    following = await cluster.leader(but=leader)
    await add_rule(following)
    await asyncio.sleep(2 * STALE_S)
    try:
        assert await shown(leader) == {REFUSED}
    except NotAnswered:
        await asyncio.sleep(FOLLOWED_S)
        assert await shown(leader) == {REFUSED}


@on_nodes(1, settings=SETTINGS)
async def test_a_node_that_is_told_of_no_rules_and_finds_some_does_not_stay(
    cluster: SimulatedCluster,
) -> None:
    leader, _ = await ready(cluster)
    cluster.settings = {}
    early = cluster.start(2)
    await asyncio.sleep(10 * FOLLOWED_S)
    await add_rule(leader)
    await asyncio.sleep(10 * FOLLOWED_S)
    # While a cluster gets its access control, node by node, nobody has to go.
    assert early.error is None
    late = cluster.start(3)
    await asyncio.sleep(10 * FOLLOWED_S)
    error = late.error
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, ConfigError)
    assert "although there are rules (1): say authorizer.class.name=" in str(error)


class HeardInPieces:
    """What a node knows of lane 0 that may not have read all of it."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.silent_s = math.inf

    @property
    def access(self) -> AccessView:
        return AccessView(cast(Any, None), AccessList(self.rules), cast(Any, None))


def test_rules_that_a_node_reads_last_count_as_well() -> None:
    heard = HeardInPieces()
    lanes = cast(LedLanes, heard)
    access = AccessControl(lanes, BrokerConfig(), cast(Audit, None), lambda: heard.silent_s)

    async def scenario() -> None:
        access.look()
        resource = ResourceType.TOPIC, "t", PatternType.LITERAL
        bob = Principal("User", "bob")
        heard.rules.append(Rule(*resource, bob, ANY, Operation.READ, Permission.ALLOW))
        access.look()
        heard.silent_s = 0.0
        with pytest.raises(ConfigError, match="there are rules"):
            access.look()

    asyncio.run(scenario())
