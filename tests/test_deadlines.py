"""Deadlines against looking at every id."""

from hypothesis import given
from hypothesis import strategies as st

from semel.deadlines import Deadlines

IDS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(IDS, st.integers(0, 20)) | st.integers(0, 20))


@given(STEPS)
def test_an_id_is_due_once_at_the_earliest_time_it_was_scheduled_for(
    steps: list[tuple[str, int] | int],
) -> None:
    deadlines = Deadlines[str]()
    expected: dict[str, int] = {}
    for step in steps:
        if isinstance(step, tuple):
            named, deadline_ms = step
            deadlines.schedule(named, deadline_ms)
            expected[named] = min(deadline_ms, expected.get(named, deadline_ms))
            continue
        due = {named: at_ms for named, at_ms in expected.items() if at_ms <= step}
        looked_at = list(deadlines.all_due(step))
        first = deadlines.due(step)
        assert (first is None) == (not due)
        assert first is None or due[first] == min(due.values())
        taken = deadlines.take_due(step)
        assert sorted(taken) == sorted(due)
        assert [due[named] for named in taken] == sorted(due.values())
        assert looked_at == taken
        assert not list(deadlines.all_due(step))
        expected = {named: at_ms for named, at_ms in expected.items() if named not in due}
    next_ms = deadlines.next_ms()
    assert not expected or (next_ms is not None and next_ms <= min(expected.values()))
