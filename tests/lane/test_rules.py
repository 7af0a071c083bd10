"""The access list is state of lane 0: replayed, kept by checkpoints, told to others."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from lane.test_recovery import empty_state
from semel.access.principal import Principal
from semel.access.rules import PatternType, Permission, Rule
from semel.broker.setting import AUTHORIZER
from semel.errors import InvalidRequest
from semel.groups.settings import GroupSettings
from semel.journal.seam import Limits
from semel.lane import facts, restoring, snapshot, snapshot_format
from semel.lane import frame as frames
from semel.lane.commands import Command, Environment, LaneSettings
from semel.lane.rules import AddRules, RemoveRules
from semel.lane.state import LaneState
from semel.types import Position
from semel.wire.rights import Operation, ResourceType
from semel.world import Moment
from support.handled import CONFIG, Machine, SeededRandomness, on_a
from support.lane_state import whole

ANN = Principal("User", "ann")


def rule(name: str, operation: Operation = Operation.READ) -> Rule:
    pattern = PatternType.PREFIXED
    return Rule(ResourceType.TOPIC, name, pattern, ANN, "*", operation, Permission.ALLOW)


ONE, OTHER, THIRD = map(rule, ("one", "other", "third:größe"))


def applied(
    state: LaneState, command: Command[tuple[Rule, ...]]
) -> tuple[tuple[Rule, ...], frames.Frame]:
    environment = Environment(
        LaneSettings(GroupSettings()), SeededRandomness(Random(1)), Limits(2**20, "a setting")
    )
    decided = command.decide(state, Moment(1, 1), environment)
    assert decided.frame is not None
    if decided.frame.entries:
        state.apply(decided.frame)
    return decided.reply, decided.frame


def with_rules(rules: Iterable[Rule]) -> LaneState:
    state = empty_state()
    applied(state, AddRules(tuple(rules)))
    return state


def test_a_rule_is_there_once_and_gone_once() -> None:
    state = with_rules([ONE, ONE])
    assert applied(state, AddRules((ONE, OTHER)))[0] == (OTHER,)
    assert [*state.access_list] == [ONE, OTHER]
    assert applied(state, RemoveRules((THIRD, ONE, ONE)))[0] == (ONE,)
    assert [*state.access_list] == [OTHER]
    nothing, frame = applied(state, RemoveRules((ONE,)))
    assert nothing == ()
    assert not frame.entries


def test_a_frame_about_rules_is_of_a_layout_that_versions_before_refuse() -> None:
    state = empty_state()
    _, frame = applied(state, AddRules((ONE, THIRD)))
    payload = b"".join(map(bytes, frame.encode()))
    assert payload[0] == frames.LAYOUT
    assert len(payload) == frame.size
    again = empty_state()
    again.apply(frames.decode(memoryview(payload), Position(0)))
    assert [*again.access_list] == [ONE, THIRD]


def test_a_cluster_that_writes_for_older_versions_takes_no_rules() -> None:
    state = empty_state()
    state.led = facts.Led(1, 1, "h", 1)
    with pytest.raises(InvalidRequest, match="level 1, which knows of no access lists"):
        applied(state, AddRules((ONE,)))
    assert not len(state.access_list)
    state.level = 3
    assert applied(state, AddRules((ONE,)))[0] == (ONE,)


def test_a_checkpoint_keeps_rules_and_is_of_an_older_format_without_any() -> None:
    many = [rule(f"topic-{number}") for number in range(snapshot.ITEMS_PER_PIECE + 1)]
    state = with_rules(many)
    stored = whole(state)
    assert stored[0] == snapshot_format.FORMAT
    again = empty_state()
    restoring.restore(stored, again)
    assert [*again.access_list] == many
    applied(state, RemoveRules(tuple(many)))
    assert whole(state)[0] == snapshot_format.FORMAT_OF_ONE_LANE


def test_a_checkpoint_holds_the_rules_of_its_start() -> None:
    state = with_rules([ONE])
    before = whole(state)
    taking = snapshot.take(state)
    pieces = [next(taking)]
    applied(state, AddRules((OTHER,)))
    applied(state, RemoveRules((ONE,)))
    assert b"".join([*pieces, *taking]) == before


class Guarded(Machine):
    def __init__(self) -> None:
        super().__init__(replace(CONFIG, authorizer_class_name=AUTHORIZER))


@on_a(Guarded)
async def test_rules_are_there_again_after_a_kill(machine: Guarded) -> None:
    async with machine.broker() as broker:
        broker.lanes.controller.submit(AddRules((ONE, OTHER)))
        broker.lanes.controller.submit(RemoveRules((ONE,)))
        await broker.lanes.controller.until_durable()
    machine.device.kill()
    async with machine.broker() as broker:
        assert broker.lanes.access is not None
        assert [*broker.lanes.access.access_list] == [OTHER]
