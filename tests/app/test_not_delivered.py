"""What it means that the work of a cycle was not taken."""

import pytest

from semel.app.delivery import Meaning, NotDelivered
from semel.client.cluster.metadata import TopicGone, TopicRemade
from semel.client.consuming.refusals import CommitFailed
from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown
from semel.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    IllegalGeneration,
    MessageTooLarge,
    NetworkException,
    ProducerFenced,
    RequestError,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)


def because(failure: Exception, refusal: RequestError) -> Exception:
    failure.__cause__ = refusal
    return failure


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        (because(MustAbort(), IllegalGeneration()), Meaning.AGAIN),
        (because(MustAbort(), UnknownMemberId()), Meaning.AGAIN),
        (because(MustAbort(), TopicRemade("out")), Meaning.AGAIN),
        (because(MustAbort(), UnknownTopicOrPartition("out")), Meaning.RECORDS),
        (because(MustAbort(), TopicGone("in")), Meaning.AGAIN),
        (TopicGone("in"), Meaning.AGAIN),
        (TopicRemade("in"), Meaning.AGAIN),
        (because(MustAbort(), MessageTooLarge()), Meaning.RECORDS),
        (because(MustAbort(), TopicAuthorizationFailed()), Meaning.RECORDS),
        (because(MustStop(), ProducerFenced()), Meaning.AGAIN),
        (because(MustStop(), ClusterAuthorizationFailed()), Meaning.FINAL),
        (because(MustStop(), UnsupportedVersion()), Meaning.FINAL),
        (because(MustAbort(), GroupAuthorizationFailed()), Meaning.FINAL),
        (because(OutcomeUnknown(), NetworkException()), Meaning.AGAIN),
        (MessageTooLarge(), Meaning.RECORDS),
        (NetworkException(), Meaning.AGAIN),
        (CoordinatorNotAvailable(), Meaning.AGAIN),
        (GroupAuthorizationFailed(), Meaning.FINAL),
        (CommitFailed(), Meaning.AGAIN),
    ],
)
def test_each_refusal_means_one_of_three_things(reason: Exception, meaning: Meaning) -> None:
    assert NotDelivered(reason).meaning is meaning
