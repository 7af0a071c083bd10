"""Which trace in a partition is of which transaction.

Under TV2 every transaction ends under an epoch of its own. Under TV1 many share one, and the time
of the marker tells: the first one not before the decision, since the next transaction cannot be
decided before this one is marked.
"""

from collections.abc import Iterable, Mapping, Sequence

from semel.cli.story import Story
from semel.client.admin.transaction_history import TransactionTrace
from semel.types import TopicPartition

_SKEW_MS = 5_000
"""How far the clocks of two brokers may lie apart."""


def with_traces(
    stories: Sequence[Story], traces: Mapping[TopicPartition, Sequence[TransactionTrace]]
) -> list[Story]:
    matched: list[dict[TopicPartition, TransactionTrace]] = [{} for _ in stories]
    for place, left in traces.items():
        for number, trace in _matches(stories, place, left):
            matched[number][place] = trace
    return [story._replace(traces=found) for story, found in zip(stories, matched, strict=True)]


def _matches(
    stories: Sequence[Story], place: TopicPartition, traces: Sequence[TransactionTrace]
) -> Iterable[tuple[int, TransactionTrace]]:
    waiting = {number: story for number, story in enumerate(stories) if place in story.partitions}
    left = list(enumerate(traces))
    for is_marked_in_time in (_is_marked_behind, _is_marked_about):
        bound = len(traces)
        for number in sorted(waiting, reverse=True):
            story = waiting[number]
            fits = [
                (position, trace)
                for position, trace in left
                if position < bound and _is_of(story, trace) and is_marked_in_time(story, trace)
            ]
            if fits:
                found = min(fits, key=lambda fit: (_lag_ms(story, fit[1]), -fit[0]))
                left.remove(found)
                bound = found[0]
                del waiting[number]
                yield number, found[1]


def _is_of(story: Story, trace: TransactionTrace) -> bool:
    ended = story.ended
    if ended is None or trace.marker is None:
        same_kind = ended is None and trace.marker is None
        return same_kind and trace.producer_id == story.values[-1].value.producer_id
    return (trace.producer_id, trace.marker.producer_epoch) == (
        ended.value.producer_id,
        ended.value.producer_epoch,
    )


def _marked_at_ms(trace: TransactionTrace) -> int:
    return trace.marker.timestamp_ms if trace.marker else 0


def _lag_ms(story: Story, trace: TransactionTrace) -> int:
    """From the decision to the marker."""
    return abs(_marked_at_ms(trace) - story.ended.written_at_ms) if story.ended else 0


def _is_marked_behind(story: Story, trace: TransactionTrace) -> bool:
    return story.ended is None or _marked_at_ms(trace) >= story.ended.written_at_ms


def _is_marked_about(story: Story, trace: TransactionTrace) -> bool:
    return _lag_ms(story, trace) <= _SKEW_MS
