"""The rules of transactions over lanes, each in schedules that are aimed at it."""

import pytest

from support.lanes_rules import RULES, Schedule, anomalies_of


@pytest.mark.parametrize(
    ("rule", "schedule"), RULES, ids=[f"{rule}-{each.__name__}" for rule, each in RULES]
)
def test_the_rule_holds(rule: int, schedule: Schedule) -> None:
    assert anomalies_of(schedule) == []
