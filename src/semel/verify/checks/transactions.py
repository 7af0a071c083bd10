"""What transactions promise: whole or not at all, once, in order, and by one incarnation at a time.

Whether a record is committed is read off the log itself: by the marker that follows it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from semel.types import TopicPartition
from semel.verify.checks.logs import Rising
from semel.verify.checks.rest import (
    LogAtRest,
    Logs,
    logs_of,
    may_be_led_apart,
    may_fetch_what_is_old,
)
from semel.verify.history import (
    ABORT_MARKER,
    COMMIT_MARKER,
    Began,
    CommitSent,
    CommittedFetched,
    Ended,
    EndSeen,
    EpochGiven,
    Fetched,
    History,
    OffsetSeen,
    OffsetsWritten,
    Outcome,
    Span,
    StableEndSeen,
    Stored,
    Strayed,
    TimedOut,
    TopicGone,
    Unwelcome,
    WholeLog,
    WriteAcknowledged,
    Written,
)

Contents = dict[TopicPartition, list[str]]
"""Labels of records in their order."""


class Truth(NamedTuple):
    """A log at rest, as its markers tell it."""

    committed: tuple[Stored, ...]
    unended: tuple[Stored, ...]


def truth_of(log: tuple[Stored, ...]) -> Truth:
    committed: list[Stored] = []
    undecided: dict[int, list[Stored]] = defaultdict(list)
    for stored in log:
        if stored.label == COMMIT_MARKER:
            committed += undecided.pop(stored.producer_id, ())
        elif stored.label == ABORT_MARKER:
            undecided.pop(stored.producer_id, None)
        elif stored.producer_id >= 0:
            undecided[stored.producer_id].append(stored)
        else:
            committed.append(stored)
    unended = [stored for records in undecided.values() for stored in records]
    return Truth(tuple(sorted(committed)), tuple(unended))


def check_transactions(history: History) -> Iterator[str]:
    wholes = [whole for whole in history.all(WholeLog) if whole.round == 0]
    logs = logs_of(history)
    truths = {partition: truth_of(log.records) for partition, log in logs.items()}
    yield from _check_rest(wholes, truths)
    yield from _check_atomicity(history, logs, truths)
    yield from _check_committed_readers(history, logs, truths)
    yield from _check_stable_ends(history)
    yield from _check_incarnations(
        history, {partition: log.records for partition, log in logs.items()}
    )
    yield from _check_timers(history)
    for unwelcome in history.all(Unwelcome):
        yield (
            f"{unwelcome.request} of {unwelcome.attempt} ({unwelcome.dialect}) was answered "
            f"with {unwelcome.code}"
        )


def _check_rest(wholes: list[WholeLog], truths: dict[TopicPartition, Truth]) -> Iterator[str]:
    """Everyone has gone, and no transaction is left open."""
    for whole in wholes:
        if whole.last_stable_offset not in (None, whole.high_watermark):
            yield (
                f"the last stable offset of {whole.partition} is stuck at "
                f"{whole.last_stable_offset} of {whole.high_watermark}"
            )
        for stored in truths[whole.partition].unended[:1]:
            yield f"{stored.label} in {whole.partition} was never committed or aborted"


def _check_timers(history: History) -> Iterator[str]:
    for timed_out in history.all(TimedOut):
        age_s = timed_out.span.ended_s - timed_out.began_s
        if age_s < timed_out.timeout_s:
            yield (
                f"{timed_out.attempt} was aborted by its timer after {age_s:.3f} of "
                f"{timed_out.timeout_s} s"
            )


def _check_atomicity(
    history: History, logs: Logs, truths: dict[TopicPartition, Truth]
) -> Iterator[str]:
    wanted: dict[str, Contents] = defaultdict(lambda: defaultdict(list))
    gone = {each.topic for each in history.all(TopicGone)}
    attempt_of: dict[str, str] = {}
    for written in history.all(Written):
        for label in written.labels:
            attempt_of[label] = written.attempt
        if written.partition.topic not in gone:
            wanted[written.attempt][written.partition] += written.labels
    outcomes = _outcomes(history)
    strays: set[str] = set()
    for strayed in history.all(Strayed):
        for label in strayed.labels:
            attempt_of[label] = strayed.attempt
        if outcomes[strayed.attempt] is not Outcome.ABORTED:
            strays.update(strayed.labels)
    found: dict[str, Contents] = defaultdict(lambda: defaultdict(list))
    for partition, truth in truths.items():
        for stored in truth.committed:
            if stored.producer_id < 0:
                continue
            if stored.label not in attempt_of:
                yield f"{partition} holds {stored.label!r}, which no transaction wrote"
                continue
            if stored.label not in strays:
                found[attempt_of[stored.label]][partition].append(stored.label)
    for began in history.all(Began):
        whole, visible = wanted.get(began.attempt, {}), found.get(began.attempt, {})
        name = f"{began.attempt} ({began.dialect})"
        yield from _judge(name, outcomes[began.attempt], whole, visible, logs)


def _outcomes(history: History) -> dict[str, Outcome | None]:
    """None: it may have any."""
    outcomes: dict[str, Outcome | None] = {
        began.attempt: Outcome.ABORTED for began in history.all(Began)
    }
    for sent in history.all(CommitSent):
        outcomes[sent.attempt] = None
    for ended in history.all(Ended):
        outcomes[ended.attempt] = ended.outcome
    return outcomes


def _judge(
    name: str, outcome: Outcome | None, whole: Contents, visible: Contents, logs: Logs
) -> Iterator[str]:
    if outcome is Outcome.ABORTED:
        whole = {}
    elif outcome is None and not visible:
        return
    for partition in sorted(whole.keys() | visible.keys()):
        wanted, found = whole.get(partition, []), visible.get(partition, [])
        if not _is_left_of(wanted, found, logs.get(partition)):
            fault = {
                Outcome.COMMITTED: "was committed and is not whole",
                Outcome.ABORTED: "was not committed and is visible",
                None: "is torn",
            }[outcome]
            yield f"{name} {fault}: {partition} has {found[:6]} of {wanted[:6]}"
            return


def _is_left_of(wanted: list[str], found: list[str], log: LogAtRest | None) -> bool:
    """Whether these records are all that there were, but for those that the log may lack."""
    if log is not None and log.is_compacted:
        rest = iter(wanted)
        return all(label in rest for label in found)
    if log is not None and log.start > 0:
        return found == wanted[len(wanted) - len(found) :]
    return found == wanted


def _check_committed_readers(
    history: History, logs: Logs, truths: dict[TopicPartition, Truth]
) -> Iterator[str]:
    """A read_committed reader is left with the committed records of the range, and no others."""
    for fetched in history.all(CommittedFetched):
        if fetched.next_offset > max(fetched.last_stable_offset, fetched.from_offset):
            yield (
                f"{fetched.reader} was shown {fetched.partition} up to {fetched.next_offset}, "
                f"beyond the last stable offset {fetched.last_stable_offset}"
            )
        if fetched.partition not in truths:
            continue
        log = logs[fetched.partition]
        wanted = [
            stored
            for stored in truths[fetched.partition].committed
            if fetched.from_offset <= stored.offset < fetched.next_offset
        ]
        shown = [stored for stored in fetched.records if not log.may_lack(stored.offset)]
        if shown != wanted:
            strange = [each.label for each in shown if each not in wanted]
            missing = [each.label for each in wanted if each not in shown]
            yield (
                f"{fetched.reader} read {fetched.partition} from {fetched.from_offset} to "
                f"{fetched.next_offset} at {fetched.span.ended_s:.3f} s with uncommitted "
                f"{strange[:3]}, without committed {missing[:3]}"
            )


def _check_stable_ends(history: History) -> Iterator[str]:
    """The last stable offset never goes back, and the end covers what was committed."""
    stable: dict[TopicPartition, list[tuple[Span, int]]] = defaultdict(list)
    for fetched in history.all(CommittedFetched):
        stable[fetched.partition].append((fetched.span, fetched.last_stable_offset))
    for seen in history.all(StableEndSeen):
        stable[seen.partition].append((seen.span, seen.end_offset))
    judged = stable
    if may_fetch_what_is_old(history):
        judged = defaultdict(list)
        for seen in history.all(StableEndSeen):
            judged[seen.partition].append((seen.span, seen.end_offset))
    for partition, told in judged.items():
        rising = Rising([(span.ended_s, offset) for span, offset in stable[partition]])
        for span, offset in told:
            least = rising.before(span.began_s)
            if least is not None and offset < least:
                yield (
                    f"the last stable offset of {partition} went back from {least} to {offset} "
                    f"at {span.ended_s:.3f} s"
                )
    yield from _check_ends_of_committed(history)


def _check_ends_of_committed(history: History) -> Iterator[str]:
    committed_s = {
        ended.attempt: ended.span.ended_s
        for ended in history.all(Ended)
        if ended.outcome is Outcome.COMMITTED
    }
    known: dict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    marker_count = 0 if may_be_led_apart(history) else 1
    for told in history.all(WriteAcknowledged):
        if told.attempt in committed_s:
            # Its marker stands behind it; in another lane it may not be durable yet.
            end = told.base_offset + told.record_count + marker_count
            known[told.partition].append((committed_s[told.attempt], end))
    rising = {partition: Rising(ends) for partition, ends in known.items()}
    for partition, span, end in _ends(history):
        least = rising[partition].before(span.began_s) if partition in rising else None
        if least is not None and end < least:
            yield (
                f"{partition} was said to end at {end} at {span.ended_s:.3f} s, though a "
                f"transaction up to {least} was committed before"
            )


def _ends(history: History) -> Iterator[tuple[TopicPartition, Span, int]]:
    """As they were at some time between the request and the answer."""
    if not may_fetch_what_is_old(history):
        for fetched in history.all(Fetched):
            yield fetched.partition, fetched.span, fetched.high_watermark
        for committed in history.all(CommittedFetched):
            yield committed.partition, committed.span, committed.high_watermark
    for seen in history.all(EndSeen):
        yield seen.partition, seen.span, seen.end_offset


def _check_incarnations(
    history: History, logs: dict[TopicPartition, tuple[Stored, ...]]
) -> Iterator[str]:
    yield from _check_epochs(history, logs)
    incarnation_of = {began.attempt: began.incarnation for began in history.all(Began)}
    id_of = {began.attempt: began.transactional_id for began in history.all(Began)}
    rank = _ranks(history)
    fences: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for given in history.all(EpochGiven):
        if given.is_new_incarnation:
            fences[given.transactional_id].append((given.span.ended_s, given.incarnation))

    def is_fenced(attempt: str, at_s: float) -> bool:
        own = rank.get(incarnation_of[attempt], -1)
        return any(
            fenced_s < at_s and rank[successor] > own
            for fenced_s, successor in fences[id_of[attempt]]
        )

    for told in history.all(WriteAcknowledged):
        if is_fenced(told.attempt, told.span.began_s):
            yield f"{told.attempt} wrote to {told.partition} though it was fenced before"
    for ended in history.all(Ended):
        if ended.outcome is Outcome.COMMITTED and is_fenced(ended.attempt, ended.span.began_s):
            yield f"{ended.attempt} was committed though it was fenced before"
    yield from _check_zombies(history, logs, fences, rank)


def _ranks(history: History) -> dict[str, int]:
    """Incarnations of an id in the order of the first epochs they were given."""
    first: dict[str, tuple[int, int]] = {}
    for given in history.all(EpochGiven):
        first.setdefault(given.incarnation, (given.producer_id, given.producer_epoch))
    return {name: place for place, name in enumerate(sorted(first, key=first.__getitem__))}


def _check_epochs(
    history: History, logs: dict[TopicPartition, tuple[Stored, ...]]
) -> Iterator[str]:
    holders: dict[tuple[int, int], str] = {}
    for given in history.all(EpochGiven):
        key = (given.producer_id, given.producer_epoch)
        holder = holders.setdefault(key, given.incarnation)
        if holder != given.incarnation:
            yield f"epoch {key} was given to {holder} and to {given.incarnation}"
    for partition, log in logs.items():
        last: dict[int, int] = {}
        for stored in log:
            if stored.producer_epoch < last.get(stored.producer_id, -1):
                yield f"{stored.label} at {stored.offset} of {partition} has an epoch that is over"
            last[stored.producer_id] = max(stored.producer_epoch, last.get(stored.producer_id, -1))


def _check_zombies(
    history: History,
    logs: dict[TopicPartition, tuple[Stored, ...]],
    fences: dict[str, list[tuple[float, str]]],
    rank: dict[str, int],
) -> Iterator[str]:
    """What stands behind an end that was told after the fence was written after the fence."""
    writer: dict[str, Began] = {}
    begun = {began.attempt: began for began in history.all(Began)}
    for written in history.all(Written):
        for label in written.labels:
            writer[label] = begun[written.attempt]
    ends: dict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    for partition, span, end in _ends(history):
        ends[partition].append((span.began_s, end))
    for partition, log in logs.items():
        told = sorted(ends[partition])
        for stored in log:
            began = writer.get(stored.label)
            if began is None:
                continue
            own = rank.get(began.incarnation, -1)
            fenced_s = min(
                (at_s for at_s, who in fences[began.transactional_id] if rank[who] > own),
                default=None,
            )
            if fenced_s is None:
                continue
            seen = next((end for began_s, end in told if began_s > fenced_s), None)
            if seen is not None and stored.offset >= seen:
                yield f"{stored.label} was written to {partition} by one who was fenced before"


def check_copiers(history: History) -> Iterator[str]:
    """Each input is in one committed output, and the offsets say which ones."""
    copied = {written.attempt: written for written in history.all(OffsetsWritten)}
    groups = {written.group for written in copied.values()}
    yield from _check_sight(history, copied, groups)
    committed = _committed_attempts(history)
    last = {seen.group: max(seen.offset, 0) for seen in history.all(OffsetSeen)}
    logs = logs_of(history)
    for group in groups:
        end = last.get(group, 0)
        inputs = Counter(
            offset
            for attempt, written in copied.items()
            if written.group == group and attempt in committed
            for offset in written.inputs
        )
        sources = [
            logs[written.partition]
            for written in copied.values()
            if written.group == group and written.partition in logs
        ]
        missed = [
            offset
            for offset in range(end)
            if offset not in inputs and not any(log.may_lack(offset) for log in sources[:1])
        ]
        doubled = sorted(offset for offset, count in inputs.items() if count > 1)
        beyond = sorted(offset for offset in inputs if offset >= end)
        if missed or doubled or beyond:
            yield (
                f"{group} has committed offset {end}; of the inputs before it {missed[:5]} were "
                f"not copied, {doubled[:5]} more than once, and {beyond[:5]} though they stand "
                f"behind it"
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
