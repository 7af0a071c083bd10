"""The rules of access control are left out one by one; a named test must find each absence."""

from collections.abc import Callable
from typing import Any

import pytest

from access import test_access_list
from broker import test_access
from semel.access.access_list import AccessList
from semel.access.principal import Principal
from semel.access.rights import CallersRights
from semel.broker import access_control
from semel.broker.answer import NO_MARKS, Answer, Call
from semel.broker.handlers import (
    create_acls,
    describe_topic_partitions,
    fetch,
    list_offsets,
    produce,
)
from semel.broker.telling import Telling
from semel.broker.transactional_produce import ProducingInTransaction
from semel.wire.rights import WRITE_ID, WRITE_TOPIC, ResourceType, Right
from support.access_table import CASES
from support.compiled import plain_python
from workers import test_rules

Patch = pytest.MonkeyPatch
Kill = Callable[[], object]

pytestmark = plain_python


# Rule 2: a refusal tells nobody what there is.


def what_is_not_there_is_said_to_be_missing(patch: Patch) -> None:
    require = list_offsets._Searches._partition

    def first_looked_for(self: Any, topic: str, wanted: Any) -> Any:
        self._broker.lanes.topic_named(topic)
        return require(self, topic, wanted)

    patch.setattr(list_offsets._Searches, "_partition", first_looked_for)


def an_id_that_nobody_has_is_told_from_others(patch: Patch) -> None:
    patch.setattr(Call, "may_see", lambda *_: True)


def the_leader_is_asked_for_what_is_hidden(patch: Patch) -> None:
    patch.setattr(
        describe_topic_partitions,
        "_is_told_here",
        lambda broker, name, call: name in broker.lanes.catalogue,
    )


# Rule 4: nothing is decided by rules that were replaced.


def a_change_is_answered_at_once(patch: Patch) -> None:
    patch.setattr(create_acls, "Answer", lambda response: Answer(response, NO_MARKS))


def decisions_are_remembered_for_ever(patch: Patch) -> None:
    patch.setattr(CallersRights, "_current", lambda self: self._access_list())


def what_is_remembered_is_not_asked_about(patch: Patch) -> None:
    patch.setattr(CallersRights, "remembered", lambda self, right: self._remembered.get(right, {}))


def what_is_known_is_believed_for_ever(patch: Patch) -> None:
    patch.setattr(access_control, "STALE_S", 1e9)


def others_are_not_told(patch: Patch) -> None:
    patch.setattr(Telling, "rule", lambda *_: 0)


def a_write_may_what_it_might_when_it_came(patch: Patch) -> None:
    patch.setattr(ProducingInTransaction, "_check_may", lambda *_: None)


# Rule 5: a fetch that waits.


def a_fetch_may_what_it_might_when_it_came(patch: Patch) -> None:
    may = Call.may

    def once(self: Call, right: Right, name: str = "") -> bool:
        known = self.peer.__dict__.setdefault("known", {})
        return bool(known.setdefault((right, name), may(self, right, name)))

    patch.setattr(Call, "may", once)


def a_fetch_is_not_looked_at_again(patch: Patch) -> None:
    patch.setattr(fetch._Look, "_take_back", lambda _: None)


# Rule 6: a rule that denies wins, and implies nothing.


def who_is_allowed_may_whatever_is_denied(patch: Patch) -> None:
    allowed = AccessList.allowed

    def generous(
        self: AccessList, principal: Principal, host: str, kind: ResourceType, name: str
    ) -> int:
        kept = AccessList(rule for rule in self.rules if rule.permission.name == "ALLOW")
        return allowed(kept, principal, host, kind, name)

    patch.setattr(AccessList, "allowed", generous)


def who_may_not_read_may_not_describe(patch: Patch) -> None:
    from semel.access import access_list

    bits = access_list._bits

    def implying(rule: Any) -> tuple[int, int]:
        allowed, denied = bits(rule)
        implied = access_list.IMPLIED.get(rule.operation)
        return allowed, denied | (1 << implied if denied and implied else 0)

    patch.setattr(access_list, "_bits", implying)


