"""The rules of listeners are left out one by one; a named test must find each absence."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app import test_failing, test_moving
from semel.app.cycle import Steps, one_by_one
from semel.app.delivery import InTransactions, Offsets
from semel.app.failure import ListenerFailed
from semel.app.member import ListenerMember
from semel.app.outbox import Outbox
from semel.app.portion import Portion
from semel.client.producing.coordination import GroupMetadata
from support.app_topics import Topics
from support.app_topics import topics as topics

Plant = Callable[[pytest.MonkeyPatch], None]
Kill = Callable[[Topics], None]


def offsets_tell_nothing_of_the_generation(patch: pytest.MonkeyPatch) -> None:
    deliver = InTransactions.deliver

    async def as_anybody(
        self: InTransactions, records: Sequence[Any], offsets: Offsets, member: GroupMetadata
    ) -> None:
        await deliver(self, records, offsets, GroupMetadata(member.group_id))

    patch.setattr(InTransactions, "deliver", as_anybody)


def what_was_aborted_is_not_read_again(patch: pytest.MonkeyPatch) -> None:
    async def stay(self: ListenerMember, firsts: object) -> None: ...

    patch.setattr(ListenerMember, "_return_to_committed", stay)


def a_partition_goes_on_behind_a_record_that_rests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ListenerMember, "_hold_and_let_go", lambda self: None)


def a_failed_call_keeps_what_it_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "cut", lambda self, count: None)


def a_stop_lets_the_cycle_go_on(patch: pytest.MonkeyPatch) -> None:
    def patient(self: ListenerMember, portion: Portion, began_at_ms: float) -> Steps:
        backlog, rules = self._backlog, self._listener.rules
        return one_by_one(portion, rules, self._make_outbox(), backlog.attempts_of, lambda: False)

    patch.setattr(ListenerMember, "_steps", patient)


def order_is_kept(where: Topics) -> None:
    test_failing.test_what_passes_is_tried_again_and_the_order_is_kept(where, True)


PLANTS: list[tuple[Plant, Kill]] = [
    (
        offsets_tell_nothing_of_the_generation,
        test_moving.test_a_member_that_is_thrown_out_at_work_commits_nothing_and_comes_back,
    ),
    (
        what_was_aborted_is_not_read_again,
        test_moving.test_an_application_whose_producer_was_shut_out_makes_another,
    ),
    (a_partition_goes_on_behind_a_record_that_rests, order_is_kept),
    (a_failed_call_keeps_what_it_sent, order_is_kept),
    (
        a_stop_lets_the_cycle_go_on,
        test_moving.test_a_stop_finishes_the_record_at_work_and_begins_no_other,
    ),
]


@pytest.mark.parametrize(("plant", "kill"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_rule_that_is_left_out_is_missed(
    plant: Plant, kill: Kill, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ListenerFailed)):
        kill(topics)
