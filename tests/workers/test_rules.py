"""The access list over two workers: which rules count where, and for how long they are believed."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.test_access import ON, ROOT, as_
from semel.access.access_list import AccessListView
from semel.broker.access_control import STALE_S
from semel.broker.broker import Broker
from semel.errors import AccessUnknown
from semel.wire.rights import DESCRIBE_TOPIC, READ_TOPIC, Right
from support.access_table import ANN, REFUSALS, codes, request, rule
from support.handled import call
from support.seeded_loop import elapse
from workers.test_telling import Machine, on_two_workers

FOLLOWED_S = 2.0
FETCH = {"topic": "first", "partitions": [{"partition": 1, "partition_max_bytes": 1_000}]}


def guarded(scenario: Callable[[Machine], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return on_two_workers(scenario, ON)


async def asked(
    broker: Broker, module: str, version: int, root: bool = False, **fields: Any
) -> Any:
    """As ann, or as a super user."""
    peer = as_(broker, ROOT if root else ANN)
    return await call(broker, module, version, request(module, **fields), peer)


async def added(broker: Broker, right: Right, root: bool = True) -> set[int]:
    kind, name, pattern, principal, host, operation, permission = rule(right, "first").stored()
    creation = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }
    return {*codes(await asked(broker, "create_acls", 3, root, creations=[creation]))}


async def removed(broker: Broker) -> int:
    """How many rules went."""
    anything = {"resource_type_filter": 1, "pattern_type_filter": 1}
    anything |= {"operation": 1, "permission_type": 1}
    response = await asked(broker, "delete_acls", 3, root=True, filters=[anything])
    return len(response.filter_results[0].matching_acls)


async def may_read(broker: Broker) -> bool:
    response = await asked(broker, "fetch", 12, topics=[FETCH])
    return not REFUSALS & {*codes(response)}


@guarded
async def test_a_rule_counts_everywhere_when_its_client_hears_so(machine: Machine) -> None:
    async with machine.workers() as (first, second):
        assert not await may_read(second)
        assert await added(first, READ_TOPIC) == {0}
        assert await may_read(second)
        assert await removed(first) == 1
        assert not await may_read(second)


@guarded
async def test_what_the_leader_answers_for_another_worker_is_what_the_client_may(
    machine: Machine,
) -> None:
    async with machine.workers() as (first, second):
        assert await added(second, READ_TOPIC, root=False) == {31}
        assert await added(second, DESCRIBE_TOPIC) == {0}
        assert len(first.lanes.controller.view.access.access_list) == 1
        assert not await may_read(second)
        shown = await asked(
            second,
            "describe_acls",
            3,
            root=True,
            resource_type_filter=1,
            pattern_type_filter=1,
            operation=1,
            permission_type=1,
        )
        assert [each.resource_name for each in shown.resources] == ["first"]
        topics = [{"name": name} for name in ("first", "third")]
        found = await asked(second, "metadata", 9, topics=topics, allow_auto_topic_creation=True)
        assert [each.error_code for each in found.topics] == [0, 29]
        assert "third" not in first.lanes.catalogue
        producer = await asked(second, "init_producer_id", 4)
        assert producer.error_code == 31
        assert await removed(second) == 1


@guarded
async def test_who_hears_no_more_of_the_access_list_decides_by_it_no_more(
    machine: Machine,
) -> None:
    async with machine.workers() as (first, second):
        await added(first, READ_TOPIC)
        assert await may_read(second)
        machine.runs[1].clear()
        assert await removed(first) == 1
        await elapse(FOLLOWED_S)
        with pytest.raises(AccessUnknown, match="s old"):
            await may_read(second)
        assert not as_(second).rights.is_known
        machine.runs[1].set()
        await second.access.until_known(second.loop_time_s + STALE_S)
        assert not await may_read(second)


@guarded
async def test_a_worker_that_hears_nothing_new_goes_on(machine: Machine) -> None:
    async with machine.workers() as (first, second):
        await added(first, READ_TOPIC)
        known: AccessListView = second.access.access_list()
        for _ in range(20):
            await elapse(1.0)
            assert second.access.access_list() is known
        assert await may_read(second)
