"""Holds a history against the definitions, and says in words what came of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from semel.verify.judging.anomalies import DEFINITIONS, Anomaly
from semel.verify.judging.answers import check_answers
from semel.verify.judging.facts import Facts
from semel.verify.judging.operations import Any, Fault, Known
from semel.verify.judging.order import check_order
from semel.verify.judging.records import check_records
from semel.verify.judging.transactions import check_transactions

CHECKS: tuple[Callable[[Facts], Iterator[Anomaly]], ...] = (
    check_records,
    check_order,
    check_transactions,
    check_answers,
)
SHOWN_MAX = 3
"""Examples of one anomaly."""


class Verdict(Enum):
    """The exit code of a command that says it."""

    HELD = 0
    BROKEN = 1
    UNDECIDED = 2
    """Nothing was read at rest, so that nothing can be said of what was acknowledged."""


class Judgement(NamedTuple):
    verdict: Verdict
    anomalies: list[Anomaly]
    counts: Counter[str]

    def lines(self) -> Iterator[str]:
        """A report: what was seen, then each anomaly with its definition and its first examples."""
        counted = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        yield f"{self.verdict.name.lower()}: {counted}"
        for name, definition in DEFINITIONS.items():
            found = [each for each in self.anomalies if each.name == name]
            if found:
                yield f"{name} ({definition}): {len(found):,}"
                for anomaly in sorted(found, key=lambda each: each.at_s)[:SHOWN_MAX]:
                    yield f"    {anomaly.what}"


def judge(operations: Iterable[Any]) -> Judgement:
    facts = Facts(operations)
    anomalies = [anomaly for check in CHECKS for anomaly in check(facts)]
    counts = _counts(facts)
    verdict = Verdict.HELD
    if anomalies:
        verdict = Verdict.BROKEN
    elif not facts.at_rest or not counts["sends acknowledged"]:
        verdict = Verdict.UNDECIDED
    return Judgement(verdict, anomalies, counts)


def _counts(facts: Facts) -> Counter[str]:
    counts: Counter[str] = Counter()
    words = {Known.OK: "acknowledged", Known.FAILED: "refused", Known.UNKNOWN: "of unknown outcome"}
    for send in facts.sends:
        counts[f"sends {words[send.known]}"] += 1
    for poll in facts.polls:
        counts["records polled"] += len(poll.records)
    for end in facts.ends.values():
        name = "committed" if end.is_commit else "aborted"
        counts[f"transactions {name if end.known is Known.OK else words[end.known]}"] += 1
    counts["partitions read at rest"] = len(facts.at_rest)
    counts["faults"] = len(facts.all(Fault))
    return counts
