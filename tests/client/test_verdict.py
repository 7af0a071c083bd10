"""Every refusal is of one of three kinds."""

import pytest

from semel import errors
from semel.client import verdict
from semel.client.verdict import Kind


def test_every_error_has_a_verdict() -> None:
    assert set(verdict.TABLE) == set(errors.BY_CODE.values())


@pytest.mark.parametrize(
    ("error", "from_leader", "from_coordinator"),
    [
        (errors.NotLeaderOrFollower, Kind.RETRY, Kind.RETRY),
        (errors.ConcurrentTransactions, Kind.RETRY, Kind.RETRY),
        (errors.CoordinatorLoadInProgress, Kind.RETRY, Kind.RETRY),
        (errors.NetworkException, Kind.RETRY, Kind.RETRY),
        (errors.TransactionAbortable, Kind.ABORT, Kind.ABORT),
        (errors.UnknownProducerId, Kind.ABORT, Kind.ABORT),
        (errors.OutOfOrderSequence, Kind.ABORT, Kind.ABORT),
        (errors.IllegalGeneration, Kind.ABORT, Kind.ABORT),
        (errors.MessageTooLarge, Kind.ABORT, Kind.ABORT),
        (errors.InvalidProducerEpoch, Kind.ABORT, Kind.FATAL),
        (errors.ProducerFenced, Kind.FATAL, Kind.FATAL),
        (errors.InvalidTransactionState, Kind.FATAL, Kind.FATAL),
        (errors.SaslAuthenticationFailed, Kind.FATAL, Kind.FATAL),
        (errors.UnsupportedVersion, Kind.FATAL, Kind.FATAL),
    ],
)
def test_the_kinds_of_errors_that_producers_meet(
    error: type[errors.RequestError], from_leader: Kind, from_coordinator: Kind
) -> None:
    assert verdict.from_leader(error("")) is from_leader
    assert verdict.from_coordinator(error("")) is from_coordinator
