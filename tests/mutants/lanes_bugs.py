"""Bugs to plant into transactions over lanes: a rule is absent, and a schedule shows it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from mutants.broker_bugs import Patch
from semel.broker import lane_calls
from semel.broker.commits import Commits, _Courier
from semel.broker.joins import Joins
from semel.lane import facts, opening, participating, transactions
from semel.lane.calls import Outcome
from semel.lane.commands import Decided
from semel.lane.joined import JoinedTransactions, LastEnded
from semel.lane.lane import Lane
from semel.lane.participating import EndJoined, ForgetEnds, Joining, ProduceJoined, Vote
from semel.lane.state import LaneState
from semel.lane.view import LaneView
from semel.transactions import ending, joining
from semel.transactions.transaction import Status
from semel.types import Term
from support import lanes_rules as rules
from support.decisions import decided_otherwise
from support.lanes_rules import Schedule


async def _at_once(wait: Any) -> None:
    """Instead of waiting for the journal."""


def _hasty(function: Callable[..., Any]) -> Callable[..., Any]:
    """It waits for nothing that the lane has appended."""

    async def hasty(*arguments: Any) -> Any:
        lane = next(each for each in arguments if hasattr(each, "until"))
        lane.until = _at_once
        try:
            return await function(*arguments)
        finally:
            del lane.until

    return hasty


# 19


def anything_may_join(patch: Patch) -> None:
    patch.setattr(joining, "check_added", lambda current, partition, dialect: True)


def a_lane_may_join_in_any_term(patch: Patch) -> None:
    join = joining.join

    def lenient(current: Any, command: Any, context: Any) -> Any:
        lanes = tuple(each for each in current.lanes if each.lane != command.lane)
        return join(msgspec.structs.replace(current, lanes=lanes), command, context)

    patch.setattr(joining, "join", lenient)


def a_late_key_is_used(patch: Patch) -> None:
    patch.setattr(Joining, "_check_not_ended", lambda self, state, key: None)


def a_key_is_given_unwritten(patch: Patch) -> None:
    patch.setattr(lane_calls, "_join", _hasty(lane_calls._join))


def a_key_is_given_under_any_epoch(patch: Patch) -> None:
    patch.setattr(Lane, "is_epoch_durable", lambda self, transactional_id: True)


# 20


def who_holds_nothing_votes_without_a_frame(patch: Patch) -> None:
    decide = Vote.decide

    def lenient(self: Vote, state: LaneState, at: Any, environment: Any) -> Any:
        decided = decide(self, state, at, environment)
        if self.key.producer_id not in state.joined.open:
            return Decided(decided.reply)
        return decided

    patch.setattr(Vote, "decide", lenient)


def a_vote_is_told_at_once(patch: Patch) -> None:
    patch.setattr(lane_calls, "_vote", _hasty(lane_calls._vote))


def votes_ignore_the_term(patch: Patch) -> None:
    decide = Vote.decide

    def lenient(self: Vote, state: LaneState, at: Any, environment: Any) -> Any:
        last = state.joined.ended.pop(self.key.producer_id, None)
        try:
            return decide(self._replace(term=state.term), state, at, environment)
        finally:
            if last is not None:
                state.joined.ended[self.key.producer_id] = last

    patch.setattr(Vote, "decide", lenient)


def a_doom_is_not_noted(patch: Patch) -> None:
    doom = ProduceJoined._doomed

    def forgetful(self: ProduceJoined, *arguments: Any) -> Any:
        return Decided(doom(self, *arguments).reply)

    patch.setattr(ProduceJoined, "_doomed", forgetful)


# 21


def what_is_prepared_is_written_to(patch: Patch) -> None:
    to = Joining.to

    def lenient(self: Joining, state: LaneState, partitions: Any) -> Any:
        joined = state.joined.open.get(self.producer_id)
        if joined is not None and joined.key.producer_epoch == self.producer_epoch:
            return joined
        return to(self, state, partitions)

    patch.setattr(Joining, "to", lenient)


# 22


def an_abort_forgets_the_commit_before(patch: Patch) -> None:
    end = JoinedTransactions._end

    def forgetful(self: JoinedTransactions, fact: facts.Ended, now_ms: int) -> None:
        end(self, fact, now_ms)
        committed = fact.key if fact.commit else None
        self.ended[fact.key.producer_id] = LastEnded(fact.key.turn, committed, now_ms)

    patch.setattr(JoinedTransactions, "_end", forgetful)


def what_is_old_is_forgotten_unasked(patch: Patch) -> None:
    async def forgetful(self: Joins, silent: Any, silent_since_ms: int) -> None:
        producer_ids = tuple(producer_id for producer_id, _ in silent)
        self._lane.submit(ForgetEnds(producer_ids, silent_since_ms))

    patch.setattr(Joins, "_forget_some", forgetful)


# 23


def a_new_term_keeps_all_that_is_open(patch: Patch) -> None:
    patch.setattr(opening, "add_end", lambda *arguments, **named: None)


def a_new_term_aborts_what_is_prepared(patch: Patch) -> None:
    decide = opening.BeginTerm.decide

    def hasty(self: Any, state: LaneState, at: Any, environment: Any) -> Any:
        decided = decide(self, state, at, environment)
        assert decided.frame is not None
        entries = decided.frame.entries
        term = Term(next(each.term for each in entries if isinstance(each, facts.Opened)))
        for joined in state.joined.open.values():
            if joined.is_prepared:
                participating.add_end(state, decided.frame, joined, commit=False, epoch=term)
        return decided

    patch.setattr(opening.BeginTerm, "decide", hasty)


# 24


def an_outcome_ends_whatever_is_open(patch: Patch) -> None:
    decide = EndJoined.decide

    def careless(self: EndJoined, state: LaneState, at: Any, environment: Any) -> Any:
        outcomes = tuple(
            msgspec.structs.replace(
                outcome,
                key=joined.key
                if (joined := state.joined.open.get(outcome.key.producer_id))
                else outcome.key,
            )
            for outcome in self.outcomes
        )
        return decide(EndJoined(outcomes), state, at, environment)

    patch.setattr(EndJoined, "decide", careless)


def anybody_may_write_markers(patch: Patch) -> None:
    patch.setattr(LaneView, "joined", lambda self, producer_id: None)


def nothing_to_end_is_said_at_once(patch: Patch) -> None:
    patch.setattr(lane_calls, "_confirm", _hasty(lane_calls._confirm))


def any_term_confirms(patch: Patch) -> None:
    patch.setattr(lane_calls, "_check_terms", lambda lane, outcomes: None)


# 25


def a_new_term_decides_what_is_prepared(patch: Patch) -> None:
    raise_term = ending.raise_term

    def decided(current: Any, context: Any) -> Any:
        if current is not None and current.is_prepared:
            current = msgspec.structs.replace(current, lanes=())
        return raise_term(current, context)

    patch.setattr(ending, "raise_term", decided)


def a_commit_does_not_wait_for_its_own_record(patch: Patch) -> None:
    decide = Commits._decide

    async def hasty(self: Commits, *arguments: Any) -> None:
        *others, _ = arguments
        await decide(self, *others, 0)  # type: ignore[call-arg]

    patch.setattr(Commits, "_decide", hasty)


# 26


def an_abort_is_told_at_once(patch: Patch) -> None:
    patch.setattr(Commits, "decided", lambda self, lane, outcome: self._tell(lane, outcome))


def outcomes_are_forgotten_unconfirmed(patch: Patch) -> None:
    said = _Courier._said

    async def careless(self: _Courier, call: Any) -> bool:
        await said(self, call)
        return True

    patch.setattr(_Courier, "_said", careless)


def what_is_not_known_is_open(patch: Patch) -> None:
    outcome = LaneView.outcome

    def undecided(self: LaneView, key: Any) -> Any:
        known = outcome(self, key)
        return known if known is not None and known.commit else None

    patch.setattr(LaneView, "outcome", undecided)


def the_last_of_its_producer_is_taken_for_it(patch: Patch) -> None:
    outcome = LaneView.outcome

    def hasty(self: LaneView, key: Any) -> Any:
        current = self._state.transactions.of_producer(key.producer_id)
        if current is not None and current.key == key and current.status is Status.COMPLETE_COMMIT:
            return Outcome(key, True, current.producer_epoch, self._state.term)
        return outcome(self, key)

    patch.setattr(LaneView, "outcome", hasty)


# 27


def a_no_spends_no_tv1_epoch(patch: Patch) -> None:
    vote_down = ending.vote_down

    def lenient(current: Any, context: Any) -> Any:
        decision = vote_down(current, context)
        values = tuple(
            msgspec.structs.replace(value, epoch_term=context.term) for value in decision.values
        )
        return decided_otherwise(decision, values=values)

    patch.setattr(ending, "vote_down", lenient)


def a_no_is_forgotten(patch: Patch) -> None:
    vote_down = ending.vote_down

    def forgetful(current: Any, context: Any) -> Any:
        decision = vote_down(current, context)
        values = tuple(
            msgspec.structs.replace(value, is_voted_down=False) for value in decision.values
        )
        return decided_otherwise(decision, values=values)

    patch.setattr(ending, "vote_down", forgetful)


# 28


def nothing_is_voided(patch: Patch) -> None:
    patch.setattr(Joins, "_void", lambda self, key: None)


def the_next_opens_unheard(patch: Patch) -> None:
    patch.setattr(JoinedTransactions, "has_unheard_abort", lambda self, producer_id: False)


def lanes_that_were_only_added_are_not_told(patch: Patch) -> None:
    add = transactions._add_decided

    def forgetful(frame: Any, before: Any, decision: Any, term: Any) -> None:
        add(frame, msgspec.structs.replace(before, lanes=before.joined_lanes), decision, term)

    patch.setattr(transactions, "_add_decided", forgetful)


# 29


def a_new_producer_waits_for_nobody(patch: Patch) -> None:
    async def at_once(self: Commits, producer_id: Any, patience_s: float) -> bool:
        return True

    patch.setattr(Commits, "until_finished", at_once)


# 30


def what_is_committed_is_shown_when_its_marker_is_durable(patch: Patch) -> None:
    patch.setattr(LaneState, "_show_committed", lambda self, frame: ())


def the_stable_end_is_told_at_once(patch: Patch) -> None:
    patch.setattr(LaneView, "knows_stable_end", lambda self, partition: True)


class LanesBug(NamedTuple):
    rule: int
    plant: Callable[[Patch], None]
    schedule: Schedule


LANES_BUGS = [
    LanesBug(19, anything_may_join, rules.what_was_not_added_does_not_join),
    LanesBug(19, a_lane_may_join_in_any_term, rules.a_lane_joins_in_one_term),
    LanesBug(19, a_late_key_is_used, rules.a_join_that_comes_back_after_the_end_is_void),
    LanesBug(19, a_key_is_given_unwritten, rules.a_join_is_written_before_it_is_answered),
    LanesBug(
        19, a_key_is_given_under_any_epoch, rules.a_key_is_given_under_an_epoch_that_is_durable
    ),
    LanesBug(
        20, who_holds_nothing_votes_without_a_frame, rules.who_holds_nothing_remembers_its_vote
    ),
    LanesBug(20, a_vote_is_told_at_once, rules.a_vote_is_durable_before_it_is_told),
    LanesBug(20, votes_ignore_the_term, rules.in_a_new_term_the_vote_is_no),
    LanesBug(20, votes_ignore_the_term, rules.an_older_leader_does_not_vote),
    LanesBug(20, a_doom_is_not_noted, rules.reused_sequences_are_a_no),
    LanesBug(21, what_is_prepared_is_written_to, rules.writes_wait_for_the_outcome),
    LanesBug(22, an_abort_forgets_the_commit_before, rules.a_commit_is_voted_for_again),
    LanesBug(
        22,
        what_is_old_is_forgotten_unasked,
        rules.what_its_coordinator_may_ask_for_is_not_forgotten,
    ),
    LanesBug(23, a_new_term_keeps_all_that_is_open, rules.a_new_term_aborts_what_is_open),
    LanesBug(23, a_new_term_aborts_what_is_prepared, rules.a_new_term_keeps_what_is_prepared),
    LanesBug(24, an_outcome_ends_whatever_is_open, rules.an_outcome_ends_its_own_transaction_alone),
    LanesBug(24, anybody_may_write_markers, rules.markers_of_others_end_nothing_that_has_a_key),
    LanesBug(24, nothing_to_end_is_said_at_once, rules.nothing_to_end_is_said_behind_a_barrier),
    LanesBug(24, any_term_confirms, rules.an_older_leader_confirms_nothing),
    LanesBug(25, a_new_term_decides_what_is_prepared, rules.only_votes_decide_what_is_prepared),
    LanesBug(
        25, a_commit_does_not_wait_for_its_own_record, rules.a_commit_waits_for_its_own_record
    ),
    LanesBug(26, an_abort_is_told_at_once, rules.an_abort_is_durable_before_it_is_told),
    LanesBug(
        26, outcomes_are_forgotten_unconfirmed, rules.outcomes_are_kept_until_all_have_confirmed
    ),
    LanesBug(26, what_is_not_known_is_open, rules.what_a_coordinator_does_not_know_was_aborted),
    LanesBug(
        26,
        the_last_of_its_producer_is_taken_for_it,
        rules.what_was_aborted_stays_so_whatever_its_producer_commits_next,
    ),
    LanesBug(27, a_no_spends_no_tv1_epoch, rules.after_a_no_a_repeated_tv1_commit_hears_the_same),
    LanesBug(27, a_no_is_forgotten, rules.after_a_no_a_repeated_tv2_commit_hears_the_same),
    LanesBug(28, nothing_is_voided, rules.a_late_join_does_not_pass_for_the_next_transaction),
    LanesBug(28, nothing_is_voided, rules.a_held_write_does_not_pass_for_the_next_transaction),
    LanesBug(28, the_next_opens_unheard, rules.the_next_opens_when_the_abort_is_heard_everywhere),
    LanesBug(
        28,
        lanes_that_were_only_added_are_not_told,
        rules.the_next_opens_when_the_abort_is_heard_everywhere,
    ),
    LanesBug(29, a_new_producer_waits_for_nobody, rules.a_new_producer_waits_until_all_have_ended),
    LanesBug(
        30,
        what_is_committed_is_shown_when_its_marker_is_durable,
        rules.who_hears_of_a_commit_can_read_it,
    ),
    LanesBug(30, the_stable_end_is_told_at_once, rules.the_stable_end_never_falls),
    LanesBug(30, the_stable_end_is_told_at_once, rules.what_was_shown_is_found_by_its_time),
    LanesBug(
        30,
        the_stable_end_is_told_at_once,
        rules.a_fetch_tells_no_stable_end_before_it_is_known,
    ),
]
