"""Counts which branches of the rules about transactions over lanes a run has taken, from outside,
as `branches.py` does for slots."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from semel.broker import lane_calls
from semel.broker.commits import Commits
from semel.broker.handlers import write_txn_markers
from semel.broker.joins import Joins
from semel.broker.peers import Peers
from semel.errors import (
    ConcurrentTransactions,
    NotLeaderOrFollower,
    RequestError,
    TransactionAbortable,
)
from semel.lane.calls import AskOutcomes, AskToJoin, AskToPrepare, LaneAway
from semel.lane.joined import JoinedTransactions
from semel.lane.lane import Lane
from semel.lane.participating import EndJoined, Joining, MustWait, NotYet, Vote
from semel.lane.transactions import Transact
from semel.lane.view import LaneView
from semel.transactions.commands import AddPartitions, End, Join

RULES_OF_LANES: dict[str, tuple[str, ...]] = {
    "19": (
        "key given",
        "asked again",
        "refused",
        "answer after the end void",
        "two terms, doomed",
    ),
    "20": (
        "yes, prepared now",
        "yes, of nothing that was written here",
        "yes, prepared before",
        "no, in a later term",
        "no, doomed",
        "no, ended here",
        "no vote, in an earlier term",
        "no vote yet",
    ),
    "21": ("write waits for the outcome",),
    "22": ("yes, committed before", "abort leaves what was committed"),
    "23": ("new term aborts what is open", "new term keeps what is prepared"),
    "24": (
        "outcome of its own key",
        "outcome of what is not open here",
        "confirmed, ended here",
        "confirmed behind a barrier",
        "told of a later term",
        "marker of an outsider, coordinator asked",
    ),
    "25": ("committed", "asked again by the next leader"),
    "26": ("commit told", "abort told", "unknown, so aborted", "asked while it is open"),
    "27": ("voted down", "repeated commit hears the same"),
    "28": (
        "next transaction put off",
        "waiting request voided",
        "TV1 request on an older connection closed",
    ),
    "29": ("answered when all have ended",),
    "30": ("shown before its marker is durable", "last stable offset withheld"),
}
"""By number."""

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def watched_lanes(counts: Counter[str]) -> Iterator[tuple[Any, str, Wrapper]]:
    yield Joins, "_ask_to_join", _asked_to_join(counts)
    yield Joins, "_void", _voided(counts)
    yield Peers, "ask", _away(counts)
    yield Joining, "to", _joining(counts)
    yield Transact, "decide", _transacted(counts)
    yield Vote, "decide", _voted(counts)
    yield JoinedTransactions, "_end", _ended(counts)
    yield Lane, "start", _began(counts)
    yield EndJoined, "decide", _outcomes(counts)
    yield lane_calls, "_confirm", _confirmed(counts)
    yield lane_calls, "_check_terms", _terms(counts)
    yield write_txn_markers, "_write", _marked(counts)
    yield Commits, "_complete", _completed(counts)
    yield Commits, "resume", _resumed(counts)
    yield Commits, "decided", _told(counts)
    yield Commits, "until_finished", _finished(counts)
    yield LaneView, "outcome", _outcome(counts)
    yield LaneView, "knows_stable_end", _withheld(counts)


def _asked_to_join(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*arguments: Any) -> Any:
            try:
                key = await function(*arguments)
            except RequestError:
                counts["19 refused"] += 1
                raise
            counts["19 key given"] += 1
            return key

        return watched

    return wrap


def _voided(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any, key: Any) -> None:
            before = sum(each.is_void for each in self._waiting)
            function(self, key)
            counts["28 waiting request voided"] += (
                sum(each.is_void for each in self._waiting) - before
            )

        return watched

    return wrap


def _away(counts: Counter[str]) -> Wrapper:
    again: dict[type[Any], str] = {
        AskToJoin: "19 asked again",
        AskToPrepare: "25 asked again",
        AskOutcomes: "26 asked again",
    }

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Any, lane: int, call: Any) -> Any:
            try:
                return await function(self, lane, call)
            except LaneAway:
                counts[again.get(type(call), "24 told again")] += 1
                raise

        return watched

    return wrap


def _joining(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any, *arguments: Any) -> Any:
            try:
                return function(self, *arguments)
            except MustWait:
                counts["21 write waits for the outcome"] += 1
                raise
            except TransactionAbortable:
                counts["19 answer after the end void"] += self.key is not None
                raise

        return watched

    return wrap


def _transacted(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any, state: Any, *arguments: Any) -> Any:
            try:
                decided = function(self, state, *arguments)
            except ConcurrentTransactions:
                counts["28 next transaction put off"] += isinstance(self.command, AddPartitions)
                raise
            except TransactionAbortable:
                current = state.transactions.get(self.transactional_id)
                is_repeated = isinstance(self.command, End) and current.is_voted_down
                counts["27 repeated commit hears the same"] += is_repeated
                raise
            is_refused = isinstance(self.command, Join) and decided.reply.refusal is not None
            counts["19 two terms, doomed"] += is_refused
            return decided

        return watched

    return wrap


def _voted(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any, state: Any, *arguments: Any) -> Any:
            joined = state.joined.open.get(self.key.producer_id)
            last = state.joined.ended.get(self.key.producer_id)
            is_open = joined is not None and joined.key == self.key
            try:
                decided = function(self, state, *arguments)
            except NotLeaderOrFollower:
                counts["20 no vote, in an earlier term"] += 1
                raise
            except NotYet:
                counts["20 no vote yet"] += 1
                raise
            if not decided.reply:
                if state.term > self.term:
                    counts["20 no, in a later term"] += 1
                elif is_open:
                    counts["20 no, doomed"] += 1
                else:
                    counts["20 no, ended here"] += 1
            elif decided.frame is not None:
                what = "prepared now" if is_open else "of nothing that was written here"
                counts[f"20 yes, {what}"] += 1
            elif last is not None and last.committed == self.key:
                counts["22 yes, committed before"] += 1
            else:
                counts["20 yes, prepared before"] += 1
            return decided

        return watched

    return wrap


def _ended(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: JoinedTransactions, fact: Any, now_ms: int) -> None:
            last = self.ended.get(fact.key.producer_id)
            is_kept = not fact.commit and last is not None and last.committed is not None
            counts["22 abort leaves what was committed"] += is_kept
            function(self, fact, now_ms)

        return watched

    return wrap


def _began(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Any, *arguments: Any) -> None:
            for joined in self.view.all_joined() if self._journal.may_miss_acknowledged else ():
                what = "keeps what is prepared" if joined.is_prepared else "aborts what is open"
                counts[f"23 new term {what}"] += 1
            await function(self, *arguments)

        return watched

    return wrap


def _outcomes(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: EndJoined, state: Any, *arguments: Any) -> Any:
            for outcome in self.outcomes:
                joined = state.joined.open.get(outcome.key.producer_id)
                is_open = joined is not None and joined.key == outcome.key
                what = "its own key" if is_open else "what is not open here"
                counts[f"24 outcome of {what}"] += 1
                counts["30 shown before its marker is durable"] += is_open and outcome.commit
            return function(self, state, *arguments)

        return watched

    return wrap


def _confirmed(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(broker: Any, lane: Any, call: Any) -> Any:
            confirmed = await function(broker, lane, call)
            has_ended = all(lane.view.has_ended(outcome.key) for outcome in call.outcomes)
            counts[f"24 confirmed{', ended here' if has_ended else ' behind a barrier'}"] += 1
            return confirmed

        return watched

    return wrap


def _terms(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> None:
            try:
                function(*arguments)
            except NotLeaderOrFollower:
                counts["24 told of a later term"] += 1
                raise

        return watched

    return wrap


def _marked(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            code, joined = function(*arguments)
            counts["24 marker of an outsider, coordinator asked"] += joined is not None
            return code, joined

        return watched

    return wrap


def _completed(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Any, prepared: Any, key: Any, *, commit: bool) -> None:
            counts["25 committed" if commit else "27 voted down"] += 1
            await function(self, prepared, key, commit=commit)

        return watched

    return wrap


def _resumed(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any) -> None:
            function(self)
            counts["25 asked again by the next leader"] += len(self._deciding)

        return watched

    return wrap


def _told(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any, lane: int, outcome: Any) -> None:
            counts[f"26 {'commit' if outcome.commit else 'abort'} told"] += 1
            function(self, lane, outcome)

        return watched

    return wrap


def _finished(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(self: Any, producer_id: Any, patience_s: float) -> bool:
            must_wait = self._lane.view.is_unconfirmed(producer_id)
            is_finished: bool = await function(self, producer_id, patience_s)
            counts["29 answered when all have ended"] += must_wait and is_finished
            return is_finished

        return watched

    return wrap


def _outcome(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(self: Any, key: Any) -> Any:
            outcome = function(self, key)
            if outcome is None:
                counts["26 asked while it is open"] += 1
            elif not outcome.commit and key not in self._state.joined.decided:
                counts["26 unknown, so aborted"] += 1
            return outcome

        return watched

    return wrap


def _withheld(counts: Counter[str]) -> Wrapper:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            is_known: bool = function(*arguments)
            counts["30 last stable offset withheld"] += not is_known
            return is_known

        return watched

    return wrap
