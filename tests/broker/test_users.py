"""Users are made, changed, shown and deleted by Kafka's own calls (KIP-554)."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from semel.testing import Broker
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from support.raw_client import RawClient

NONE, UNSUPPORTED_MECHANISM, NOT_FOUND, DUPLICATE, UNACCEPTABLE = 0, 33, 91, 92, 93
SALT, SALTED = b"salt", b"s" * 32


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


def altered(client: RawClient, *changes: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        [change for change in changes if isinstance(change, ScramCredentialDeletion)],
        [change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    results = client.call("alter_user_scram_credentials", 0, request).results
    assert all(bool(each.error_message) == bool(each.error_code) for each in results)
    return {each.user: each.error_code for each in results}


def described(client: RawClient, *names: str) -> dict[str, Any]:
    users = [UserName(name) for name in names] or None
    response = client.call(
        "describe_user_scram_credentials", 0, DescribeUserScramCredentialsRequest(users)
    )
    assert response.error_code == NONE
    return {
        each.user: each.error_code
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in response.results
    }


def test_librdkafka_makes_shows_and_deletes_a_user(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("ann", info, b"password")]
    )
    assert made["ann"].result() is None
    shown = admin.describe_user_scram_credentials(["ann"])["ann"].result()
    (found,) = shown.scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_256, 4096)
    gone = admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256)]
    )
    assert gone["ann"].result() is None


def test_users_are_described_by_name_or_all(client: RawClient) -> None:
    assert altered(
        client,
        ScramCredentialUpsertion("b1", 1, 4096, SALT, SALTED),
        ScramCredentialUpsertion("b2", 2, 16384, SALT, SALTED * 2),
        ScramCredentialUpsertion("b1", 2, 8192, SALT, SALTED * 2),
    ) == {"b1": NONE, "b2": NONE}
    assert described(client, "b2", "none") == {"b2": [(2, 16384)], "none": NOT_FOUND}
    assert described(client)["b1"] == [(1, 4096), (2, 8192)]
    assert described(client, "b1", "b1") == {"b1": DUPLICATE}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (ScramCredentialUpsertion("x", 1, 4095, SALT, SALTED), UNACCEPTABLE),
        (ScramCredentialUpsertion("x", 1, 16385, SALT, SALTED), UNACCEPTABLE),
        (ScramCredentialUpsertion("x", 1, 4096, b"", SALTED), UNACCEPTABLE),
        (ScramCredentialUpsertion("x", 1, 4096, SALT, b"short"), UNACCEPTABLE),
        (ScramCredentialUpsertion("", 1, 4096, SALT, SALTED), UNACCEPTABLE),
        (ScramCredentialUpsertion("x" * 1025, 1, 4096, SALT, SALTED), UNACCEPTABLE),
        (ScramCredentialUpsertion("x", 3, 4096, SALT, SALTED), UNSUPPORTED_MECHANISM),
        (ScramCredentialDeletion("x", 0), UNSUPPORTED_MECHANISM),
        (ScramCredentialDeletion("x", 1), NOT_FOUND),
    ],
)
def test_what_cannot_be_taken_is_refused_and_others_are_not(
    client: RawClient, change: Any, code: int
) -> None:
    good = ScramCredentialUpsertion("good", 1, 4096, SALT, SALTED)
    assert altered(client, change, good) == {change.name: code, "good": NONE}
    assert "x" not in described(client)


def test_a_user_that_is_named_twice_for_one_mechanism_is_left_as_it_was(client: RawClient) -> None:
    upsertion = ScramCredentialUpsertion("twice", 1, 4096, SALT, SALTED)
    deletion = ScramCredentialDeletion("twice", 1)
    assert altered(client, upsertion, deletion) == {"twice": DUPLICATE}
    assert described(client, "twice") == {"twice": NOT_FOUND}
