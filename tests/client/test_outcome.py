"""Every refusal is of one of three kinds."""

import pytest

from semel import errors
from semel.client import outcome
from semel.client.outcome import ErrorKind


def test_every_error_is_of_one_kind() -> None:
    assert set(outcome.TABLE) == set(errors.BY_CODE.values())


@pytest.mark.parametrize(
    ("error", "from_leader", "from_coordinator"),
    [
        (errors.NotLeaderOrFollower, ErrorKind.RETRY, ErrorKind.RETRY),
        (errors.ConcurrentTransactions, ErrorKind.RETRY, ErrorKind.RETRY),
        (errors.CoordinatorLoadInProgress, ErrorKind.RETRY, ErrorKind.RETRY),
        (errors.NetworkException, ErrorKind.RETRY, ErrorKind.RETRY),
        (errors.TransactionAbortable, ErrorKind.ABORT, ErrorKind.ABORT),
        (errors.UnknownProducerId, ErrorKind.ABORT, ErrorKind.ABORT),
        (errors.OutOfOrderSequence, ErrorKind.ABORT, ErrorKind.ABORT),
        (errors.IllegalGeneration, ErrorKind.ABORT, ErrorKind.ABORT),
        (errors.MessageTooLarge, ErrorKind.ABORT, ErrorKind.ABORT),
        (errors.InvalidProducerEpoch, ErrorKind.ABORT, ErrorKind.FATAL),
        (errors.ProducerFenced, ErrorKind.FATAL, ErrorKind.FATAL),
        (errors.InvalidTransactionState, ErrorKind.FATAL, ErrorKind.FATAL),
        (errors.SaslAuthenticationFailed, ErrorKind.FATAL, ErrorKind.FATAL),
        (errors.UnsupportedVersion, ErrorKind.FATAL, ErrorKind.FATAL),
    ],
)
def test_the_kinds_of_errors_that_producers_meet(
    error: type[errors.RequestError], from_leader: ErrorKind, from_coordinator: ErrorKind
) -> None:
    assert outcome.kind_from_leader(error("")) is from_leader
    assert outcome.kind_from_coordinator(error("")) is from_coordinator
