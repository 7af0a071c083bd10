"""The same refusal in the words of each request version."""

import pytest

from semel.errors import (
    BY_CODE,
    ConcurrentTransactions,
    InvalidTransactionState,
    ProducerFenced,
    RequestError,
    TransactionAbortable,
)
from semel.transactions.dialect import Dialect, as_version, dialect_of

PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSET_COMMIT = 0, 22, 24, 25, 26, 28
VERSION_MAX = {PRODUCE: 12, INIT: 5, ADD_PARTITIONS: 5, ADD_OFFSETS: 4, END: 5, OFFSET_COMMIT: 5}


@pytest.mark.parametrize(
    ("api_key", "last_tv1"),
    [(PRODUCE, 11), (ADD_PARTITIONS, 3), (END, 4), (OFFSET_COMMIT, 4), (ADD_OFFSETS, 4)],
)
def test_the_dialect_is_that_of_the_request_version(api_key: int, last_tv1: int) -> None:
    for version in range(VERSION_MAX[api_key] + 1):
        expected = Dialect.TV1 if version <= last_tv1 else Dialect.TV2
        assert dialect_of(api_key, version) is expected


@pytest.mark.parametrize(
    ("api_key", "first_90"), [(INIT, 4), (END, 2), (ADD_PARTITIONS, 2), (ADD_OFFSETS, 2)]
)
def test_fenced_is_47_in_old_versions_of_the_coordinator_apis_and_90_in_new_ones(
    api_key: int, first_90: int
) -> None:
    for version in range(VERSION_MAX[api_key] + 1):
        expected = 90 if version >= first_90 else 47
        assert as_version(ProducerFenced("x"), api_key, version).code == expected


def test_a_log_says_47_to_a_stale_epoch_in_every_version() -> None:
    for api_key in (PRODUCE, OFFSET_COMMIT):
        for version in range(VERSION_MAX[api_key] + 1):
            assert as_version(ProducerFenced("x"), api_key, version).code == 47


@pytest.mark.parametrize("api_key", [PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSET_COMMIT])
def test_after_a_power_loss_tv1_is_told_59_and_tv2_120(api_key: int) -> None:
    for version in range(VERSION_MAX[api_key] + 1):
        expected = 59 if dialect_of(api_key, version) is Dialect.TV1 else 120
        assert as_version(TransactionAbortable("x"), api_key, version).code == expected


def test_a_produce_of_tv1_retries_what_it_does_not_know_as_concurrent() -> None:
    assert as_version(ConcurrentTransactions("x"), PRODUCE, 11).code == 19
    assert as_version(ConcurrentTransactions("x"), PRODUCE, 12).code == 51
    assert as_version(ConcurrentTransactions("x"), ADD_PARTITIONS, 0).code == 51


def test_the_words_are_kept_and_other_refusals_are_not_touched() -> None:
    assert str(as_version(ProducerFenced("epoch 3 is over"), END, 0)) == "epoch 3 is over"
    refusal: RequestError = InvalidTransactionState("x")
    for api_key, version_max in VERSION_MAX.items():
        for version in range(version_max + 1):
            assert as_version(refusal, api_key, version) is refusal


def test_nothing_is_ever_said_as_an_unknown_server_error() -> None:
    for error in BY_CODE.values():
        for api_key, version_max in VERSION_MAX.items():
            for version in range(version_max + 1):
                if error.code != -1:
                    assert as_version(error("x"), api_key, version).code != -1
