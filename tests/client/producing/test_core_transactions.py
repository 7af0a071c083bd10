"""The producer's core within transactions."""

import pytest

from client.producing.producer_core import (
    PLACE,
    PRODUCER,
    answer,
    drained,
    made,
    put,
)
from semel.client.outcome import MustAbort, MustStop
from semel.client.producing.core import ProducerCore
from semel.errors import (
    MessageTooLarge,
    NetworkException,
    NotInOrder,
    ProducerFenced,
)
from semel.types import ProducerIdAndEpoch


def transactional(*, is_implicit: bool) -> ProducerCore:
    core = made(transactional_id="id")
    assert core.transaction is not None
    core.transaction.initialised(is_implicit=is_implicit, can_renew_epoch=True)
    core.restart(PRODUCER)
    core.transaction.begin()
    return core


def test_a_partition_is_written_to_after_the_coordinator_knows_of_it() -> None:
    core = transactional(is_implicit=False)
    assert core.transaction is not None
    put(core)
    assert drained(core) == []
    assert core.transaction.joining == {PLACE}
    core.transaction.joined([PLACE])
    assert len(drained(core)) == 1
    assert not core.transaction.joining


def test_a_partition_joins_by_being_written_to_where_that_is_agreed() -> None:
    core = transactional(is_implicit=True)
    assert core.transaction is not None
    put(core)
    assert not core.transaction.joining
    assert len(drained(core)) == 1


def test_a_record_that_is_given_up_dooms_its_transaction_and_nothing_more_is_sent() -> None:
    core = transactional(is_implicit=True)
    assert core.transaction is not None
    put(core)
    (request,) = drained(core)
    unsent = put(core)
    answer(core, request, MessageTooLarge("no"))
    assert isinstance(unsent.error, MessageTooLarge)
    with pytest.raises(MustAbort):
        core.transaction.check_open()
    with pytest.raises(MustAbort):
        core.transaction.commit()
    core.transaction.abort()
    core.restart(ProducerIdAndEpoch(7, 1))
    core.transaction.ended()
    core.transaction.begin()
    following = put(core)
    drained(core)
    assert (following.producer, following.position) == (ProducerIdAndEpoch(7, 1), 0)


def test_a_fenced_producer_is_stopped_for_good() -> None:
    core = transactional(is_implicit=True)
    assert core.transaction is not None
    put(core)
    (request,) = drained(core)
    answer(core, request, ProducerFenced("newer"))
    for call in (core.transaction.check_open, core.transaction.abort, core.transaction.begin):
        with pytest.raises(MustStop):
            call()


def test_transactions_come_one_after_the_other() -> None:
    core = transactional(is_implicit=True)
    assert core.transaction is not None
    with pytest.raises(NotInOrder):
        core.transaction.begin()
    core.transaction.commit()
    core.transaction.ended()
    with pytest.raises(NotInOrder, match="begin a transaction first"):
        core.transaction.check_open()
    for call in (core.transaction.commit, core.transaction.abort):
        with pytest.raises(NotInOrder):
            call()


def test_a_commit_in_doubt_can_only_be_asked_for_again() -> None:
    core = transactional(is_implicit=True)
    assert core.transaction is not None
    core.transaction.commit()
    core.transaction.in_doubt(NetworkException("gone"))
    with pytest.raises(Exception, match="gone"):
        core.transaction.abort()
    core.transaction.commit()
    core.transaction.ended()
