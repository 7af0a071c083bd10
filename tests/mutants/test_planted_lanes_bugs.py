"""Each rule of transactions over lanes is left out in turn; a schedule must notice."""

import pytest

from cluster import test_lanes
from mutants.lanes_bugs import LANES_BUGS, LanesBug
from semel.broker.transactional import LateRequests
from support.compiled import plain_python
from support.lanes_rules import anomalies_of


@plain_python
@pytest.mark.parametrize("bug", LANES_BUGS, ids=lambda bug: f"rule-{bug.rule}-{bug.plant.__name__}")
def test_a_schedule_notices_that(bug: LanesBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    try:
        anomalies = anomalies_of(bug.schedule)
    except BaseExceptionGroup as crash:
        anomalies = [repr(crash)]
    assert anomalies


@plain_python
def test_without_the_rule_a_late_write_hits_a_later_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 28, of who has just taken a lane."""
    monkeypatch.setattr(LateRequests, "took_over", lambda self, number: None)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_lanes.test_a_late_write_does_not_hit_a_later_transaction_of_its_epoch()
