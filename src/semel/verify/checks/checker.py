"""The oracle: holds a history against the promises and names every anomaly it finds.

It knows nothing of the broker but what clients were told, and never calls its code.
"""

from collections.abc import Callable, Iterator

from semel.types import TopicPartition
from semel.verify.checks.forgetting import check_forgetting
from semel.verify.checks.groups import check_groups
from semel.verify.checks.logs import Rising, check_logs, check_readers
from semel.verify.checks.transactions import check_copiers, check_transactions
from semel.verify.history import (
    Cause,
    Complaint,
    Deleted,
    DeletionTried,
    Died,
    EpochSeen,
    Forbidden,
    History,
    NotServing,
    OpenFailed,
    ProducerIdGiven,
    TopicMade,
    TopicSeen,
)


def anomalies(history: History) -> list[str]:
    return [found for check in CHECKS for found in check(history)]


def check_life(history: History) -> Iterator[str]:
    """The broker ends only when it is made to, starts again, and serves at the end."""
    for failed in history.all(OpenFailed):
        yield f"the broker could not open its journal: {failed.reason}"
    for died in history.all(Died):
        if died.cause is Cause.CRASHED:
            yield f"the broker ended by itself at {died.at_s:.3f} s: {died.reason}"
    for complaint in history.all(Complaint):
        yield f"an exception was left to the loop: {complaint.reason}"
    for refusal in history.all(NotServing):
        yield f"not serving at the end: {refusal.reason}"


def check_leaders(history: History) -> Iterator[str]:
    """Whoever says that it leads has no lower leader epoch than one who said so before."""
    seen: dict[TopicPartition, list[EpochSeen]] = {}
    for told in history.all(EpochSeen):
        seen.setdefault(told.partition, []).append(told)
    for partition, all_told in seen.items():
        rising = Rising([(each.span.ended_s, each.leader_epoch) for each in all_told])
        for told in all_told:
            least = rising.before(told.span.began_s)
            if least is not None and told.leader_epoch < least:
                yield (
                    f"the leader epoch of {partition} fell from {least} to {told.leader_epoch}, "
                    f"by node {told.node_id} at {told.span.ended_s:.3f} s"
                )


def check_rights(history: History) -> Iterator[str]:
    for forbidden in history.all(Forbidden):
        yield f"it was not refused: {forbidden.what}"


def check_producer_ids(history: History) -> Iterator[str]:
    owners: dict[int, str] = {}
    for given in history.all(ProducerIdGiven):
        if given.producer_id in owners:
            yield (
                f"producer id {given.producer_id} was given to {owners[given.producer_id]} "
                f"and to {given.producer}"
            )
        owners[given.producer_id] = given.producer


def check_topics(history: History) -> Iterator[str]:
    """One that was made is there until someone tries to delete it."""
    made: dict[str, list[TopicMade | TopicSeen]] = {}
    for topic_made in history.all(TopicMade):
        made.setdefault(topic_made.topic, []).append(topic_made)
    for seen in history.all(TopicSeen):
        made.setdefault(seen.topic, []).append(seen)
    deletion_tried_s = {tried.topic: tried.began_s for tried in history.all(DeletionTried)}
    deleted_s = {deleted.topic: deleted.span.ended_s for deleted in history.all(Deleted)}
    for seen in history.all(TopicSeen):
        least = max(
            (
                each.partition_count
                for each in made.get(seen.topic, ())
                if each.span.ended_s < seen.span.began_s
            ),
            default=0,
        )
        if deletion_tried_s.get(seen.topic, float("inf")) > seen.span.ended_s:
            if seen.partition_count < least:
                yield (
                    f"topic {seen.topic} was made with {least} partitions and has "
                    f"{seen.partition_count} at {seen.span.ended_s:.3f} s"
                )
        elif seen.partition_count and deleted_s.get(seen.topic, float("inf")) < seen.span.began_s:
            yield f"topic {seen.topic} was deleted and is there at {seen.span.ended_s:.3f} s"


CHECKS: tuple[Callable[[History], Iterator[str]], ...] = (
    check_life,
    check_leaders,
    check_rights,
    check_producer_ids,
    check_logs,
    check_readers,
    check_groups,
    check_topics,
    check_transactions,
    check_copiers,
    check_forgetting,
)