# Rule 14: a refusal changes nothing.


def what_is_refused_is_stored(patch: Patch) -> None:
    turn_away = produce._turn_away

    def absent_minded(broker: Any, request: Any, call: Call) -> Any:
        asked = request.topic_data
        refused = turn_away(broker, request, call)
        request.topic_data = asked
        return refused

    patch.setattr(produce, "_turn_away", absent_minded)


# Rule 15: each request of a transaction.


def who_has_begun_a_transaction_may_end_it(patch: Patch) -> None:
    may = Call.may

    def trusting(self: Call, right: Right, name: str = "") -> bool:
        known = self.peer.__dict__.setdefault("trusted", set())
        if (right == WRITE_ID and name in known) or may(self, right, name):
            known.add(name)
            return True
        return False

    patch.setattr(Call, "may", trusting)


def _case(module: str) -> Any:
    return next(case for case in CASES if case.module == module)


BUGS: list[tuple[Callable[[Patch], None], Kill]] = [
    (
        what_is_not_there_is_said_to_be_missing,
        lambda: (
            test_access.test_a_refusal_is_the_same_for_what_is_there_what_is_not_and_what_cannot_be(
                case=_case("list_offsets")
            )
        ),
    ),
    (
        an_id_that_nobody_has_is_told_from_others,
        test_access.test_who_may_not_know_of_a_topic_hears_that_nobody_has_its_id,
    ),
    (
        a_change_is_answered_at_once,
        test_access.test_a_change_is_answered_when_it_is_durable,
    ),
    (
        decisions_are_remembered_for_ever,
        lambda: test_access.test_what_was_decided_on_a_connection_is_decided_anew_by_other_rules(
            module="list_offsets"
        ),
    ),
    (
        what_is_remembered_is_not_asked_about,
        lambda: test_access.test_what_was_decided_on_a_connection_is_decided_anew_by_other_rules(
            module="produce"
        ),
    ),
    (
        what_is_known_is_believed_for_ever,
        test_rules.test_who_hears_no_more_of_the_access_list_decides_by_it_no_more,
    ),
    (
        others_are_not_told,
        test_rules.test_a_rule_counts_everywhere_when_its_client_hears_so,
    ),
    (
        the_leader_is_asked_for_what_is_hidden,
        test_access.test_the_leader_is_asked_for_nothing_that_the_client_may_not_see,
    ),
    (
        a_write_may_what_it_might_when_it_came,
        lambda: (
            test_access.test_a_write_that_waits_for_its_coordinator_asks_again_when_it_is_written(
                taken=WRITE_TOPIC
            )
        ),
    ),
    (
        a_fetch_may_what_it_might_when_it_came,
        test_access.test_a_fetch_that_waits_is_looked_at_again_when_it_answers,
    ),
    (
        who_is_allowed_may_whatever_is_denied,
        test_access_list.test_who_is_denied_to_read_may_still_describe,
    ),
    (
        who_may_not_read_may_not_describe,
        test_access_list.test_who_is_denied_to_read_may_still_describe,
    ),
    (
        what_is_refused_is_stored,
        lambda: test_access.test_who_has_no_right_is_refused_and_changes_nothing(
            case=_case("produce")
        ),
    ),
    (
        who_has_begun_a_transaction_may_end_it,
        test_access.test_each_request_of_a_transaction_needs_its_right,
    ),
]


@pytest.mark.parametrize(("plant", "kill"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_named_test_notices_that(
    plant: Callable[[Patch], None], kill: Kill, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup, pytest.fail.Exception)):
        kill()


def test_a_named_test_notices_that_a_fetch_is_not_looked_at_again(monkeypatch: Patch) -> None:
    a_fetch_is_not_looked_at_again(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        test_access.test_a_right_that_goes_while_the_disk_is_read_is_gone(monkeypatch=monkeypatch)
