"""What groups promise: one owner of a partition in a generation, and offsets that never go back.

And that whoever shows life is not expelled.
"""

from collections import defaultdict
from collections.abc import Iterator

from semel.types import TopicPartition
from semel.verify.checks.logs import Rising
from semel.verify.checks.rest import may_be_led_apart
from semel.verify.history import (
    Assigned,
    Beaten,
    Committed,
    CommitTried,
    Expelled,
    History,
    Joined,
    OffsetSeen,
)

NEVER_COMMITTED = -1


def check_groups(history: History) -> Iterator[str]:
    yield from _check_members(history)
    yield from _check_owners(history)
    yield from _check_generations(history)
    yield from _check_offsets(history)


def _check_members(history: History) -> Iterator[str]:
    heard = {beaten.member: beaten for beaten in history.all(Beaten)}
    for expelled in history.all(Expelled):
        last = heard.get(expelled.member)
        if last is not None and expelled.span.ended_s < last.span.began_s + last.kept_s:
            yield (
                f"{expelled.member} was expelled at {expelled.span.ended_s:.3f} s, though it was "
                f"heard after {last.span.began_s:.3f} s"
            )


def _check_owners(history: History) -> Iterator[str]:
    owners: dict[tuple[str, int, TopicPartition], str] = {}
    for assigned in history.all(Assigned):
        for partition in assigned.partitions:
            key = (assigned.group, assigned.generation, partition)
            owner = owners.setdefault(key, assigned.owner)
            if owner != assigned.owner:
                yield (
                    f"{partition} belongs to {owner} and to {assigned.owner} in generation "
                    f"{assigned.generation} of {assigned.group}"
                )


def _check_generations(history: History) -> Iterator[str]:
    """A generation that someone took part in has no successor with a lower number."""
    known: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for assigned in history.all(Assigned):
        known[assigned.group].append((assigned.span.ended_s, assigned.generation))
    rising = {group: Rising(generations) for group, generations in known.items()}
    told = [(each.group, each.span, each.generation) for each in history.all(Assigned)]
    told += [(each.group, each.span, each.generation) for each in history.all(Joined)]
    for group, span, generation in told:
        least = rising[group].before(span.began_s) if group in rising else None
        if least is not None and generation < least:
            yield f"{group} went back from generation {least} to {generation}"


def _check_offsets(history: History) -> Iterator[str]:
    shown: dict[tuple[str, TopicPartition], list[tuple[float, int]]] = defaultdict(list)
    for seen in history.all(OffsetSeen):
        shown[seen.group, seen.partition].append((seen.span.ended_s, seen.offset))
    known = defaultdict(list, {key: list(offsets) for key, offsets in shown.items()})
    for committed in history.all(Committed):
        known[committed.group, committed.partition].append(
            (committed.span.ended_s, committed.offset)
        )
    tried: dict[tuple[str, TopicPartition], set[int]] = defaultdict(lambda: {NEVER_COMMITTED})
    for attempt in history.all(CommitTried):
        tried[attempt.group, attempt.partition].add(attempt.offset)
    rising = {key: Rising(offsets) for key, offsets in known.items()}
    rising_shown = {key: Rising(offsets) for key, offsets in shown.items()}
    is_apart = may_be_led_apart(history)
    for seen in history.all(OffsetSeen):
        key = (seen.group, seen.partition)
        # Over lanes it may be pending yet when its producer has heard that it is committed.
        its = rising_shown if is_apart and not seen.is_stable else rising
        least = its[key].before(seen.span.began_s)
        if least is not None and seen.offset < least:
            yield (
                f"{seen.group} had {least} committed for {seen.partition}, and {seen.offset} "
                f"at {seen.span.ended_s:.3f} s"
            )
        if seen.offset not in tried[key]:
            yield f"{seen.group} has {seen.offset} for {seen.partition}, which no one committed"
