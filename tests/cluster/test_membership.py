"""Who is alive, of the beats that came and of the time."""

import pytest

from semel.cluster.membership import Membership, NodeRefused
from semel.cluster.messages import Beat
from semel.lane.leader import NodeAddress

DETECTION_S = 6.0
BEAT_S = 2.0
LEADER = NodeAddress(1, "one", 9092)
TWO, THREE = NodeAddress(2, "two", 9092), NodeAddress(3, "three", 9092)


def beat(node: NodeAddress, incarnation: bytes = b"i") -> Beat:
    return Beat(node.node_id, incarnation, node.host, node.port, 0)


def membership(*standing_by: NodeAddress) -> Membership:
    return Membership(LEADER, standing_by, DETECTION_S, now_s=0.0)


def test_a_node_lives_as_long_as_it_is_heard() -> None:
    members = membership()
    assert members.live(0.0) == []
    for number in range(10):
        members.heard(beat(THREE), number * BEAT_S)
        members.heard(beat(TWO), number * BEAT_S)
        assert members.live(number * BEAT_S) == [TWO, THREE]
    for number in range(10, 20):
        members.heard(beat(TWO), number * BEAT_S)
    assert members.live(19 * BEAT_S) == [TWO]


def test_whom_the_leader_before_has_named_is_given_the_detection_time() -> None:
    members = membership(TWO, THREE)
    members.heard(beat(TWO), BEAT_S)
    assert members.live(2 * BEAT_S) == [TWO, THREE]
    members.heard(beat(TWO), 2 * BEAT_S)
    assert members.live(3 * BEAT_S) == [TWO]


def test_who_takes_over_does_not_stand_by_any_more() -> None:
    assert membership(LEADER, TWO).live(0.0) == [TWO]


def test_a_leader_that_was_frozen_takes_nobody_for_dead_at_once() -> None:
    members = membership()
    members.heard(beat(TWO), 0.0)
    assert members.live(100.0) == [TWO]
    assert members.live(102.0) == [TWO]
    assert members.live(104.0) == [TWO]
    assert members.live(106.0) == []


def test_the_leaders_own_id_is_refused() -> None:
    with pytest.raises(NodeRefused, match="node 1 is another process, which leads") as refused:
        membership().heard(beat(NodeAddress(1, "elsewhere", 9092)), 0.0)
    assert refused.value.is_final


def test_the_second_of_two_with_one_id_is_refused_when_the_first_was_heard_again() -> None:
    members = membership()
    elsewhere = NodeAddress(2, "elsewhere", 9092)
    members.heard(beat(TWO, b"first"), 0.0)
    with pytest.raises(NodeRefused) as refused:
        members.heard(beat(elsewhere, b"second"), 1.0)
    assert not refused.value.is_final
    members.heard(beat(TWO, b"first"), 2.0)
    with pytest.raises(NodeRefused, match="node 2 is another process already, at two:9092") as told:
        members.heard(beat(elsewhere, b"second"), 3.0)
    assert told.value.is_final
    assert members.live(3.0) == [TWO]


def test_a_node_that_was_killed_is_back_from_elsewhere_after_the_detection_time() -> None:
    members = membership()
    elsewhere = NodeAddress(2, "elsewhere", 9092)
    members.heard(beat(TWO, b"first"), 0.0)
    for now_s in (1.0, 3.0, 5.0):
        with pytest.raises(NodeRefused) as refused:
            members.heard(beat(elsewhere, b"second"), now_s)
        assert not refused.value.is_final
    members.heard(beat(elsewhere, b"second"), 6.0)
    assert members.live(6.0) == [elsewhere]
    with pytest.raises(NodeRefused) as told:
        members.heard(beat(TWO, b"first"), 7.0)
    assert told.value.is_final, "it was frozen, and another has its id by now"


def test_a_leader_that_was_frozen_does_not_take_the_first_for_heard_again() -> None:
    members = membership()
    elsewhere = NodeAddress(2, "elsewhere", 9092)
    members.heard(beat(TWO, b"first"), 0.0)
    for now_s in (1.0, 101.0, 103.0, 105.0):
        with pytest.raises(NodeRefused) as refused:
            members.heard(beat(elsewhere, b"second"), now_s)
        assert not refused.value.is_final
    members.heard(beat(elsewhere, b"second"), 107.0)
    assert members.live(107.0) == [elsewhere]


def test_a_node_that_was_killed_is_back_at_its_address_at_once() -> None:
    members = membership()
    members.heard(beat(TWO, b"first"), 0.0)
    members.heard(beat(TWO, b"second"), 0.5)
    assert members.live(0.5) == [TWO]


def test_two_behind_one_address_do_not_take_turns() -> None:
    members = membership()
    members.heard(beat(TWO, b"first"), 0.0)
    members.heard(beat(TWO, b"second"), 0.5)
    with pytest.raises(NodeRefused) as refused:
        members.heard(beat(TWO, b"first"), 1.0)
    assert refused.value.is_final
