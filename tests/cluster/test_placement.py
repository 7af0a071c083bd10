"""Where lanes are to be led, against an oracle that counts."""

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from semel.cluster.placement import Candidate, Lanes, draw, next_placements, released
from semel.lane.lanes import Placement

node_ids = st.integers(1, 9)
nodes = st.lists(
    st.builds(Candidate, node_ids, st.booleans(), st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda node: node.node_id,
)
placements = st.dictionaries(
    st.integers(1, 15), st.builds(Placement, node_ids, st.booleans()), max_size=15
)


def settled(count: int, placed: dict[int, Placement]) -> Lanes:
    placed = {lane: each for lane, each in placed.items() if lane < count}
    return Lanes(count, placed, {lane: each.node_id for lane, each in placed.items()})


def until_settled(
    lanes: Lanes, live: list[Candidate], controller: int
) -> tuple[Lanes, list[dict[int, Placement]]]:
    steps: list[dict[int, Placement]] = []
    while step := next_placements(lanes, live, controller, may_level=True):
        steps.append(step)
        assert len(steps) < 100, "it goes on for ever"
        lanes = settled(lanes.lane_count, {**lanes.placed, **step})
    return lanes, steps


def wants(live: list[Candidate]) -> set[int]:
    able = {node.node_id for node in live if not node.is_drained and not node.is_leaving}
    return able or {node.node_id for node in live if not node.is_leaving}


@given(st.integers(1, 16), placements, nodes)
def test_every_lane_ends_where_it_is_wanted(
    count: int, placed: dict[int, Placement], live: list[Candidate]
) -> None:
    lanes, _ = until_settled(settled(count, placed), live, live[0].node_id)
    if wants(live):
        assert set(lanes.placed) == set(range(1, count))
        assert {each.node_id for each in lanes.placed.values()} <= wants(live)


@given(st.integers(1, 16), placements, nodes)
def test_what_need_not_move_stays_while_anything_must(
    count: int, placed: dict[int, Placement], live: list[Candidate]
) -> None:
    before = settled(count, placed)
    must = {
        lane
        for lane in range(1, count)
        if lane not in before.placed or before.placed[lane].node_id not in wants(live)
    }
    step = next_placements(before, live, live[0].node_id, may_level=True)
    if must and wants(live):
        assert set(step) == must
    else:
        assert len(step) <= 1
        assert not any(before.placed[lane].is_pinned for lane in step)


@given(st.integers(1, 16), placements, nodes)
def test_nothing_moves_that_need_not_before_all_is_done_that_was_said(
    count: int, placed: dict[int, Placement], live: list[Candidate]
) -> None:
    lanes, _ = until_settled(settled(count, placed), live, live[0].node_id)
    waiting = lanes._replace(leaders=dict(list(lanes.leaders.items())[1:]))
    if count > 1:
        assert next_placements(waiting, live, live[0].node_id, may_level=True) == {}
    assert next_placements(lanes, live, live[0].node_id, may_level=False) == {}


@given(st.integers(1, 16), placements, nodes)
def test_lanes_are_level_and_no_more_have_moved_than_had_to(
    count: int, placed: dict[int, Placement], live: list[Candidate]
) -> None:
    """If none is pinned; the oracle knows how many a node must have lost at least."""
    placed = {lane: Placement(each.node_id) for lane, each in placed.items()}
    before = settled(count, placed)
    controller = live[0].node_id
    lanes, steps = until_settled(before, live, controller)
    wanted = wants(live)
    if not wanted:
        return
    weight = Counter(dict.fromkeys(wanted, 0))
    weight.update([controller] if controller in wanted else [])
    after = weight + Counter(each.node_id for each in lanes.placed.values())
    loads = [after[node_id] for node_id in wanted]
    assert max(loads) - min(loads) <= 1
    homed = {lane: each for lane, each in before.placed.items() if each.node_id in wanted}
    moved = sum(lanes.placed[lane] != each for lane, each in homed.items())
    had = sorted(
        (
            (weight + Counter(each.node_id for each in homed.values()))[node_id]
            for node_id in wanted
        ),
        reverse=True,
    )
    total = count - 1 + sum(weight.values())
    least, with_one_more = divmod(total, len(wanted))
    fair = [least + 1] * with_one_more + [least] * (len(wanted) - with_one_more)
    assert moved == sum(max(0, own - its) for own, its in zip(had, fair, strict=True))
    assert sum(map(len, steps[1:])) == len(steps[1:]), "one at a time"


@given(st.integers(1, 16), placements, nodes)
def test_a_pinned_lane_moves_only_from_who_does_not_want_it(
    count: int, placed: dict[int, Placement], live: list[Candidate]
) -> None:
    before = settled(count, placed)
    lanes, _ = until_settled(before, live, live[0].node_id)
    for lane, each in before.placed.items():
        if each.is_pinned and each.node_id in wants(live):
            assert lanes.placed[lane] == each


def test_released_lanes_stay_where_they_are_and_may_move() -> None:
    placed = {1: Placement(1, True), 2: Placement(1, True), 3: Placement(1)}
    free = {**placed, **released(placed)}
    assert free == {lane: Placement(1) for lane in placed}
    live = [Candidate(1), Candidate(2)]
    assert not next_placements(settled(3, placed), live, 1, may_level=True)
    lanes, _ = until_settled(settled(4, free), live, 1)
    assert Counter(each.node_id for each in lanes.placed.values()) == {1: 1, 2: 2}


def test_lanes_of_a_node_that_goes_spread_over_all_others() -> None:
    placed = {lane: Placement(lane % 3 + 1) for lane in range(1, 31)}
    after, _ = until_settled(settled(31, placed), [Candidate(1), Candidate(2)], 1)
    moved = Counter(
        after.placed[lane].node_id for lane, each in placed.items() if each.node_id == 3
    )
    assert set(moved) == {1, 2}


def test_the_draw_is_the_same_everywhere() -> None:
    drawn = {(lane, node_id): draw(lane, node_id) for lane, node_id in product(range(8), range(8))}
    assert len(set(drawn.values())) == len(drawn)
    assert draw(1, 2) == 0x3A2C1F1EB2FF7FA7
