"""What who has not signed in may try: to hold places, to say again what others said, to flood."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from semel.access.sasl import INVALID_TOKEN, Disguise, ScramExchange, SignInRefused
from semel.access.scram import Mechanism, credential
from semel.access.users import Users
from semel.broker import door
from semel.broker.certificates import server_context
from semel.broker.config import BrokerConfig
from semel.broker.door import Door
from semel.broker.initial_users import initial_users
from semel.broker.proxy_header import SIGNATURE
from semel.broker.sign_in import REFUSAL
from semel.broker.turns import CREDIT_S
from semel.client.connecting.sasl import exchange
from semel.errors import ConfigError
from semel.security import Sasl
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.authority import Authority
from support.raw_client import RawClient, decoded_reply, encoded, request_frame
from support.secured_in_thread import SecuredInThread, sign_in, until_users
from support.tokens import tokens

PATIENCE_S = 10.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextlib.contextmanager
def secured(folder: Path, authority: Authority, *settings: str) -> Iterator[SecuredInThread]:
    listen = "listeners=SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    keystore = f"ssl.keystore.location={authority.certificate('broker')}"
    with SecuredInThread(folder, [listen, keystore, *settings]) as server:
        yield server


def connected(server: SecuredInThread) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.at("SASL_SSL").port), PATIENCE_S)


def test_handshakes_that_are_never_ended_hold_few_places_and_not_for_long(
    tmp_path: Path, authority: Authority
) -> None:
    trusting = ssl.create_default_context(cafile=str(authority.trusted))
    limits = ("signin.timeout.ms=500", "signin.max.connections=5")
    with secured(tmp_path, authority, *limits) as server, contextlib.ExitStack() as stack:
        half_open = [stack.enter_context(connected(server)) for _ in range(10)]
        # The oldest have made room, and who means it comes in beside the others.
        assert [each.recv(1) for each in half_open[:5]] == [b""] * 5
        with trusting.wrap_socket(connected(server), server_hostname="localhost") as meant:
            assert meant.version() == "TLSv1.3"
        with RawClient(server.at("PLAINTEXT")) as other:
            other.call("metadata", 9, MetadataRequest(None))
        # The rest are out of time.
        for each in half_open[5:]:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""


class ReadEarly(Door):
    """As by uvloop, where reading goes on behind `connection_made` though it was paused there."""

    said: ClassVar[list[bytes]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.resume_reading()

    def buffer_updated(self, count: int) -> None:
        super().buffer_updated(count)
        self.said.append(bytes(self._read))


def test_what_is_read_before_a_handshake_begins_is_part_of_it(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "Door", ReadEarly)
    monkeypatch.setattr(ReadEarly, "said", [])
    trusting = ssl.create_default_context(cafile=str(authority.trusted))
    asked = encoded("sasl_handshake", 1, SaslHandshakeRequest("SCRAM-SHA-256"))
    with secured(tmp_path, authority) as server:
        # What the client says is there before its turn comes.
        server.do(lambda _: server.listening._desk.handshakes.spend(CREDIT_S + 0.1))
        with trusting.wrap_socket(connected(server), server_hostname="localhost") as link:
            link.sendall(request_frame("sasl_handshake", 1, asked))
            size = int.from_bytes(link.recv(4), "big")
            assert decoded_reply("sasl_handshake", 1, link.recv(size)).error_code == 0
    # The record that begins a handshake.
    assert [each[:1] for each in ReadEarly.said] == [b"\x16"]


def test_so_many_of_one_address_are_turned_away(tmp_path: Path, authority: Authority) -> None:
    limit = "signin.max.connections.per.ip=3"
    with secured(tmp_path, authority, limit) as server, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(server))
        with connected(server) as one_more, contextlib.suppress(ConnectionResetError):
            assert one_more.recv(1) == b""


@pytest.mark.parametrize("said", [b"\0\0\0\x10" + bytes(16), b"GET / HTTP/1.1\r\n\r\n"])
def test_who_speaks_no_tls_is_not_answered(
    tmp_path: Path, authority: Authority, said: bytes
) -> None:
    with secured(tmp_path, authority) as server, connected(server) as plain:
        plain.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""


def test_an_older_tls_is_refused(tmp_path: Path, authority: Authority) -> None:
    old = ssl.create_default_context(cafile=str(authority.trusted))
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    newest = "ssl.enabled.protocols=TLSv1.3"
    with (
        secured(tmp_path, authority, newest) as server,
        connected(server) as raw,
        pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"),
    ):
        old.wrap_socket(raw, server_hostname="localhost")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unknown", "ALERT_UNKNOWN_CA"),
        ("expired", "ALERT_CERTIFICATE_EXPIRED"),
        ("none", "ALERT_CERTIFICATE_REQUIRED"),
    ],
)
def test_whose_certificate_is_refused_hears_why(
    tmp_path: Path, authority: Authority, kind: str, said: str
) -> None:
    """By TLS 1.3 the client's handshake has ended by then."""
    trusting = ssl.create_default_context(cafile=str(authority.trusted))
    (tmp_path / "others").mkdir()
    if kind == "unknown":
        trusting.load_cert_chain(Authority(tmp_path / "others").certificate("client"))
    elif kind == "expired":
        trusting.load_cert_chain(authority.certificate("client", is_expired=True))
    settings = ("ssl.client.auth=required", f"ssl.truststore.location={authority.trusted}")
    with (
        secured(tmp_path, authority, *settings) as server,
        trusting.wrap_socket(connected(server), server_hostname="localhost") as refused,
        pytest.raises(ssl.SSLError, match=said),
    ):
        refused.recv(1)


