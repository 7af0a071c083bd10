"""The rules of transactions are left out one by one; a named test must find each absence."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from log import test_partition, test_producers, test_transactions
from mutants.transaction_bugs import a_newcomer_ends_in_complete_abort
from mutants.transaction_chaos import Chaos
from semel.broker.transactional import LateRequests
from semel.log.partition import Partition
from semel.log.producers import Producer, SequenceReused
from semel.log.transactions import AbortedIndex, PartitionTransactions
from semel.transactions import (
    ending,
    epochs,
    initialising,
    joining,
    outcome,
)
from semel.transactions.commands import End
from semel.transactions.dialect import Dialect
from semel.transactions.epochs import check_usable
from semel.transactions.transaction import Status
from semel.types import Offset
from support.decisions import decided_otherwise
from transactions import (
    test_ending,
    test_initialising,
    test_late_requests,
    test_scenarios,
    test_terms,
)

Plant = Callable[[pytest.MonkeyPatch], None]
Kill = Callable[[], None]
CHAOS_SEEDS = range(40)


def no_seed_violates(dialect: Dialect | None = None) -> None:
    for seed in CHAOS_SEEDS:
        violations = Chaos(seed, dialect).run()
        assert not violations, f"seed {seed}: {violations[0]}"


def chaos() -> None:
    no_seed_violates()


def chaos_of_tv1() -> None:
    no_seed_violates(Dialect.TV1)


def chaos_of_tv2() -> None:
    no_seed_violates(Dialect.TV2)


def given(test: Callable[..., None], *arguments: object) -> Kill:
    """One case of a test that has several."""

    def kill() -> None:
        test(*arguments)

    kill.__name__ = test.__name__
    return kill


# Terms (rule 3)


def an_epoch_is_never_spent(patch: pytest.MonkeyPatch) -> None:
    for module in (epochs, ending):
        patch.setattr(module, "is_spent", lambda current, term: False)


def only_what_the_rise_aborted_is_spent(patch: pytest.MonkeyPatch) -> None:
    """The frame that opened a transaction may itself be lost."""

    def is_spent(current: Any, term: int) -> bool:
        return current.epoch_term < term and current.status is Status.COMPLETE_ABORT

    for module in (epochs, ending):
        patch.setattr(module, "is_spent", is_spent)


def a_rise_aborts_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ending, "raise_term", lambda current, context: outcome.unchanged(current))


def a_tv1_abort_refreshes_the_term(patch: pytest.MonkeyPatch) -> None:
    keep = ending._end_tv1_spent

    def refresh(current: Any, command: End, context: Any) -> Any:
        if command.commit:
            return keep(current, command, context)
        return outcome.changed(
            context, replace(current, status=Status.EMPTY, epoch_term=context.term)
        )

    patch.setattr(ending, "_end_tv1_spent", refresh)


def a_spent_tv1_commit_is_taken_for_a_retry(patch: pytest.MonkeyPatch) -> None:
    keep = ending._end_tv1_spent

    def trust(current: Any, command: End, context: Any) -> Any:
        if command.commit and current.status is Status.COMPLETE_COMMIT:
            return outcome.unchanged(current)
        return keep(current, command, context)

    patch.setattr(ending, "_end_tv1_spent", trust)


def any_tv2_retry_succeeds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ending, "_answer_retry", lambda current, commit: outcome.unchanged(current))


def a_timeout_does_not_fence(patch: pytest.MonkeyPatch) -> None:
    keep = outcome.prepare
    patch.setattr(
        ending,
        "prepare",
        lambda current, context, *, commit, bump: keep(current, context, commit=commit, bump=False),
    )


# A new incarnation (rule 10)


def a_newcomer_leaves_the_last_epoch_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(initialising, "last_epoch", lambda current, command: current.producer_epoch)


def a_new_incarnation_leaves_the_old_transaction_open(patch: pytest.MonkeyPatch) -> None:
    keep = outcome.prepare

    def unmarked(*arguments: Any, **options: Any) -> Any:
        return decided_otherwise(keep(*arguments, **options), markers=None)

    patch.setattr(initialising, "prepare", unmarked)


# Sequences after an abort, and the checksum (rule 11)


def forgetting(patch: pytest.MonkeyPatch, known: Callable[[Any, Any], Any]) -> None:
    """Let another list of batches be known behind an abort; of those before and those left."""
    ended = Producer.ended

    def forgetful(self: Producer, epoch: Any, now_ms: int, *, committed: bool) -> Producer:
        after = ended(self, epoch, now_ms, committed=committed)
        if committed or epoch > self.epoch:
            return after
        taken = known(self.taken, after.taken)
        return Producer(after.epoch, now_ms, taken)

    patch.setattr(Producer, "ended", forgetful)


def an_abort_forgets_every_batch(patch: pytest.MonkeyPatch) -> None:
    forgetting(patch, lambda before, after: ())


def an_abort_forgets_no_batch(patch: pytest.MonkeyPatch) -> None:
    forgetting(patch, lambda before, after: before)


def numbers_alone_make_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    keep = Producer.duplicate_of

    def blind(self: Producer, epoch: Any, first: Any, last: Any, fingerprint: int) -> Offset | None:
        try:
            return keep(self, epoch, first, last, fingerprint)
        except SequenceReused:
            return next(batch.base_offset for batch in self.taken if batch.first_sequence == first)

    patch.setattr(Producer, "duplicate_of", blind)


def a_doom_is_only_said(patch: pytest.MonkeyPatch) -> None:
    keep = ending.doom

    def forget(current: Any, command: Any, context: Any) -> Any:
        return decided_otherwise(keep(current, command, context), values=())

    patch.setattr(ending, "doom", forget)


# Late requests (rule 12)


def no_request_is_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LateRequests, "admit", lambda *arguments: True)


def closing_the_newest_connection_forgets_it(patch: pytest.MonkeyPatch) -> None:
    def forget(self: LateRequests, connection_number: int) -> None:
        self._connections.discard(connection_number)
        for key, seen in list(self._newest.items()):
            if seen[1] == connection_number:
                del self._newest[key]

    patch.setattr(LateRequests, "closed", forget)


def all_kinds_of_requests_count_together(patch: pytest.MonkeyPatch) -> None:
    keep = LateRequests.admit
    patch.setattr(
        LateRequests,
        "admit",
        lambda self, producer, epoch, api_key, number: keep(self, producer, epoch, 0, number),
    )


def who_comes_back_is_told_the_same_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        joining, "check_usable", lambda current, term, was_told: check_usable(current, term)
    )


# Readers (rule 1 and what others shipped)


def the_bound_moves_before_the_marker_is_durable(patch: pytest.MonkeyPatch) -> None:
    keep = PartitionTransactions.ended

    def hasty(self: PartitionTransactions, *arguments: Any, **options: Any) -> None:
        keep(self, *arguments, **options)
        self._ended.clear()

    patch.setattr(PartitionTransactions, "ended", hasty)


def only_what_began_in_the_range_is_listed(patch: pytest.MonkeyPatch) -> None:
    keep = AbortedIndex.overlapping

    def listed(self: AbortedIndex, start: Offset, end: Offset) -> Any:
        return [one for one in keep(self, start, end) if one.first_offset >= start]

    patch.setattr(AbortedIndex, "overlapping", listed)


def the_aborted_list_is_always_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedIndex, "overlapping", lambda self, start, end: [])


def the_stable_end_is_left_behind_by_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Partition, "last_stable_offset", property(lambda self: self.transactions.last_stable_offset)
    )


KILLED: list[tuple[Plant, Kill]] = [
    (an_epoch_is_never_spent, chaos),
    (
        an_epoch_is_never_spent,
        test_terms.test_a_tv2_commit_whose_transaction_was_aborted_by_the_rise_is_not_taken_for_a_retry,
    ),
    (only_what_the_rise_aborted_is_spent, chaos),
    (
        only_what_the_rise_aborted_is_spent,
        test_terms.test_a_value_that_does_not_know_its_term_is_spent,
    ),
    (
        a_rise_aborts_nothing,
        test_terms.test_a_rise_of_the_term_aborts_what_is_open_and_leaves_the_epoch,
    ),
    (
        a_tv1_abort_refreshes_the_term,
        test_terms.test_an_end_of_tv1_does_not_issue_an_epoch_and_so_not_a_term,
    ),
    (
        a_spent_tv1_commit_is_taken_for_a_retry,
        test_scenarios.test_tv1_a_lost_transaction_is_not_answered_by_the_commit_before_it,
    ),
    (
        any_tv2_retry_succeeds,
        given(test_ending.test_a_tv2_retry_that_comes_when_the_next_has_begun_is_fenced, True),
    ),
    (
        a_timeout_does_not_fence,
        given(test_ending.test_a_commit_that_races_the_timeout_is_fenced, Dialect.TV2),
    ),
    (
        a_newcomer_leaves_the_last_epoch_remembered,
        test_initialising.test_a_newcomer_makes_the_epoch_before_it_forgotten,
    ),
    (a_newcomer_ends_in_complete_abort, chaos_of_tv2),
    (
        a_newcomer_ends_in_complete_abort,
        test_initialising.test_a_zombie_that_retries_its_abort_is_not_handed_the_epoch_of_its_successor,
    ),
    (
        a_new_incarnation_leaves_the_old_transaction_open,
        test_initialising.test_a_new_incarnation_rolls_back_what_the_old_one_left_open,
    ),
    (a_new_incarnation_leaves_the_old_transaction_open, chaos),
    (
        an_abort_forgets_every_batch,
        test_producers.test_an_abort_leaves_committed_batches_known_as_duplicates,
    ),
    (
        an_abort_forgets_no_batch,
        test_producers.test_an_aborted_batch_is_not_taken_for_the_retry_of_itself,
    ),
    (
        numbers_alone_make_a_duplicate,
        test_producers.test_other_records_under_taken_sequences_are_told_apart_from_a_gap,
    ),
    (
        numbers_alone_make_a_duplicate,
        test_scenarios.test_a_delayed_record_that_comes_first_dooms_the_transaction_it_hits,
    ),
    (
        an_abort_forgets_every_batch,
        test_scenarios.test_a_committed_record_is_not_stored_again_after_an_abort,
    ),
    (
        a_doom_is_only_said,
        test_scenarios.test_a_delayed_record_that_comes_first_dooms_the_transaction_it_hits,
    ),
    (no_request_is_late, test_late_requests.test_it_agrees_with_remembering_everything),
    (no_request_is_late, chaos_of_tv1),
    (
        closing_the_newest_connection_forgets_it,
        test_late_requests.test_that_the_newest_connection_has_closed_does_not_let_an_older_one_pass,
    ),
    (
        all_kinds_of_requests_count_together,
        given(test_late_requests.test_each_kind_of_request_counts_for_itself, 0),
    ),
    (
        the_bound_moves_before_the_marker_is_durable,
        test_transactions.test_it_does_not_move_before_the_marker_is_durable,
    ),
    (
        only_what_began_in_the_range_is_listed,
        test_transactions.test_aborted_ones_begun_before_the_range_are_listed_and_all_by_first_offset,
    ),
    (the_aborted_list_is_always_empty, chaos),
    (
        who_comes_back_is_told_the_same_again,
        given(
            test_terms.test_who_was_told_and_comes_back_under_a_spent_epoch_is_fenced,
            Status.COMPLETE_ABORT,
        ),
    ),
    (
        the_stable_end_is_left_behind_by_the_start,
        test_partition.test_the_last_stable_offset_lies_between_start_and_high_watermark_and_never_goes_back,
    ),
]


@pytest.mark.parametrize(
    ("plant", "kill"), KILLED, ids=[f"{plant.__name__}-{kill.__name__}" for plant, kill in KILLED]
)
def test_a_planted_bug_is_killed(plant: Plant, kill: Kill, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        kill()


def test_with_every_rule_no_client_concludes_anything_wrong() -> None:
    chaos()


def test_clients_of_tv1_alone_conclude_nothing_wrong() -> None:
    chaos_of_tv1()
