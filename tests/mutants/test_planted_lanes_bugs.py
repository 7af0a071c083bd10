"""Each rule of transactions over lanes is left out in turn; a schedule must notice."""

import pytest

from mutants.lanes_bugs import LANES_BUGS, LanesBug
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
