"""Bugs to plant into the broker from outside: the absence of a rule about transactions."""

from typing import Any

from msgspec.structs import replace

from mutants.broker_bugs import Bug, Patch, patch_route
from semel.broker.answer import Answer
from semel.broker.handlers import end_txn
from semel.groups.lasting import Offsets
from semel.lane import facts, opening
from semel.lane import transactions as lane_transactions
from semel.log.transactions import AbortedIndex, PartitionTransactions
from semel.transactions import coordinator, ending, epochs, initialising, outcome, transaction
from semel.transactions.commands import End
from semel.transactions.transaction import Status
from semel.types import NO_PRODUCER_ID, Offset
from support.decisions import decided_otherwise

# Rule 1: readers


def the_stable_end_follows_what_is_applied(patch: Patch) -> None:
    def hasty(self: PartitionTransactions, high_watermark: Offset) -> Offset:
        still_open = self.first_open_offset()
        self.last_stable_offset = high_watermark
        if still_open is not None:
            self.last_stable_offset = min(high_watermark, still_open)
        return self.last_stable_offset

    patch.setattr(PartitionTransactions, "advance_high_watermark", hasty)


def the_stable_end_includes_the_first_open_record(patch: Patch) -> None:
    """As Redpanda 21.10 took it."""
    advance = PartitionTransactions.advance_high_watermark

    def inclusive(self: PartitionTransactions, high_watermark: Offset) -> Offset:
        self.last_stable_offset = Offset(min(advance(self, high_watermark) + 1, high_watermark))
        return self.last_stable_offset

    patch.setattr(PartitionTransactions, "advance_high_watermark", inclusive)


def open_transactions_hold_nobody_back(patch: Patch) -> None:
    def all_there_is(self: PartitionTransactions, high_watermark: Offset) -> Offset:
        self.last_stable_offset = high_watermark
        return high_watermark

    patch.setattr(PartitionTransactions, "advance_high_watermark", all_there_is)


def the_aborted_list_is_empty(patch: Patch) -> None:
    """As Nisshi answers."""
    patch.setattr(AbortedIndex, "gather", lambda self, start, end, found: False)


def only_what_began_in_the_range_is_listed(patch: Patch) -> None:
    gather = AbortedIndex.gather

    def listed(self: AbortedIndex, start: int, end: int, found: list[Any]) -> bool:
        all_found: list[Any] = []
        is_all = gather(self, start, end, all_found)
        found += [one for one in all_found if one.first_offset >= start]
        return is_all

    patch.setattr(AbortedIndex, "gather", listed)


def a_commit_is_acknowledged_when_written(patch: Patch) -> None:
    handle = end_txn.end_txn

    def early(broker: Any, request: Any, call: Any) -> Any:
        answer = handle(broker, request, call)
        assert isinstance(answer, Answer)
        answer.durable = False
        return answer

    patch_route(patch, 26, early)


# Rule 3: the term


def an_epoch_is_never_spent(patch: Patch) -> None:
    for module in (epochs, ending):
        patch.setattr(module, "is_spent", lambda current, term: False)


def only_what_is_known_to_be_aborted_is_spent(patch: Patch) -> None:
    def is_spent(current: Any, term: int) -> bool:
        return current.epoch_term < term and current.status is Status.COMPLETE_ABORT

    for module in (epochs, ending):
        patch.setattr(module, "is_spent", is_spent)


def a_rise_of_the_term_aborts_nothing(patch: Patch) -> None:
    decide = opening.BeginTerm.decide

    def lenient(self: Any, state: Any, at: Any, environment: Any) -> Any:
        decided = decide(self, state, at, environment)
        assert decided.frame is not None
        decided.frame.entries = [
            entry for entry in decided.frame.entries if isinstance(entry, facts.Fact)
        ]
        decided.frame.size = len(b"".join(decided.frame.encode()))
        return decided

    patch.setattr(opening.BeginTerm, "decide", lenient)
    for module in (epochs, ending):
        patch.setattr(module, "is_spent", lambda current, term: False)


def an_abort_of_tv1_refreshes_the_term(patch: Patch) -> None:
    keep = ending._end_tv1_spent

    def refresh(current: Any, command: End, context: Any) -> Any:
        if command.commit:
            return keep(current, command, context)
        return outcome.changed(
            context, replace(current, status=Status.EMPTY, epoch_term=context.term)
        )

    patch.setattr(ending, "_end_tv1_spent", refresh)


# Rule 10: a new incarnation


