"""What the logs must hold at the end: each acknowledged record once, where it was said to be.

acks=all   acknowledged: there, whatever died
acks=1     acknowledged: there, unless a power loss or a takeover came soon after
retried    at most once, in order, without holes
at rest    nothing is lost any more, by any death
shown      what anyone was shown is there at the end, unchanged; no end that was told goes back
gone       only before the start of a log, which moves for a reason, or where a log is compacted
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from semel.types import TopicPartition
from semel.verify.checks.rest import Logs, compacted_topics, logs_of, may_fetch_what_is_old
from semel.verify.history import (
    Acknowledged,
    Cause,
    Died,
    EndSeen,
    Fetched,
    FetchRefused,
    History,
    Limits,
    MayBeGone,
    Refused,
    Sent,
    Span,
    Stored,
    TakenOver,
    TermEndSeen,
    TermSeen,
    WholeLog,
)

ACKS_ALL = -1
OUT_OF_RANGE = 1
OUT_OF_ORDER = 45
LOSSES = {Cause.POWER_LOSS, Cause.IO_ERROR}
"""Deaths after which acknowledged bytes may be missing, for all that the broker knows."""
SYNCED_AFTER_S = 0.6
"""More than what the broker leaves unsynced and two of the slowest syncs take together."""


def check_logs(history: History) -> Iterator[str]:
    logs = logs_of(history)
    yield from _check_starts(history)
    yield from _check_acknowledged(history, logs)
    yield from _check_once_and_in_order(history, logs)
    yield from _check_refusals(history)
    yield from _check_rest(history, logs)
    yield from _check_terms(history, logs)


def _check_starts(history: History) -> Iterator[str]:
    allowed: dict[TopicPartition, int] = defaultdict(int)
    for each in history.all(MayBeGone):
        allowed[each.partition] = max(allowed[each.partition], each.before_offset)
    limited = {
        limits.topic
        for limits in history.all(Limits)
        if limits.retention_ms or limits.retention_bytes
    }
    starts: dict[TopicPartition, int] = defaultdict(int)
    for whole in history.all(WholeLog):
        partition, start = whole.partition, whole.log_start_offset
        # What may go from a topic with limits is another question.
        if start > allowed[partition] and partition.topic not in limited:
            yield f"{partition} begins at {start}, and only {allowed[partition]} may be its start"
        if start < starts[partition]:
            yield f"{partition} began at {starts[partition]} and begins at {start} again"
        starts[partition] = start


def _check_acknowledged(history: History, logs: Logs) -> Iterator[str]:
    may_be_lost = losses_of(history)
    for told in history.all(Acknowledged):
        if told.partition not in logs:
            continue
        log = logs[told.partition]
        for offset, label in enumerate(told.labels, told.base_offset):
            if log.may_lack(offset):
                continue
            stored = log.at(offset)
            found = "nothing" if stored is None else stored.label
            if found != label and not may_be_lost(told):
                yield (
                    f"{label} was acknowledged (acks={told.acks}) at {told.span.ended_s:.3f} s "
                    f"with offset {offset} of {told.partition}, where there is {found}"
                )


def losses_of(history: History) -> Callable[[Acknowledged], bool]:
    """Tells whether it is no anomaly that what was acknowledged is gone: it was not durable yet
    when it was, and the broker had no time to sync or to store it before what came then."""
    deaths = list(history.all(Died))
    losses_s = [died.at_s for died in deaths if died.cause is Cause.POWER_LOSS]
    takeovers_s = [taken.at_s for taken in history.all(TakenOver)]

    def may_be_lost(told: Acknowledged) -> bool:
        if told.acks == ACKS_ALL:
            return False
        began_s, durable_s = told.span.began_s, told.span.ended_s + SYNCED_AFTER_S
        if any(began_s <= at_s <= durable_s for at_s in takeovers_s):
            return True
        if any(began_s <= died.at_s <= durable_s for died in deaths):
            return any(at_s >= began_s for at_s in losses_s)
        return False

    return may_be_lost


def _check_once_and_in_order(history: History, logs: Logs) -> Iterator[str]:
    numbers_of: dict[str, int] = {}
    sent_by: dict[str, Sent] = {}
    for sent in history.all(Sent):
        for label in sent.labels:
            sent_by[label] = sent
            numbers_of[label] = int(label.rpartition("/")[2])
    acknowledged = {label for told in history.all(Acknowledged) for label in told.labels}
    overdue: set[str] = set()
    for partition, log in logs.items():
        last_number: dict[str, int] = {}
        for stored in log.records:
            if stored.producer_id >= 0:
                continue  # Part of a transaction.
            known = sent_by.get(stored.label)
            if known is None or known.partition != partition:
                yield f"{partition} holds {stored.label!r}, which was never sent there"
                continue
            if not known.is_idempotent and stored.label not in acknowledged:
                # Without a sequence nobody can tell that it came late, over a connection that its
                # producer had given up; but only once.
                if stored.label in overdue:
                    yield f"{stored.label} stands twice or out of order at {stored.offset}"
                overdue.add(stored.label)
                continue
            number = numbers_of[stored.label]
            last = last_number.get(known.producer, -1)
            expected = last + 1
            last_number[known.producer] = max(number, last)
            may_be_gone = log.is_compacted or (log.start > 0 and last < 0)
            if number < expected:
                yield f"{stored.label} stands twice or out of order at {stored.offset}"
            elif (
                number > expected
                and known.is_repeated
                and known.acks == ACKS_ALL
                and not may_be_gone
            ):
                yield f"{stored.label} at {stored.offset} follows a hole: {expected} is missing"


def _check_refusals(history: History) -> Iterator[str]:
    """A retry of what is next in line may not be called out of order."""
    for refused in history.all(Refused):
        if refused.code != OUT_OF_ORDER or not refused.is_next:
            continue
        if not refused.was_acknowledged_once_written:
            yield (
                f"{refused.labels[0]} was refused as out of order, though all before it was "
                f"acknowledged as durable"
            )


def _check_rest(history: History, logs: Logs) -> Iterator[str]:
    for later in history.all(WholeLog):
        if later.round == 0:
            continue
        log = logs.get(later.partition)
        before = () if log is None else log.records
        left = tuple(stored for stored in before if stored.offset >= later.log_start_offset)
        if log is not None and log.is_compacted:
            is_same = set(later.records) <= set(left)
        else:
            is_same = later.records == left
        if not is_same:
            yield (
                f"{later.partition} had {len(left)} records at rest and "
                f"has {len(later.records)} other ones after restart {later.round}"
            )


def _check_terms(history: History, logs: Logs) -> Iterator[str]:
    """An offset and a term name one record for ever; a term ends where the next one begins."""
    named: dict[tuple[TopicPartition, int, int], str] = {}
    for partition, log in logs.items():
        last_epoch = -1
        next_offset = log.start
        for stored in log.records:
            offset = stored.offset
            if offset < next_offset or (offset > next_offset and not log.is_compacted):
                yield f"{partition} has offset {offset} in place of {next_offset}"
            next_offset = offset + 1
            if stored.leader_epoch < last_epoch:
                yield f"{partition} has term {stored.leader_epoch} at {offset} behind {last_epoch}"
            last_epoch = stored.leader_epoch
            named[partition, offset, stored.leader_epoch] = stored.label
        if next_offset != log.end and not log.is_compacted:
            yield f"{partition} has nothing from {next_offset} to its end at {log.end}"
    for told in history.all(Acknowledged):
        for offset, label in enumerate(told.labels, told.base_offset):
            if told.term < 0:
                continue
            # A retry is answered in another term than its original was stored in.
            known = named.setdefault((told.partition, offset, told.term), label)
            if known != label and told.acks != ACKS_ALL:
                yield (
                    f"offset {offset} of {told.partition} in term {told.term} is {known} now "
                    f"and was {label}"
                )
    yield from _check_term_ends(history, logs)
    yield from _check_term_rises(history)


def _check_term_ends(history: History, logs: Logs) -> Iterator[str]:
    for seen in history.all(TermEndSeen):
        if seen.asked >= seen.term:
            continue  # It has not ended, for all that is known.
        if seen.partition not in logs:
            continue
        log = logs[seen.partition]
        later = (each.offset for each in log.records if each.leader_epoch > seen.asked)
        highest = next(later, log.end)
        # Without gaps and with a record of this term or an older one, they are the same.
        lowest = max(
            (each.offset + 1 for each in log.records if each.leader_epoch <= seen.asked), default=0
        )
        if not lowest <= seen.end_offset <= highest:
            yield (
                f"term {seen.asked} of {seen.partition} was said to end at {seen.end_offset}, "
                f"and ends at {highest}"
            )


def _check_term_rises(history: History) -> Iterator[str]:
    """What may lose bytes raises the term, and a mere kill does not."""
    deaths = list(history.all(Died))
    seen = sorted(history.all(TermSeen), key=lambda each: each.span.ended_s)
    for earlier, later in pairwise(seen):
        if later.span.began_s < earlier.span.ended_s:
            continue
        if later.term < earlier.term:
            yield f"the term fell from {earlier.term} to {later.term}"
        between = [
            died.cause for died in deaths if earlier.span.ended_s <= died.at_s <= later.span.began_s
        ]
        if LOSSES & set(between) and later.term <= earlier.term:
            yield f"the term stayed {later.term} over a power loss or an I/O error"
        around = [
            died.cause for died in deaths if earlier.span.began_s <= died.at_s <= later.span.ended_s
        ]
        if not LOSSES & set(around) and later.term > earlier.term:
            yield f"the term rose from {earlier.term} to {later.term} without a loss"


class Rising:
    """The largest value that was known before a given time."""

    def __init__(self, known: list[tuple[float, int]]) -> None:
        known.sort()
        self._times_s: list[float] = []
        self._values: list[int] = []
        for time_s, value in known:
            self._times_s.append(time_s)
            self._values.append(max(value, self._values[-1] if self._values else value))

    def before(self, time_s: float) -> int | None:
        place = bisect_left(self._times_s, time_s)
        return self._values[place - 1] if place else None


def check_readers(history: History) -> Iterator[str]:
    yield from _check_records(history)
    yield from _check_ends(history)
    logs = logs_of(history)
    for refused in history.all(FetchRefused):
        log = logs.get(refused.partition)
        if refused.code == OUT_OF_RANGE and log is not None and refused.offset < log.start:
            continue
        yield (
            f"{refused.reader} was refused offset {refused.offset} of {refused.partition} "
            f"with {refused.code}"
        )


def _check_records(history: History) -> Iterator[str]:
    """What anyone was ever shown is there at the end, unchanged."""
    logs = logs_of(history)
    compacted = compacted_topics(history)
    for fetched in history.all(Fetched):
        yield from _check_order(fetched, is_compacted=fetched.partition.topic in compacted)
        if fetched.partition not in logs:
            continue
        log = logs[fetched.partition]
        for stored in fetched.records:
            at_end = log.at(stored.offset)
            if at_end != stored and not log.may_lack(stored.offset):
                yield (
                    f"{fetched.reader} was shown {_named(stored)} of {fetched.partition} at "
                    f"{fetched.span.ended_s:.3f} s, which is {_named(at_end)} at the end"
                )
                break


def _named(stored: Stored | None) -> str:
    if stored is None:
        return "gone"
    return f"{stored.label} (offset {stored.offset}, term {stored.leader_epoch})"


def _check_order(fetched: Fetched, *, is_compacted: bool) -> Iterator[str]:
    offsets = [stored.offset for stored in fetched.records]
    if offsets and offsets[0] != fetched.from_offset and not is_compacted:
        yield f"a fetch of {fetched.partition} from {fetched.from_offset} began at {offsets[0]}"
    steps = [later - earlier for earlier, later in pairwise(offsets)]
    if any(step < 1 for step in steps):
        yield f"a fetch of {fetched.partition} from {fetched.from_offset} goes back"
    if any(step > 1 for step in steps) and not is_compacted:
        yield f"a fetch of {fetched.partition} from {fetched.from_offset} has gaps"
    if offsets and offsets[-1] >= fetched.high_watermark:
        yield (
            f"a fetch of {fetched.partition} shows offset {offsets[-1]}, which is not below the "
            f"high watermark {fetched.high_watermark}"
        )


def _check_ends(history: History) -> Iterator[str]:
    """An end that was told, or an acknowledged record, is in every answer asked for later."""
    ends: dict[TopicPartition, list[tuple[Span, int]]] = defaultdict(list)
    for fetched in history.all(Fetched):
        ends[fetched.partition].append((fetched.span, fetched.high_watermark))
    for seen in history.all(EndSeen):
        ends[seen.partition].append((seen.span, seen.end_offset))
    known: dict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    for partition, told in ends.items():
        known[partition] += [(span.ended_s, end) for span, end in told]
    for acknowledged in history.all(Acknowledged):
        if acknowledged.acks == ACKS_ALL:
            end = acknowledged.base_offset + len(acknowledged.labels)
            known[acknowledged.partition].append((acknowledged.span.ended_s, end))
    if may_fetch_what_is_old(history):
        ends.clear()
        for seen in history.all(EndSeen):
            ends[seen.partition].append((seen.span, seen.end_offset))
    for partition, told in ends.items():
        rising = Rising(known[partition])
        for span, end in told:
            least = rising.before(span.began_s)
            if least is not None and end < least:
                yield (
                    f"{partition} was said to end at {end} at {span.ended_s:.3f} s, though "
                    f"{least} was known before"
                )
