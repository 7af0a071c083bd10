"""Who has to wait, and who may not come in: each rule is left out, and noticed."""

import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from access import test_rate
from broker import test_entrance_attacks, test_knocking, test_quotas, test_turns
from semel.access.quotas import Kind, Limit, Quotas, Share
from semel.access.rate import Rate
from semel.access.sasl import Disguise
from semel.access.scram import Credential, Mechanism
from semel.access.users import UsersView
from semel.broker import metering, sign_in
from semel.broker.broker import Broker
from semel.broker.connection import Connection
from semel.broker.door import Door
from semel.broker.metering import MeteredRequest, Metering
from semel.broker.reception import Visit
from semel.broker.server import Server
from semel.broker.sign_in import SignIn
from semel.broker.turns import Turns
from support.compiled import plain_python

Patch = pytest.MonkeyPatch

pytestmark = plain_python


# Quotas.


def who_has_to_wait_is_read_from(patch: Patch) -> None:
    patch.setattr(Connection, "mute", lambda self, duration_ms: None)


def what_waits_is_not_counted(patch: Patch) -> None:
    patch.setattr(metering, "_Timed", lambda request, coroutine, call: coroutine)


def waiting_is_work(patch: Patch) -> None:
    patch.setattr(MeteredRequest, "start", lambda self: None)


def all_are_counted_always(patch: Patch) -> None:
    count = Server.count_requests
    patch.setattr(Server, "count_requests", lambda self, *, is_needed: count(self, is_needed=True))


def what_was_used_long_ago_counts(patch: Patch) -> None:
    patch.setattr(Rate, "_forget", lambda self, now_ms: None)


def each_client_of_a_user_is_counted_alone(patch: Patch) -> None:
    limit = Quotas.limit

    def alone(self: Quotas, kind: Kind, user: str, client_id: str) -> Limit | None:
        found = limit(self, kind, user, client_id)
        return None if found is None else found._replace(share=Share(user, str(id(object()))))

    patch.setattr(Quotas, "limit", alone)
    patch.setattr(Metering, "limits_of", _not_remembered(Metering.limits_of))


def _not_remembered(limits_of: Callable[..., object]) -> Callable[..., object]:
    def looked_up(self: Metering, call: object) -> object:
        self._limits.clear()
        return limits_of(self, call)

    return looked_up


def clients_that_name_themselves_anew_are_all_kept(patch: Patch) -> None:
    patch.setattr(metering, "_make_room", lambda rates, now_ms, may_go: False)


# Before a sign-in.


def only_who_is_unknown_is_disguised(patch: Patch) -> None:
    of = Disguise.of

    def costly(
        self: Disguise, users: UsersView, name: str, mechanism: Mechanism, key: bytes
    ) -> Credential:
        if name in users:
            # As if it had not been asked.
            self.count -= 1  # type: ignore[attr-defined]
        return of(self, users, name, mechanism, key)

    patch.setattr(Disguise, "of", costly)


def one_nonce_is_for_all(patch: Patch) -> None:
    patch.setattr(Broker, "random_bytes", lambda self, size: b"n" * size)


def who_is_being_closed_is_left_alone(patch: Patch) -> None:
    patch.setattr(SignIn, "_end", lambda self, reason: self._connection.close(reason))


def a_challenge_makes_a_node(patch: Patch) -> None:
    patch.setattr(sign_in, "FIRST_CALL_SIZE_MAX", 100 * 2**20)


def nobody_is_out_of_time(patch: Patch) -> None:
    patch.setattr(Visit, "_out_of_time", lambda self: None)


def any_proof_is_right(patch: Patch) -> None:
    patch.setattr(hmac, "compare_digest", lambda one, other: True)


def whatever_is_asked_is_served(patch: Patch) -> None:
    patch.setattr(
        SignIn,
        "_dispatch",
        lambda self, frame, connection: self._desk.server.dispatch(frame, connection),
    )


def strangers_take_all_the_time(patch: Patch) -> None:
    patch.setattr(Turns, "spend", lambda self, spent_s: None)


def who_has_gone_waits_on(patch: Patch) -> None:
    patch.setattr(Door, "_wait_no_more", lambda self: None)


def who_came_first_is_served_first(patch: Patch) -> None:
    begin = Turns.begin

    async def unknown(self: Turns, host: str, cost_s: float = 0.0) -> None:
        await begin(self, "", cost_s)

    patch.setattr(Turns, "begin", unknown)


Kill = Callable[[Path], object]


def _knocks(folder: Path) -> None:
    test_knocking.test_broken_sign_ins_let_nobody_in_and_leave_nothing_behind(folder, 1)


def _plain(test: Callable[[], None]) -> Kill:
    return lambda folder: test()


NAMED: list[tuple[Callable[[Patch], None], Kill]] = [
    (
        who_has_to_wait_is_read_from,
        _plain(
            test_quotas.test_a_producer_is_told_how_long_it_waits_and_is_not_read_from_meanwhile
        ),
    ),
    (
        what_waits_is_not_counted,
        _plain(test_quotas.test_a_fetch_that_waits_counts_when_it_is_answered),
    ),
    (waiting_is_work, _plain(test_quotas.test_waiting_is_no_work)),
    (
        all_are_counted_always,
        _plain(test_quotas.test_without_quotas_nothing_of_this_is_on_the_way),
    ),
    (what_was_used_long_ago_counts, _plain(test_rate.test_what_is_over_is_forgotten)),
    (
        each_client_of_a_user_is_counted_alone,
        _plain(
            test_quotas.test_quotas_of_a_user_are_shared_by_its_connections_and_others_are_not_held_up
        ),
    ),
    (
        clients_that_name_themselves_anew_are_all_kept,
        _plain(test_quotas.test_clients_that_name_themselves_anew_each_time_take_no_memory),
    ),
    (
        only_who_is_unknown_is_disguised,
        lambda folder: (
            test_entrance_attacks.test_who_exists_is_not_told_by_what_the_first_answer_takes("ann")
        ),
    ),
    (
        one_nonce_is_for_all,
        test_entrance_attacks.test_what_was_overheard_of_a_sign_in_is_of_no_use,
    ),
    (
        who_is_being_closed_is_left_alone,
        test_entrance_attacks.test_who_was_refused_is_gone_in_time_though_it_does_not_close,
    ),
    (
        a_challenge_makes_a_node,
        test_entrance_attacks.test_who_only_claims_to_be_a_node_may_send_no_more_than_a_first_call,
    ),
    (nobody_is_out_of_time, _knocks),
    (any_proof_is_right, _knocks),
    (whatever_is_asked_is_served, _knocks),
    (
        strangers_take_all_the_time,
        lambda folder: test_turns.test_it_takes_no_more_than_its_share_however_many_come(0.1),
    ),
    (
        who_has_gone_waits_on,
        _plain(test_turns.test_nobody_waits_for_a_handshake_who_has_gone),
    ),
    (
        who_came_first_is_served_first,
        _plain(test_turns.test_one_address_does_not_keep_the_others_waiting),
    ),
]


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


@pytest.mark.parametrize(("plant", "kill"), NAMED, ids=[plant.__name__ for plant, _ in NAMED])
def test_a_rule_of_the_entrance_that_is_left_out_is_noticed(
    plant: Callable[[Patch], None], kill: Kill, monkeypatch: Patch, tmp_path: Path
) -> None:
    kill(tmp_path)
    plant(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)) as caught:
        kill(tmp_path)
    assert any(isinstance(leaf, AssertionError) for leaf in _leaves(caught.value))
