"""Quotas are state of lane 0: replayed, kept by checkpoints, dropped when the last value is."""

from random import Random

import pytest

from lane.test_recovery import empty_state
from lane.test_users import ONE
from lane.test_users import applied as with_user
from semel.access.quotas import EVERY_OTHER, Entity
from semel.errors import InvalidRequest
from semel.groups.settings import GroupSettings
from semel.journal.seam import Limits
from semel.lane import facts, restoring, snapshot, snapshot_format
from semel.lane import frame as frames
from semel.lane.commands import Environment, LaneSettings
from semel.lane.quotas import AlterQuotas
from semel.lane.state import LaneState
from semel.lane.users import AlterUser
from semel.types import Position
from semel.world import Moment
from support.handled import SeededRandomness
from support.lane_state import whole

ANN, APP, EVERY_ADDRESS = Entity("ann"), Entity(EVERY_OTHER, "app"), Entity(ip=EVERY_OTHER)


def applied(state: LaneState, entity: Entity, **values: float | None) -> frames.Frame | None:
    environment = Environment(
        LaneSettings(GroupSettings()), SeededRandomness(Random(1)), Limits(2**20, "a setting")
    )
    frame = AlterQuotas(entity, values).decide(state, Moment(1, 1), environment).frame
    if frame is not None:
        state.apply(frame)
    return frame


def quotas_of(state: LaneState) -> dict[Entity, dict[str, float]]:
    return {entity: dict(state.quotas.of(entity)) for entity in state.quotas}


def test_values_of_an_entity_come_and_go_by_themselves() -> None:
    state = empty_state()
    applied(state, ANN, producer_byte_rate=1.0, consumer_byte_rate=2.0)
    applied(state, ANN, consumer_byte_rate=3.0, request_percentage=0.5)
    applied(state, ANN, producer_byte_rate=None)
    assert quotas_of(state) == {ANN: {"consumer_byte_rate": 3.0, "request_percentage": 0.5}}
    applied(state, ANN, consumer_byte_rate=None, request_percentage=None)
    assert quotas_of(state) == {}


def test_what_is_so_already_writes_nothing() -> None:
    state = empty_state()
    assert applied(state, ANN, producer_byte_rate=None) is None
    assert applied(state, ANN, producer_byte_rate=7.0) is not None
    assert applied(state, ANN, producer_byte_rate=7.0) is None


def test_one_bad_value_leaves_all_as_they_were() -> None:
    state = empty_state()
    with pytest.raises(InvalidRequest, match="greater than 0"):
        applied(state, ANN, consumer_byte_rate=5.0, producer_byte_rate=0.0)
    assert quotas_of(state) == {}


def test_a_frame_about_quotas_is_of_a_layout_that_versions_before_refuse() -> None:
    frame = applied(empty_state(), APP, request_percentage=12.5)
    assert frame is not None
    payload = b"".join(map(bytes, frame.encode()))
    assert payload[0] == frames.LAYOUT
    assert len(payload) == frame.size
    again = empty_state()
    again.apply(frames.decode(memoryview(payload), Position(0)))
    assert quotas_of(again) == {APP: {"request_percentage": 12.5}}


def test_a_checkpoint_keeps_quotas_with_users_and_without() -> None:
    for has_users in (False, True):
        state = empty_state()
        if has_users:
            with_user(state, AlterUser("ann", (ONE,)))
        applied(state, ANN, producer_byte_rate=1.0)
        applied(state, EVERY_ADDRESS, connection_creation_rate=20.0)
        stored = whole(state)
        assert stored[0] == snapshot_format.FORMAT
        again = empty_state()
        restoring.restore(stored, again)
        assert quotas_of(again) == quotas_of(state)
        assert list(again.users) == ["ann"] * has_users


def test_a_checkpoint_holds_the_quotas_of_its_start() -> None:
    state = empty_state()
    applied(state, ANN, producer_byte_rate=1.0)
    before = whole(state)
    taking = snapshot.take(state)
    pieces = [next(taking)]
    applied(state, ANN, producer_byte_rate=2.0)
    applied(state, APP, producer_byte_rate=2.0)
    assert b"".join([*pieces, *taking]) == before


def test_a_cluster_that_writes_for_older_versions_takes_no_quotas() -> None:
    state = empty_state()
    state.led = facts.Led(1, 1, "h", 1)
    with pytest.raises(InvalidRequest, match="level 1, which knows of no quotas"):
        applied(state, ANN, producer_byte_rate=1.0)
