"""Signing in and encryption: against RFC 7677's example, and a server that has both."""

import asyncio
from pathlib import Path

import pytest

from semel.client.connecting.link import open_link
from semel.client.connecting.sasl import exchange
from semel.client.security import Sasl, Security, Tls, tls_context
from semel.errors import (
    ConfigError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from semel.wire.messages import list_groups
from support.secured_server import CERTIFICATE, PASSWORD, USER, secured_server

TRUSTING = Tls(trusted=str(CERTIFICATE))


def sign_in(security: Security, *, has_tls: bool = False, mechanism: str = "PLAIN") -> int:
    """The error code of a request that the server answers only to who has signed in."""

    async def scenario() -> int:
        async with secured_server(has_tls=has_tls, mechanism=mechanism) as address:
            link = await open_link(address, "test", "0", 10_000, security)
            try:
                reply = await link.call(list_groups, list_groups.ListGroupsRequest([]), 10_000)
            finally:
                await link.close()
            return reply.error_code

    return asyncio.run(scenario())


def test_the_example_of_rfc_7677() -> None:
    messages = exchange(Sasl("SCRAM-SHA-256", "user", "pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert next(messages) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = messages.send(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        messages.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "answer",
    [
        b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=mine-theirs,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"e=unknown-user",
    ],
)
def test_an_offer_that_is_forged_or_weak_is_refused(answer: bytes) -> None:
    messages = exchange(Sasl("SCRAM-SHA-256", "user", "pencil"), "mine")
    next(messages)
    with pytest.raises(SaslAuthenticationFailed):
        messages.send(answer)


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    messages = exchange(Sasl("SCRAM-SHA-512", "user", "pencil"), "mine")
    next(messages)
    messages.send(b"r=mine-theirs,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslAuthenticationFailed, match="does not know the password"):
        messages.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_mechanism_signs_in(mechanism: str) -> None:
    security = Security(sasl=Sasl(mechanism, USER, PASSWORD))
    assert sign_in(security, mechanism=mechanism) == 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_told(mechanism: str) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        sign_in(Security(sasl=Sasl(mechanism, USER, "rose")), mechanism=mechanism)


def test_a_mechanism_that_the_broker_does_not_have_is_told_with_those_it_has() -> None:
    with pytest.raises(UnsupportedSaslMechanism, match="it has SCRAM-SHA-256"):
        sign_in(Security(sasl=Sasl("PLAIN", USER, PASSWORD)), mechanism="SCRAM-SHA-256")


def test_tls_with_sasl_and_a_certificate_as_file_or_text() -> None:
    for trusted in (str(CERTIFICATE), CERTIFICATE.read_text()):
        security = Security(Tls(trusted=trusted), Sasl("PLAIN", USER, PASSWORD))
        assert sign_in(security, has_tls=True) == 0


def test_a_broker_that_is_not_trusted_is_not_talked_to() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="is not trusted: self-signed certificate"):
        sign_in(Security(Tls(), Sasl("PLAIN", USER, PASSWORD)), has_tls=True)


def test_a_keystore_of_java_is_refused_in_words(tmp_path: Path) -> None:
    keystore = tmp_path / "truststore.jks"
    keystore.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigError, match=f"from {keystore} .* have to be PEM"):
        tls_context(Tls(trusted=str(keystore)))


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"from /nowhere/ca\.pem \(.*No such file"):
        tls_context(Tls(trusted="/nowhere/ca.pem"))
    with pytest.raises(ConfigError, match=r"from /nowhere/me\.pem and /nowhere/me\.key \("):
        tls_context(
            Tls(str(CERTIFICATE), certificate_file="/nowhere/me.pem", key_file="/nowhere/me.key")
        )


def test_a_password_is_not_shown() -> None:
    assert PASSWORD not in repr(Security(sasl=Sasl("PLAIN", USER, PASSWORD)))
