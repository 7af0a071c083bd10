"""Signing in and encryption: against RFC 7677's example, and a server that has both."""

import asyncio
from pathlib import Path

import pytest

from semel.client.cluster.calls import together
from semel.client.connecting.link import open_link
from semel.client.connecting.sasl import exchange
from semel.errors import (
    ConfigError,
    NetworkException,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from semel.security import PLAINTEXT, ClientCredentials, Sasl, Security, Tls, tls_context
from semel.wire.messages import list_groups
from support.authority import Authority
from support.secured_server import CERTIFICATE, PASSWORD, TOKEN, USER, SignIns, secured_server

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


def test_a_token_signs_in_and_a_wrong_one_does_not() -> None:
    right = Security(sasl=Sasl("OAUTHBEARER", token=lambda: TOKEN))
    assert sign_in(right, mechanism="OAUTHBEARER") == 0
    with pytest.raises(SaslAuthenticationFailed):
        sign_in(Security(sasl=Sasl("OAUTHBEARER", token=lambda: "x")), mechanism="OAUTHBEARER")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_mechanism_signs_in(mechanism: str) -> None:
    security = Security(sasl=Sasl(mechanism, USER, PASSWORD))
    assert sign_in(security, mechanism=mechanism) == 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_told(mechanism: str) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        sign_in(Security(sasl=Sasl(mechanism, USER, "rose")), mechanism=mechanism)


def test_a_mechanism_that_the_broker_does_not_have_is_told_with_those_it_has() -> None:
    with pytest.raises(
        UnsupportedSaslMechanism, match=r"it does not take .*: it has SCRAM-SHA-256"
    ):
        sign_in(Security(sasl=Sasl("PLAIN", USER, PASSWORD)), mechanism="SCRAM-SHA-256")


def test_tls_with_sasl_and_a_certificate_as_file_or_text() -> None:
    for trusted in (str(CERTIFICATE), CERTIFICATE.read_text()):
        security = Security(Tls(trusted=trusted), Sasl("PLAIN", USER, PASSWORD))
        assert sign_in(security, has_tls=True) == 0


def test_a_broker_that_is_not_trusted_is_not_talked_to() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="is not trusted: self-signed certificate"):
        sign_in(Security(Tls(), Sasl("PLAIN", USER, PASSWORD)), has_tls=True)


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"from /nowhere/ca\.pem: no such file or dir"):
        tls_context(Tls(trusted="/nowhere/ca.pem"))
    with pytest.raises(ConfigError, match=r"from /nowhere/me\.pem and /nowhere/me\.key: no such"):
        tls_context(
            Tls(str(CERTIFICATE), certificate_file="/nowhere/me.pem", key_file="/nowhere/me.key")
        )


def test_a_certificate_that_is_renewed_counts_for_the_next_connection(tmp_path: Path) -> None:
    first, second = Authority(tmp_path), tmp_path / "second"
    second.mkdir()
    tls = Tls(str(first.trusted), certificate_file=str(first.certificate("me")))
    context = tls_context(tls)
    assert tls_context(tls) is context, "nothing has changed"
    before = context.get_ca_certs()
    newer = Authority(second).trusted
    newer.rename(first.trusted)
    renewed = tls_context(tls)
    assert renewed.get_ca_certs() != before
    # One that is half written leaves the one before.
    first.trusted.write_text("-----BEGIN CERT")
    assert tls_context(tls) is renewed


def test_a_password_is_not_shown() -> None:
    secured = Security(Tls(key_password=PASSWORD), Sasl("PLAIN", USER, PASSWORD))
    credentials = ClientCredentials("https://one/token", "me", PASSWORD)
    shown = repr(secured) + repr(Sasl("OAUTHBEARER", token=credentials))
    assert PASSWORD not in shown
    assert "https://one/token" in shown


@pytest.mark.parametrize(
    "offer", [b"r=mine-theirs,i=4096", b"r=mine-theirs,s=c2FsdA==,i=999999999", b"nonsense"]
)
def test_an_offer_that_makes_no_sense_is_refused(offer: bytes) -> None:
    messages = exchange(Sasl("SCRAM-SHA-256", "user", "pencil"), "mine")
    next(messages)
    with pytest.raises(SaslAuthenticationFailed, match="is not acceptable"):
        messages.send(offer)


# Signing in again


def test_who_signed_in_for_a_time_signs_in_again_before_it_is_over() -> None:
    seen = SignIns(lifetime_ms=50)

    async def scenario() -> None:
        security = Security(sasl=Sasl("SCRAM-SHA-256", USER, PASSWORD))
        request = list_groups.ListGroupsRequest([])
        async with secured_server(has_tls=False, mechanism="SCRAM-SHA-256", seen=seen) as address:
            link = await open_link(address, "test", "0", 10_000, security)
            while seen.count < 4:
                # Several at once: none of them may come between the steps of signing in.
                for reply in await together(
                    link.call(list_groups, request, 10_000) for _ in range(5)
                ):
                    assert reply.error_code == 0
            await link.close()

    asyncio.run(scenario())
    assert seen.requests.count(18) == 1


def test_who_may_not_sign_in_again_hears_why() -> None:
    seen = SignIns(lifetime_ms=1)
    tokens = [TOKEN]

    async def scenario() -> None:
        security = Security(
            sasl=Sasl("OAUTHBEARER", token=lambda: tokens.pop() if tokens else "no")
        )
        request = list_groups.ListGroupsRequest([])
        async with secured_server(has_tls=False, mechanism="OAUTHBEARER", seen=seen) as address:
            link = await open_link(address, "test", "0", 10_000, security)

            async def call_until_refused() -> None:
                while True:
                    await link.call(list_groups, request, 10_000)

            with pytest.raises(SaslAuthenticationFailed):
                await call_until_refused()
            assert not link.is_open
            with pytest.raises(NetworkException):
                await link.call(list_groups, request, 10_000)

    asyncio.run(scenario())


# What a broker does not say


def test_a_broker_that_closes_the_connection_is_guessed_about() -> None:
    with pytest.raises(NetworkException, match=r"signed in to \(security.protocol, sasl.mech"):
        sign_in(PLAINTEXT)
    with pytest.raises(NetworkException, match=r"it may speak TLS alone there"):
        sign_in(PLAINTEXT, has_tls=True)
    with pytest.raises(NetworkException, match="does it speak TLS there"):
        sign_in(Security(TRUSTING))