def test_what_a_file_of_certificates_lacks_is_said(tmp_path: Path, authority: Authority) -> None:
    trusted = str(authority.trusted)
    whole = authority.certificate("broker").read_bytes()
    (key := tmp_path / "key.pem").write_bytes(whole[: whole.index(b"-----BEGIN CERT")])

    # Nobody makes a handshake anew on a connection that is open.
    context = server_context(BrokerConfig(ssl_keystore_location=str(tmp_path / "broker.pem")))
    assert context.options & ssl.OP_NO_RENEGOTIATION

    def refusal(certificate: str, key_file: str = "") -> str:
        config = BrokerConfig(ssl_keystore_location=certificate, ssl_key_location=key_file)
        with pytest.raises(ConfigError) as refused:
            server_context(config)
        return str(refused.value).partition(": ")[2]

    assert refusal(trusted) == f"there is no -----BEGIN PRIVATE KEY----- in {trusted}"
    assert refusal(str(key)) == f"there is no -----BEGIN CERTIFICATE----- in {key}"
    assert refusal(trusted, str(key)) == "the key is not that of the certificate"


def test_a_proxy_says_for_whom_it_connects(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text('ana = "tulip"\n')
    users.chmod(0o600)
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "proxy.protocol.from=127.0.0.0/8",
        f"initial.users={users}",
    )
    address = bytes((203, 0, 113, 9, 127, 0, 0, 1)) + (4000).to_bytes(2, "big") * 2
    header = SIGNATURE + b"\x21\x11" + len(address).to_bytes(2, "big") + address
    with SecuredInThread(tmp_path, settings) as server:
        with RawClient(server) as client:
            # What follows the header is not lost, wherever it is cut.
            client.send(header[:7])
            client.send(header[7:])
            assert sign_in(client, "nobody", "x").error_code == 58
        with RawClient(server) as liar:
            liar.send(b"\0\0\0\x10" + bytes(16))
            assert liar.is_closed_by_broker


def test_what_was_said_once_is_of_no_use_a_second_time() -> None:
    users = Users()
    users.set("ana", credential(Mechanism.SCRAM_SHA_256, b"tulip", b"salt", 4096))

    def server(nonce: str) -> ScramExchange:
        return ScramExchange(Mechanism.SCRAM_SHA_256, users, Disguise(), b"key", nonce)

    first_server, client = server("one"), exchange(Sasl("SCRAM-SHA-256", "ana", "tulip"), "mine")
    first = next(client)
    final = client.send(first_server.first(first))
    assert first_server.final(final).startswith(b"v=")
    again = server("two")
    again.first(first)
    with pytest.raises(SignInRefused, match="another exchange"):
        again.final(final)


def test_a_token_signs_in_for_as_long_as_it_is_good(tmp_path: Path) -> None:
    signed = tokens(tmp_path)
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url=file://{tmp_path}/keys.json",
        "sasl.oauthbearer.expected.issuer=us",
        "sasl.oauthbearer.expected.audience=semel",
    )
    with SecuredInThread(tmp_path, settings) as server:
        for token, error_code in ((signed(), 0), (signed(aud="others"), 58)):
            with RawClient(server) as client:
                client.call("sasl_handshake", 1, SaslHandshakeRequest("OAUTHBEARER"))
                said = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
                reply = client.call("sasl_authenticate", 2, SaslAuthenticateRequest(said))
                if error_code:
                    assert (reply.error_code, reply.auth_bytes) == (0, INVALID_TOKEN)
                    reply = client.call("sasl_authenticate", 2, SaslAuthenticateRequest(b"\x01"))
                    assert (reply.error_code, reply.error_message) == (error_code, REFUSAL)
                    assert client.is_closed_by_broker
                else:
                    assert reply.error_code == 0
                    assert 0 < reply.session_lifetime_ms <= 60_000
                    client.call("metadata", 9, MetadataRequest(None))


def test_a_session_ends_unless_its_client_signs_in_again(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text('ana = "tulip"\n')
    users.chmod(0o600)
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f"initial.users={users}",
        "connections.max.reauth.ms=1",
    )
    with SecuredInThread(tmp_path, settings) as server, RawClient(server) as client:
        until_users(server, "ana")
        assert sign_in(client, "ana", "tulip").lifetime_ms == 1
        # It is over by now, and another one may begin.
        assert sign_in(client, "ana", "tulip").error_code == 0
        with contextlib.suppress(AssertionError, ConnectionError):
            while True:
                client.call("metadata", 9, MetadataRequest(None))
        assert client.is_closed_by_broker


def test_passwords_that_everybody_can_read_are_refused(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text('ana = "tulip"\n')
    for mode in (0o644, 0o604, 0o602):
        users.chmod(mode)
        with pytest.raises(ConfigError, match=f"chmod 600 {users}") as refused:
            initial_users(str(users))
        assert "tulip" not in str(refused.value)
    for mode in (0o600, 0o640, 0o400):
        users.chmod(mode)
        assert initial_users(str(users)) == {"ana": b"tulip"}
