"""What copiers promise: each input in one committed output, and the offsets say which ones."""

from collections import Counter
from collections.abc import Iterator

from semel.verify.history import History, OffsetSeen, WholeLog
from semel.verify.transaction_checks import truth_of
from semel.verify.transaction_history import CommitSent, Ended, OffsetsWritten, Outcome, Written


def check_copiers(history: History) -> Iterator[str]:
    copied = {written.attempt: written for written in history.all(OffsetsWritten)}
    groups = {written.group for written in copied.values()}
    yield from _check_sight(history, copied, groups)
    committed = _committed_attempts(history)
    inputs = Counter(
        offset
        for attempt, written in copied.items()
        if attempt in committed
        for offset in written.inputs
    )
    last = {seen.group: max(seen.offset, 0) for seen in history.all(OffsetSeen)}
    for group in groups:
        wanted = Counter(range(last.get(group, 0)))
        if inputs != wanted:
            doubled = sorted(offset for offset, count in inputs.items() if count > 1)
            yield (
                f"{group} has committed offset {last.get(group, 0)}; of the inputs before it "
                f"{sorted(wanted - inputs)[:5]} were not copied, {doubled[:5]} more than once, and "
                f"{sorted(set(inputs) - set(wanted))[:5]} though they stand behind it"
            )


def _committed_attempts(history: History) -> set[str]:
    attempt_of = {
        label: written.attempt for written in history.all(Written) for label in written.labels
    }
    return {
        attempt_of[stored.label]
        for whole in history.all(WholeLog)
        if whole.round == 0
        for stored in truth_of(whole.records).committed
        if stored.label in attempt_of
    }


def _check_sight(
    history: History, copied: dict[str, OffsetsWritten], groups: set[str]
) -> Iterator[str]:
    """An offset of a transaction is seen only after someone has asked to commit it."""
    aborted = {ended.attempt for ended in history.all(Ended) if ended.outcome is Outcome.ABORTED}
    asked_s: dict[tuple[str, int], float] = {}
    for sent in history.all(CommitSent):
        if sent.attempt in copied and sent.attempt not in aborted:
            written = copied[sent.attempt]
            asked_s.setdefault((written.group, written.offset), sent.at_s)
    for seen in history.all(OffsetSeen):
        if seen.group in groups and seen.offset >= 0:
            earliest_s = asked_s.get((seen.group, seen.offset))
            if earliest_s is None or earliest_s > seen.span.ended_s:
                yield (
                    f"{seen.group} had {seen.offset} committed at {seen.span.ended_s:.3f} s, "
                    f"before any transaction that commits it"
                )
