"""Each rule about who comes in, and a bug that leaves it out: its check has to see that."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest

from semel.access import sasl
from semel.access.sasl import SignInRefused
from semel.access.scram import Mechanism, credential, pretended
from semel.broker import certificates
from semel.broker.bearer import Keys
from semel.broker.broker import Broker
from semel.broker.config import BrokerConfig
from semel.broker.listeners import Listener, listeners_of
from semel.broker.reception import Visit
from semel.broker.setting import Secret
from semel.broker.sign_in import REFUSAL, Desk, SignIn
from semel.errors import ConfigError
from semel.lane.users import AlterUser
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.world import SystemClock
from support.authority import Authority
from support.raw_client import RawClient, encoded, request_frame
from support.secured_in_thread import SecuredInThread, sign_in, until_users
from support.tokens import tokens

Patch = pytest.MonkeyPatch
PATIENCE_S = 3.0
LISTEN = "listeners=SASL_PLAINTEXT://127.0.0.1:0"
METADATA = request_frame("metadata", 9, encoded("metadata", 9, MetadataRequest(None)))


def broker(folder: Path, *settings: str) -> SecuredInThread:
    users = folder / "users.toml"
    users.write_text('ana = "tulip"\nbo = "rose"\n')
    users.chmod(0o600)
    return SecuredInThread(folder, [LISTEN, f"initial.users={users}", *settings])


def comes_in(client: RawClient, user: str, password: str) -> bool:
    return sign_in(client, user, password).error_code == 0


def submit(server: Broker, change: AlterUser) -> None:
    server.lanes.controller.submit(change)


def closes(client: RawClient) -> bool:
    """Whether the broker ends the connection, though it is spoken to."""
    until = time.monotonic() + PATIENCE_S
    with contextlib.suppress(AssertionError, ConnectionError):
        while time.monotonic() < until:
            client.call("api_versions", 3, ApiVersionsRequest("a", "1"))
            time.sleep(0.05)
        return False
    return True


def rule_1_nothing_is_served_before_a_sign_in(folder: Path) -> None:
    with broker(folder) as server, RawClient(server) as client:
        client.call("api_versions", 3, ApiVersionsRequest("a", "1"))
        client.send(METADATA)
        assert client.is_closed_by_broker


def every_api_is_served_to_everybody(patch: Patch) -> None:
    patch.setattr(SignIn, "_dispatch", lambda self, *asked: self._desk.server.dispatch(*asked))


def rule_3_nobody_is_told_who_exists(folder: Path) -> None:
    with broker(folder) as server:
        until_users(server, "bo")
        made = (credential(Mechanism.SCRAM_SHA_256, b"tulip", b"0" * 30, 4096),)
        for name in ("ana", "bo"):
            server.do(partial(submit, change=AlterUser(name, made, ())))
        found = []
        for name in ("ana", "eve", "nobody"):
            with RawClient(server) as client:
                found.append(sign_in(client, name, "wrong"))
                assert client.is_closed_by_broker
    shapes = {
        (each.error_code, each.error_message, len(each.offer), each.offer[-7:]) for each in found
    }
    assert len(shapes) == 1
    assert found[0].error_message == REFUSAL


def who_is_unknown_has_another_salt(patch: Patch) -> None:
    patch.setattr(
        sasl.Disguise,
        "of",
        lambda self, users, name, mechanism, key: pretended(mechanism, name, key),
    )


def rule_7_sessions_end_with_their_user(folder: Path) -> None:
    gone = AlterUser("ana", (), tuple(Mechanism))
    with broker(folder) as server, RawClient(server) as client, RawClient(server) as other:
        until_users(server, "bo")
        assert comes_in(client, "ana", "tulip")
        assert comes_in(other, "bo", "rose")
        server.do(lambda one: submit(one, gone))
        assert closes(client)
        other.call("metadata", 9, MetadataRequest(None))


def sessions_outlive_their_user(patch: Patch) -> None:
    patch.setattr(Desk, "end_sessions_of_deleted", lambda self: None)


def rule_8_nobody_becomes_another(folder: Path) -> None:
    with broker(folder) as server, RawClient(server) as client:
        until_users(server, "bo")
        assert comes_in(client, "ana", "tulip")
        assert comes_in(client, "ana", "tulip")
        client.call("metadata", 9, MetadataRequest(None))
        assert not comes_in(client, "bo", "rose")
        assert client.is_closed_by_broker


def who_signs_in_again_may_be_another(patch: Patch) -> None:
    come_in = SignIn._come_in

    def forgetful(self: SignIn, proven: Any) -> int:
        self._caller = None
        return come_in(self, proven)

    patch.setattr(SignIn, "_come_in", forgetful)


def rule_9_a_bad_certificate_leaves_the_old_one(folder: Path) -> None:
    authority = Authority(folder)
    file = authority.certificate("broker")
    trusting = ssl.create_default_context(cafile=str(authority.trusted))
    settings = ["listeners=SSL://127.0.0.1:0", f"ssl.keystore.location={file}"]
    with SecuredInThread(folder, settings) as server:
        other = authority.certificate("other").read_text().partition("-----BEGIN CERT")
        good = file.read_text()
        # The key of one and the certificate of another.
        file.write_text(other[0] + good[good.index("-----BEGIN CERT") :])
        server.do(lambda one: server.listening.reload())
        with (
            socket.create_connection(("127.0.0.1", server.port)) as raw,
            trusting.wrap_socket(raw, server_hostname="localhost") as secured,
        ):
            assert secured.getpeercert()


def whatever_is_read_counts(patch: Patch) -> None:
    def careless(self: certificates.Certificates, *, was_asked: bool = False) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    patch.setattr(certificates.Certificates, "look", careless)


def rule_10_a_secret_is_shown_to_nobody(folder: Path) -> None:
    config = BrokerConfig(ssl_key_password=Secret("tulip"))
    assert "tulip" not in repr(config)
    assert "tulip" not in str(config.shown())


def secrets_are_texts(patch: Patch) -> None:
    patch.setattr(Secret, "__repr__", str.__repr__)


def keys_in(folder: Path) -> Keys:
    (listener,) = listeners_of(
        BrokerConfig.from_sources(
            None,
            [
                LISTEN,
                "sasl.enabled.mechanisms=OAUTHBEARER",
                f"sasl.oauthbearer.jwks.endpoint.url=file://{folder}/keys.json",
                "sasl.oauthbearer.expected.issuer=us",
                "sasl.oauthbearer.expected.audience=semel",
                "sasl.oauthbearer.clock.skew.seconds=0",
            ],
        )
    )
    return Keys(listener, SystemClock())


def rule_11_a_token_counts_if_it_is_for_us(folder: Path) -> None:
    signed = tokens(folder)

    async def accepted(token: str) -> bool:
        with contextlib.suppress(SignInRefused):
            keys = keys_in(folder)
            return keys.proven(await keys.claimed(token)).user == "ana"
        return False

    assert asyncio.run(accepted(signed()))
    for bad in (
        {"algorithm": "none"},
        {"algorithm": "HS256"},
        {"aud": "others"},
        {"aud": None},
        {"iss": "them"},
        {"exp": 1},
        {"exp": None},
        {"kid": "two"},
        {"sub": None},
    ):
        assert not asyncio.run(accepted(signed(**bad))), bad
    assert not asyncio.run(accepted(signed()[:-6] + "AAAAAA"))


def tokens_for_others_count(patch: Patch) -> None:
    decode: Any = jwt.decode

    def lax(*given: Any, audience: Any, options: Any, **named: Any) -> Any:
        return decode(*given, options={**options, "verify_aud": False}, **named)

    patch.setattr(jwt, "decode", lax)


def rule_12_who_does_not_sign_in_goes(folder: Path) -> None:
    with broker(folder, "signin.timeout.ms=300") as server:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as silent:
            assert silent.recv(1) == b""
        with RawClient(server) as large:
            large.send((64 * 2**10 + 1).to_bytes(4, "big") + METADATA)
            assert large.is_closed_by_broker


def who_does_not_sign_in_stays(patch: Patch) -> None:
    patch.setattr(Visit, "_out_of_time", lambda self: None)


def rule_13_nobody_is_let_in_by_mistake(folder: Path) -> None:
    for host in ("0.0.0.0", "[::]", "broker.example"):
        config = BrokerConfig.from_sources(None, [f"listeners={host}:9092"])
        with pytest.raises(ConfigError, match=r"allow\.unauthenticated=true"):
            listeners_of(config)
    allowed = ["listeners=0.0.0.0:9092", "allow.unauthenticated=true"]
    assert listeners_of(BrokerConfig.from_sources(None, allowed))


def anybody_may_listen_anywhere(patch: Patch) -> None:
    patch.setattr(Listener, "is_open_to_all", False)


class Rule(NamedTuple):
    check: Callable[[Path], None]
    bug: Callable[[Patch], None]


RULES = (
    Rule(rule_1_nothing_is_served_before_a_sign_in, every_api_is_served_to_everybody),
    Rule(rule_3_nobody_is_told_who_exists, who_is_unknown_has_another_salt),
    Rule(rule_7_sessions_end_with_their_user, sessions_outlive_their_user),
    Rule(rule_8_nobody_becomes_another, who_signs_in_again_may_be_another),
    Rule(rule_9_a_bad_certificate_leaves_the_old_one, whatever_is_read_counts),
    Rule(rule_10_a_secret_is_shown_to_nobody, secrets_are_texts),
    Rule(rule_11_a_token_counts_if_it_is_for_us, tokens_for_others_count),
    Rule(rule_12_who_does_not_sign_in_goes, who_does_not_sign_in_stays),
    Rule(rule_13_nobody_is_let_in_by_mistake, anybody_may_listen_anywhere),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_the_rule_holds(tmp_path: Path, rule: Rule) -> None:
    rule.check(tmp_path)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.bug.__name__)
def test_a_planted_bug_dies(tmp_path: Path, rule: Rule, monkeypatch: Patch) -> None:
    rule.bug(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, OSError)):
        rule.check(tmp_path)
