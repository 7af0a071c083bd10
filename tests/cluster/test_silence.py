"""When a node may try to lead, of what it has seen."""

import pytest

from semel.cluster.silence import NEVER_LED, Seen, Timing

TIMING = Timing(6.0)
LED = Seen(3, is_sealed=False, successor=None)


@pytest.mark.parametrize("node_id", range(10))
def test_a_leader_is_given_the_detection_time_and_another_takes_over_soon_after(
    node_id: int,
) -> None:
    needed_s = TIMING.silence_s(LED, node_id)
    assert needed_s >= 6.0
    # Silence is seen from the second look on, and a try takes a look at most to begin.
    assert needed_s + 2 * TIMING.look_s < 6.0 + 2.0


def test_a_lane_that_nobody_has_led_or_that_was_handed_over_is_taken_at_once() -> None:
    for seen in (Seen(NEVER_LED, is_sealed=False, successor=None), LED._replace(is_sealed=True)):
        assert max(TIMING.silence_s(seen, node_id) for node_id in range(10)) < 0.2


def test_whom_a_seal_names_goes_first_and_the_others_wait_as_for_a_leader() -> None:
    named = Seen(3, is_sealed=True, successor=2)
    assert TIMING.silence_s(named, 2) == 0.0
    assert TIMING.silence_s(named, 1) == TIMING.silence_s(LED, 1)


def test_nodes_of_neighbouring_ids_do_not_try_at_the_same_time() -> None:
    assert len({TIMING.silence_s(LED, node_id) for node_id in (1, 2, 3)}) == 3


def test_whoever_the_leader_has_named_comes_in_the_order_of_ids_and_before_all_others() -> None:
    named = [4, 12, 8]
    waits = [TIMING.silence_s(LED, node_id, named) for node_id in (4, 8, 12, 16)]
    assert waits == sorted(set(waits))
    assert waits[0] == TIMING.detection_s


@pytest.mark.parametrize("node_id", range(0, 100, 7))
def test_however_many_stand_by_one_takes_over_soon(node_id: int) -> None:
    needed_s = TIMING.silence_s(LED, node_id, range(100))
    assert needed_s + 2 * TIMING.look_s < TIMING.detection_s + 2


def test_a_leader_speaks_often_enough_not_to_be_taken_for_gone() -> None:
    assert 2 * TIMING.beat_s + 2 * TIMING.look_s < TIMING.detection_s
