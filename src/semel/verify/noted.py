"""A simulated history as the operations that clients of any cluster could have noted."""

from collections import defaultdict
from collections.abc import Iterator

from semel.types import TopicPartition
from semel.verify.checks.logs import losses_of
from semel.verify.checks.rest import may_be_led_apart
from semel.verify.checks.transactions import truth_of
from semel.verify.history import (
    ABORT_MARKER,
    COMMIT_MARKER,
    Acknowledged,
    Began,
    CommitSent,
    Committed,
    CommittedFetched,
    Ended,
    EndSeen,
    EpochGiven,
    EpochSeen,
    Fetched,
    History,
    OffsetSeen,
    OffsetsWritten,
    Outcome,
    Sent,
    Span,
    StableEndSeen,
    Stored,
    TopicGone,
    WholeLog,
    WriteAcknowledged,
    Written,
)
from semel.verify.judging import operations as ops
from semel.verify.judging.operations import Known, Seen, Times

NEVER = Span(0.0, 0.0)
"""Of what was not answered it is not noted when it was sent: no earlier than what was before."""
MARKERS = (COMMIT_MARKER, ABORT_MARKER)


def operations_of(history: History) -> list[ops.Any]:
    return [
        *_sends(history),
        *_sends_in_transactions(history),
        *_ends(history),
        *_polls(history),
        *_answers(history),
        *_rest(history),
    ]


def _sends(history: History) -> Iterator[ops.Any]:
    may_be_lost = losses_of(history)
    told: dict[str, tuple[Span, int]] = {}
    for each in history.all(Acknowledged):
        if may_be_lost(each):
            continue
        for offset, label in enumerate(each.labels, each.base_offset):
            told[label] = (each.span, offset)
    since: dict[str, Span] = {}
    for sent in history.all(Sent):
        for label in sent.labels:
            answer = told.get(label)
            span = since.setdefault(sent.producer, NEVER)
            if answer is not None:
                span = since[sent.producer] = _later(span, answer[0])
            yield ops.Send(
                Times(*span),
                sent.producer,
                sent.partition,
                label,
                Known.UNKNOWN if answer is None else Known.OK,
                None if answer is None else answer[1],
            )


def _later(before: Span, answered: Span) -> Span:
    """Of what was sent behind another: the request that was answered may be one sent again."""
    return Span(max(before.began_s, answered.began_s), max(before.ended_s, answered.ended_s))


def _sends_in_transactions(history: History) -> Iterator[ops.Any]:
    """Batches of an attempt are acknowledged in the order in which they were written."""
    gone = {each.topic for each in history.all(TopicGone)}
    incarnation_of = {began.attempt: began.incarnation for began in history.all(Began)}
    acknowledged: dict[tuple[str, TopicPartition], list[WriteAcknowledged]] = defaultdict(list)
    for told in history.all(WriteAcknowledged):
        acknowledged[told.attempt, told.partition].append(told)
    since: dict[str, Span] = {}
    for written in history.all(Written):
        process = incarnation_of[written.attempt]
        if written.partition.topic in gone:
            continue
        answers = acknowledged[written.attempt, written.partition]
        answer = answers.pop(0) if answers else None
        span = since.setdefault(process, NEVER)
        if answer is not None:
            span = since[process] = _later(span, answer.span)
        for place, label in enumerate(written.labels):
            yield ops.Send(
                Times(*span),
                process,
                written.partition,
                label,
                Known.UNKNOWN if answer is None else Known.OK,
                None if answer is None else answer.base_offset + place,
                written.attempt,
            )


def _ends(history: History) -> Iterator[ops.Any]:
    process_of = {began.attempt: began.incarnation for began in history.all(Began)}
    asked = {sent.attempt for sent in history.all(CommitSent)}
    ended = {each.attempt: each for each in history.all(Ended)}
    for attempt, process in process_of.items():
        end = ended.get(attempt)
        if end is not None:
            is_commit = end.outcome is Outcome.COMMITTED
            yield ops.End(Times(*end.span), process, attempt, Known.OK, is_commit)
        elif attempt in asked:
            yield ops.End(Times(*NEVER), process, attempt, Known.UNKNOWN)
        else:
            yield ops.End(Times(*NEVER), process, attempt, Known.FAILED)
    for given in history.all(EpochGiven):
        if given.is_new_incarnation:
            yield ops.Init(Times(*given.span), given.incarnation, given.transactional_id)
    for written in history.all(OffsetsWritten):
        yield ops.Inputs(
            written.attempt, written.group, written.partition, written.offset, written.inputs
        )


def _polls(history: History) -> Iterator[ops.Any]:
    """Readers go back when they connect anew."""
    next_offsets: dict[tuple[str, TopicPartition], int] = {}

    def poll(each: Fetched | CommittedFetched, next_offset: int) -> ops.Poll:
        key = (each.reader, each.partition)
        has_moved = next_offsets.get(key) != each.from_offset
        next_offsets[key] = next_offset
        is_committed = isinstance(each, CommittedFetched)
        return ops.Poll(
            Times(*each.span),
            each.reader,
            each.partition,
            _seen(each.records),
            is_committed,
            has_moved,
        )

    for fetched in history.all(Fetched):
        last = fetched.records[-1].offset + 1 if fetched.records else fetched.from_offset
        yield poll(fetched, last)
    for committed in history.all(CommittedFetched):
        yield poll(committed, committed.next_offset)


def _seen(records: tuple[Stored, ...]) -> tuple[Seen, ...]:
    return tuple(Seen(each.offset, each.label) for each in records if each.label not in MARKERS)


def _answers(history: History) -> Iterator[ops.Any]:
    # Over lanes it is known at once only to those who ask whether anything is pending.
    is_apart = may_be_led_apart(history)
    for commit in history.all(Committed):
        yield ops.Commit(Times(*commit.span), commit.group, commit.partition, commit.offset)
    for seen in history.all(OffsetSeen):
        if is_apart and not seen.is_stable:
            continue
        yield ops.OffsetRead(Times(*seen.span), seen.group, seen.partition, seen.offset)
    for end in history.all(EndSeen):
        yield ops.EndRead(Times(*end.span), end.partition, end.end_offset)
    for stable in history.all(StableEndSeen):
        yield ops.EndRead(Times(*stable.span), stable.partition, stable.end_offset, is_stable=True)
    for epoch in history.all(EpochSeen):
        yield ops.EpochRead(
            Times(*epoch.span), epoch.partition, epoch.leader_epoch, str(epoch.node_id)
        )


def _rest(history: History) -> Iterator[ops.Any]:
    for whole in history.all(WholeLog):
        if whole.round == 0:
            end = whole.high_watermark
            stable = end if whole.last_stable_offset is None else whole.last_stable_offset
            yield ops.AtRest(
                whole.partition,
                _seen(truth_of(whole.records).committed),
                end,
                stable,
                whole.log_start_offset,
            )
