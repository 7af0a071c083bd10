"""The oracle: holds a history against the promises and names every anomaly it finds.

It knows nothing of the broker but what clients were told, and never calls its code.
"""

from collections.abc import Callable, Iterator

from semel.verify.copier_checks import check_copiers
from semel.verify.group_checks import check_groups
from semel.verify.history import (
    Cause,
    Complaint,
    Died,
    Forbidden,
    History,
    NotServing,
    OpenFailed,
    ProducerIdGiven,
)
from semel.verify.log_checks import check_logs
from semel.verify.reader_checks import check_readers
from semel.verify.topic_checks import check_topics
from semel.verify.transaction_checks import check_transactions


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


CHECKS: tuple[Callable[[History], Iterator[str]], ...] = (
    check_life,
    check_rights,
    check_producer_ids,
    check_logs,
    check_readers,
    check_groups,
    check_topics,
    check_transactions,
    check_copiers,
)