def a_newcomer_leaves_the_last_epoch_remembered(patch: Patch) -> None:
    patch.setattr(initialising, "last_epoch", lambda current, command: current.producer_epoch)


def a_newcomer_keeps_the_epoch(patch: Patch) -> None:
    patch.setattr(initialising, "epoch_after", lambda epoch: epoch)


def a_newcomer_ends_in_complete_abort(patch: Patch) -> None:
    emptied = initialising._emptied

    def aborted(bumped: Any, rest: Any, context: Any) -> Any:
        rest = rest._replace(last_producer_epoch=bumped.producer_epoch - 1)
        value = emptied(bumped, rest, context)
        return replace(value, status=Status.COMPLETE_ABORT)

    everything = dict.fromkeys(Status, frozenset(Status))
    patch.setattr(initialising, "_emptied", aborted)
    patch.setattr(transaction, "FOLLOWERS", everything)
    patch.setattr(coordinator, "FOLLOWERS", everything)


def a_newcomer_leaves_the_old_transaction_open(patch: Patch) -> None:
    prepare = outcome.prepare

    def unmarked(*arguments: Any, **options: Any) -> Any:
        return decided_otherwise(prepare(*arguments, **options), markers=None)

    patch.setattr(initialising, "prepare", unmarked)


def a_timeout_does_not_fence(patch: Patch) -> None:
    prepare = outcome.prepare
    patch.setattr(
        ending,
        "prepare",
        lambda current, context, *, commit, bump: prepare(
            current, context, commit=commit, bump=bump and current.client_version == 2
        ),
    )


# One frame


def one_partition_gets_no_marker(patch: Patch) -> None:
    add = lane_transactions.add_markers

    def short(state: Any, frame: Any, markers: Any, term: Any) -> None:
        kept = sorted(markers.partitions)
        kept = kept[1:] if len(kept) > 2 else kept
        add(state, frame, markers._replace(partitions=tuple(kept)), term)

    patch.setattr(lane_transactions, "add_markers", short)


# Offsets


def pending_offsets_are_visible(patch: Patch) -> None:
    store = Offsets.store
    patch.setattr(
        Offsets,
        "store",
        lambda self, stored, producer_id: store(self, stored, NO_PRODUCER_ID),
    )


def an_abort_keeps_the_offsets(patch: Patch) -> None:
    end = Offsets.apply_marker
    patch.setattr(Offsets, "apply_marker", lambda self, producer, _: end(self, producer, True))


def offsets_are_forgotten_by_a_commit(patch: Patch) -> None:
    end = Offsets.apply_marker
    patch.setattr(Offsets, "apply_marker", lambda self, producer, _: end(self, producer, False))


UNCOMMITTED = r"with uncommitted"
TORN = r"not whole|is torn|not committed and is visible"
BROKEN = TORN + r"|never committed or aborted|stuck|disagree|committed offset"

TRANSACTION_BUGS = (
    Bug(1, the_stable_end_follows_what_is_applied, UNCOMMITTED, first_seed=65),
    Bug(1, the_stable_end_includes_the_first_open_record, UNCOMMITTED),
    Bug(1, open_transactions_hold_nobody_back, UNCOMMITTED),
    Bug(1, the_aborted_list_is_empty, UNCOMMITTED),
    Bug(1, only_what_began_in_the_range_is_listed, UNCOMMITTED),
    Bug(1, a_commit_is_acknowledged_when_written, r"not whole|was committed before"),
    Bug(3, an_epoch_is_never_spent, TORN, first_seed=23),
    Bug(3, only_what_is_known_to_be_aborted_is_spent, TORN + r"|EndTxn.* with 48", first_seed=3),
    Bug(3, a_rise_of_the_term_aborts_nothing, BROKEN),
    Bug(3, an_abort_of_tv1_refreshes_the_term, r"EndTxn.* with 48", first_seed=70),
    Bug(10, a_newcomer_leaves_the_last_epoch_remembered, r".", first_seed=27),
    Bug(10, a_newcomer_keeps_the_epoch, r"was given to .* and to", first_seed=27),
    Bug(10, a_newcomer_ends_in_complete_abort, r".", first_seed=27),
    Bug(10, a_newcomer_leaves_the_old_transaction_open, BROKEN, first_seed=27),
    Bug(10, a_timeout_does_not_fence, r"."),
    Bug(9, one_partition_gets_no_marker, BROKEN),
    Bug(9, pending_offsets_are_visible, r"before any transaction"),
    Bug(9, an_abort_keeps_the_offsets, r"committed offset|before any transaction"),
    Bug(9, offsets_are_forgotten_by_a_commit, r"committed offset"),
)
