"""What topics with limits must hold still, and what must be gone of them.

by age     nothing goes before its time, nothing stays for long after it
by size    what is left is no less than what was to be kept
stable     nothing of a transaction goes while it is open
compacted  of each key the newest committed record is there, or what deleted the key long ago;
           no older one comes back
room       the disk holds little more than what can be shown

What went wrong with the clock of the machine is counted in the broker's favour.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from semel.types import TopicPartition
from semel.verify.checks.logs import ACKS_ALL, Rising
from semel.verify.checks.rest import compacted_topics
from semel.verify.checks.transactions import truth_of
from semel.verify.history import (
    ABORT_MARKER,
    COMMIT_MARKER,
    Acknowledged,
    ClockSet,
    CommitSent,
    CommittedFetched,
    Ended,
    Fetched,
    History,
    Limits,
    MayBeGone,
    Outcome,
    RecordMade,
    Resurrected,
    SpaceSeen,
    StartSeen,
    Stored,
    WholeLog,
    WriteAcknowledged,
    Written,
)
from semel.verify.world.loop import START_MS

BATCH_RECORDS_MAX = 5
DUE_MS = 4_000
"""After so long at rest what is too old must be gone."""
DISK_BYTES_MIN = 1_500_000
"""Files that are there whatever lives: the open segment and the next, some that are full and not
worth settling yet, checkpoints."""
DISK_SHARE = 1
"""Of what can be shown. Volumes may hold twice of it; what the open segments hold is shown too."""
MARKERS = (COMMIT_MARKER, ABORT_MARKER)


def check_forgetting(history: History) -> Iterator[str]:
    limits = {each.topic: each for each in history.all(Limits)}
    if not limits:
        return
    made = {each.label: each for each in history.all(RecordMade)}
    clock = Clock(history)
    known = _known_offsets(history)
    yield from _check_ages(history, limits, made, clock, known)
    yield from _check_expired(history, limits, made, clock)
    yield from _check_sizes(history, limits)
    yield from _check_starts(history)
    yield from _check_open(history)
    yield from _check_keys(history, limits, made, clock, known)
    yield from _check_room(history)
    for resurrected in history.all(Resurrected):
        yield f"there was {resurrected.what}"


class Clock:
    """The earliest and the latest time that the broker can have believed in."""

    def __init__(self, history: History) -> None:
        errors = [(each.at_s, each.error_ms) for each in history.all(ClockSet)]
        self._times_s = [at_s for at_s, _ in errors]
        self._errors_ms = [error_ms for _, error_ms in errors]

    def latest_ms(self, at_s: float) -> int:
        until = bisect_right(self._times_s, at_s)
        return START_MS + int(at_s * 1000) + max(self._errors_ms[:until], default=0)

    def earliest_ms(self, at_s: float) -> int:
        until = bisect_right(self._times_s, at_s)
        return START_MS + int(at_s * 1000) + min(self._errors_ms[:until], default=0)


class Known(NamedTuple):
    """A record that is committed for good, as clients were told."""

    offset: int
    label: str


def _known_offsets(history: History) -> dict[TopicPartition, list[Known]]:
    known: dict[TopicPartition, list[Known]] = defaultdict(list)
    for told in history.all(Acknowledged):
        if told.acks != ACKS_ALL:
            continue
        for offset, label in enumerate(told.labels, told.base_offset):
            known[told.partition].append(Known(offset, label))
    for fetched in history.all(CommittedFetched):
        known[fetched.partition] += [Known(each.offset, each.label) for each in fetched.records]
    committed = {
        ended.attempt for ended in history.all(Ended) if ended.outcome is Outcome.COMMITTED
    }
    labels_of: dict[str, str] = {
        label: written.attempt for written in history.all(Written) for label in written.labels
    }
    for shown in history.all(Fetched):
        known[shown.partition] += [
            Known(each.offset, each.label)
            for each in shown.records
            if labels_of.get(each.label) in committed
        ]
    for partition, record in _acknowledged_in_transactions(history, committed):
        known[partition].append(record)
    return known


def _acknowledged_in_transactions(
    history: History, committed: set[str]
) -> Iterator[tuple[TopicPartition, Known]]:
    """Batches of an attempt are acknowledged in the order in which they were written."""
    unacknowledged: dict[tuple[str, TopicPartition], list[tuple[str, ...]]] = defaultdict(list)
    for written in history.all(Written):
        unacknowledged[written.attempt, written.partition].append(written.labels)
    for told in history.all(WriteAcknowledged):
        batches = unacknowledged[told.attempt, told.partition]
        if told.attempt not in committed or not batches:
            continue
        labels = batches.pop(0)
        if len(labels) == told.record_count:
            for offset, label in enumerate(labels, told.base_offset):
                yield told.partition, Known(offset, label)


# By age and size


def _check_ages(
    history: History,
    limits: dict[str, Limits],
    made: dict[str, RecordMade],
    clock: Clock,
    known: dict[TopicPartition, list[Known]],
) -> Iterator[str]:
    """Whatever says where a log begins says that what is before it was old enough."""
    compacted = compacted_topics(history)
    starts: dict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    for seen in history.all(StartSeen):
        starts[seen.partition].append((seen.span.ended_s, seen.log_start_offset))
    for whole in history.all(WholeLog):
        starts[whole.partition].append((whole.at_s, whole.log_start_offset))
    for partition, told in starts.items():
        limit = limits.get(partition.topic)
        if limit is None or limit.retention_ms is None or limit.retention_bytes is not None:
            continue
        first_seen_s: list[tuple[int, float]] = []
        for at_s, start in sorted(told):
            if not first_seen_s or start > first_seen_s[-1][0]:
                first_seen_s.append((start, at_s))
        judged = set(known[partition])
        if partition.topic in compacted:
            # One that was replaced may have gone before, and one that deletes its key by itself.
            judged = _unreplaced(partition, judged, made)
        for record in judged:
            place = bisect_right(first_seen_s, (record.offset, float("inf")))
            if record.label not in made or place == len(first_seen_s):
                continue
            gone_s = first_seen_s[place][1]
            left_ms = made[record.label].timestamp_ms + limit.retention_ms - clock.latest_ms(gone_s)
            if left_ms > 0:
                yield (
                    f"{record.label} at {record.offset} of {partition} was gone at {gone_s:.3f} s, "
                    f"{left_ms} ms before its time"
                )


def _unreplaced(
    partition: TopicPartition, known: set[Known], made: dict[str, RecordMade]
) -> set[Known]:
    """Those with a value behind which no other record of their key can stand."""
    offset_of = {record.label: record.offset for record in known}
    last: dict[str, float] = {}
    for each in made.values():
        if each.partition == partition and each.key is not None:
            offset = offset_of.get(each.label, float("inf"))
            last[each.key] = max(offset, last.get(each.key, -1))
    found = set()
    for record in known:
        content = made.get(record.label)
        if content is None or content.key is None or not content.has_value:
            continue
        if last[content.key] == record.offset:
            found.add(record)
    return found


def _check_expired(
    history: History, limits: dict[str, Limits], made: dict[str, RecordMade], clock: Clock
) -> Iterator[str]:
    compacted = compacted_topics(history)
    for whole in history.all(WholeLog):
        limit = limits.get(whole.partition.topic)
        if limit is None or limit.retention_ms is None or whole.partition.topic in compacted:
            continue
        # The first batch is among these, and one that is young enough in it keeps all of it.
        first = whole.records[:BATCH_RECORDS_MAX]
        if not first or any(stored.label not in made for stored in first):
            continue
        youngest_ms = max(made[stored.label].timestamp_ms for stored in first)
        over_ms = clock.earliest_ms(whole.at_s) - limit.retention_ms - youngest_ms
        if over_ms > DUE_MS:
            yield (
                f"{first[0].label} at {first[0].offset} of {whole.partition} is there at "
                f"{whole.at_s:.3f} s, {over_ms} ms after its time"
            )


def _check_sizes(history: History, limits: dict[str, Limits]) -> Iterator[str]:
    for whole in history.all(WholeLog):
        limit = limits.get(whole.partition.topic)
        if limit is None or limit.retention_bytes is None or limit.retention_ms is not None:
            continue
        kept_bytes = limit.retention_bytes
        if whole.log_start_offset and whole.byte_count < kept_bytes:
            yield f"{whole.partition} was cut to {whole.byte_count} of {kept_bytes} bytes"


def _check_starts(history: History) -> Iterator[str]:
    starts: dict[TopicPartition, list[StartSeen]] = defaultdict(list)
    for seen in history.all(StartSeen):
        starts[seen.partition].append(seen)
    for partition, told in starts.items():
        rising = Rising([(each.span.ended_s, each.log_start_offset) for each in told])
        for seen in told:
            least = rising.before(seen.span.began_s)
            if least is not None and seen.log_start_offset < least:
                yield (
                    f"{partition} was said to begin at {seen.log_start_offset} at "
                    f"{seen.span.ended_s:.3f} s, though it had begun at {least}"
                )


def _check_open(history: History) -> Iterator[str]:
    """One that was committed in the end was open, and had all its records, until it asked for it;
    unless someone had them deleted."""
    committed = {
        ended.attempt for ended in history.all(Ended) if ended.outcome is Outcome.COMMITTED
    }
    sent_s = {sent.attempt: sent.at_s for sent in history.all(CommitSent)}
    trimmed = {each.partition for each in history.all(MayBeGone)}
    starts: dict[TopicPartition, list[StartSeen]] = defaultdict(list)
    for seen in history.all(StartSeen):
        starts[seen.partition].append(seen)
    for told in history.all(WriteAcknowledged):
        if told.attempt not in committed or told.partition in trimmed:
            continue
        for seen in starts[told.partition]:
            is_while_open = (
                told.span.ended_s < seen.span.began_s and seen.span.ended_s < sent_s[told.attempt]
            )
            stable = max(seen.last_stable_offset, seen.log_start_offset)
            if is_while_open and stable > told.base_offset:
                yield (
                    f"{told.partition} began at {seen.log_start_offset} and was stable up to "
                    f"{seen.last_stable_offset} at {seen.span.ended_s:.3f} s, when {told.attempt} "
                    f"was open at {told.base_offset}"
                )
                break


# By key


def _check_keys(
    history: History,
    limits: dict[str, Limits],
    made: dict[str, RecordMade],
    clock: Clock,
    known: dict[TopicPartition, list[Known]],
) -> Iterator[str]:
    compacted = compacted_topics(history)
    deletions = _possible_deletions(history, made)
    for whole in history.all(WholeLog):
        partition = whole.partition
        if partition.topic not in compacted:
            continue
        limit = limits[partition.topic]
        newest = _newest_by_key(whole.records, made)
        wanted: dict[str, Known] = {}
        for record in known[partition]:
            key = made[record.label].key if record.label in made else None
            if key is not None and record.offset >= whole.log_start_offset:
                wanted[key] = max(record, wanted.get(key, record))
        for key, record in sorted(wanted.items()):
            found = newest.get(key)
            if found is not None and found.offset >= record.offset:
                continue
            if found is not None:
                yield (
                    f"{key} of {partition} is {found.label} (offset {found.offset}) again, "
                    f"though {record.label} was committed at {record.offset}"
                )
            elif not any(
                clock.latest_ms(whole.at_s) - sent_ms >= limit.delete_retention_ms
                for label, sent_ms in deletions[partition, key]
                if _may_follow(label, record, known[partition])
            ):
                yield (
                    f"{key} of {partition} is gone, though {record.label} was committed at "
                    f"{record.offset}"
                )


def _newest_by_key(records: tuple[Stored, ...], made: dict[str, RecordMade]) -> dict[str, Stored]:
    newest: dict[str, Stored] = {}
    for stored in truth_of(records).committed:
        key = made[stored.label].key if stored.label in made else None
        if key is not None:
            newest[key] = stored
    return newest


def _possible_deletions(
    history: History, made: dict[str, RecordMade]
) -> dict[tuple[TopicPartition, str], list[tuple[str, int]]]:
    """Records without a value that may have been committed, and when they were sent at the
    earliest."""
    uncommitted = {written.attempt for written in history.all(Written)}
    uncommitted -= {sent.attempt for sent in history.all(CommitSent)}
    uncommitted |= {
        ended.attempt for ended in history.all(Ended) if ended.outcome is Outcome.ABORTED
    }
    never = {
        label
        for written in history.all(Written)
        if written.attempt in uncommitted
        for label in written.labels
    }
    found: dict[tuple[TopicPartition, str], list[tuple[str, int]]] = defaultdict(list)
    for record in made.values():
        if record.key is not None and not record.has_value and record.label not in never:
            found[record.partition, record.key].append((record.label, record.timestamp_ms))
    return found


def _may_follow(label: str, record: Known, known: list[Known]) -> bool:
    """Whether it may stand at this offset or behind it."""
    offsets = [each.offset for each in known if each.label == label]
    return not offsets or max(offsets) >= record.offset


# Room


def _check_room(history: History) -> Iterator[str]:
    for seen in history.all(SpaceSeen):
        most = DISK_BYTES_MIN + DISK_SHARE * seen.shown_bytes
        if seen.disk_bytes > most:
            yield (
                f"the disk holds {seen.disk_bytes} bytes in round {seen.round}, of which "
                f"{seen.shown_bytes} can be shown"
            )
