"""Whatever anybody can send who has not signed in: made by breaking what clients send.

A *knock* is the whole life of one connection. Most are broken messages, cut anywhere; some are
sign-ins that go well up to a place, and a few are good. Time is simulated, so that the patience of
the broker costs nothing, and a seed gives the same knocks.

Law: nobody comes in who did not prove who they are, no request is decided but those of a sign-in,
nothing raises, and when the last has gone nothing is left of any.
"""

import asyncio
import base64
import gc
import hashlib
import hmac
import json
import ssl
import struct
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

from semel.access.principal import ANONYMOUS
from semel.access.scram import Mechanism, credential
from semel.broker.audit import Audit
from semel.broker.bearer import Keys
from semel.broker.broker import Broker
from semel.broker.certificates import Certificates
from semel.broker.connection import Connection
from semel.broker.door import Gate
from semel.broker.listeners import MECHANISMS, OAUTHBEARER, listeners_of
from semel.broker.proxy_header import SIGNATURE
from semel.broker.reception import Reception
from semel.broker.sign_in import Desk
from semel.client.connecting.sasl import exchange
from semel.errors import SemelError
from semel.lane.users import AlterUser
from semel.security import Sasl
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.handled import CONFIG, LoopClock, Machine
from support.raw_client import decoded_reply, encoded, request_frame
from support.seeded_loop import elapse
from support.wired_client import Wire

TLS: Final = Path(__file__).parent / "tls"
AT_ONCE: Final = 200
"""Knocks that are under way together."""
PER_HOST: Final = 15
USER: Final = "ann"
PASSWORD: Final = "open sesame"
ISSUER, AUDIENCE = "https://issuer.example", "semel"
FOR_EVER_S: Final = 4_000_000_000
PATIENCE_S: Final = 11.0
BEFORE_SIGN_IN: Final = frozenset({17, 18, 36})
ODD: Final = (0, 1, -1, 2**7, 2**15 - 1, -(2**15), 2**16, 2**24, 2**31 - 1, -(2**31))


class Knocks:
    """The gates of a broker, and those who come to them."""

    def __init__(self, broker: Broker, folder: Path, seed: int) -> None:
        server = broker.server
        assert server is not None
        self.broker, self._server = broker, server
        self._random = Random(seed)
        self._signer = Signer(folder)
        listeners = listeners_of(
            replace(
                CONFIG,
                listeners="OPEN://127.0.0.1:1,PROXIED://127.0.0.1:2,SECURE://127.0.0.1:3",
                listener_security_protocol_map=(
                    "OPEN:SASL_PLAINTEXT,PROXIED:SASL_PLAINTEXT,SECURE:SASL_SSL"
                ),
                proxy_protocol_from="10.255.0.0/16",
                sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                sasl_oauthbearer_jwks_endpoint_url=self._signer.keys_url,
                sasl_oauthbearer_expected_issuer=ISSUER,
                sasl_oauthbearer_expected_audience=AUDIENCE,
                ssl_keystore_location=_keystore(folder),
            )
        )
        desk = Desk(broker, self._server)
        self._desk = desk
        self._reception = Reception(10_000, 1_000, 20)
        self._gates = {
            each.name: Gate(
                desk,
                self._reception,
                # PLAIN as well, though nobody would let it come without TLS.
                each._replace(
                    mechanisms=MECHANISMS,
                    proxies=each.proxies if each.name == "PROXIED" else (),
                ),
                Certificates(each) if each.protocol.has_tls else None,
                Keys(each, LoopClock()),
            )
            for each in listeners
        }
        self._host_count = 0
        self.knock_count = self.good_count = self.refused_count = self.reply_count = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    # All of them

    async def run(self, count: int, said: Callable[[int], None] = lambda done: None) -> None:
        """Raises AssertionError if the law is broken."""
        while self.knock_count < count:
            wires: list[Wire] = []
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(AT_ONCE, count - self.knock_count)):
                    tasks.create_task(self._knock(wires))
            await elapse(PATIENCE_S)
            self._check(wires)
            self.knock_count += len(wires)
            said(self.knock_count)

    def _check(self, wires: Sequence[Wire]) -> None:
        for wire in wires:
            assert wire.is_cut_off, (
                f"still there: {wire.get_protocol()}, {wire.get_extra_info('peername')}, "
                f"{bytes(wire.said)!r}"
            )
            for reply in wire.replies():
                assert len(reply) >= 4
        assert self.broker.metrics.requests_failed == 0
        decided = {key for key, count in self.broker.metrics.requests.items() if count}
        # Those who came in have asked for metadata.
        assert decided <= BEFORE_SIGN_IN | {3}
        assert self.broker.metrics.requests[3] == self.good_count
        assert len(self._reception) == 0
        assert self.broker.connection_count == 0
        assert not self._desk.sessions

    # One

    async def _knock(self, wires: list[Wire]) -> None:
        random = self._random
        chance = random.random()
        if chance < 0.002:
            await self._shake_hands(self._wire("SECURE", wires))
        elif chance < 0.05:
            await self._sign_in(self._wire("OPEN", wires), is_good=True)
        elif chance < 0.15:
            await self._sign_in(self._wire("OPEN", wires), is_good=False)
        elif chance < 0.25:
            wire = self._wire("PROXIED", wires, host=f"10.255.0.{random.randrange(256)}")
            header = self._broken(proxy_header(random), 0.5)
            self._send(wire, header + self._nonsense())
        else:
            self._send(self._wire("OPEN", wires), self._nonsense())

    def wire(self, gate: str, *, is_for_nodes: bool = False) -> Wire:
        """A client that is no part of the knocks."""
        to = self._gates[gate]
        if to.listener.is_for_nodes is not is_for_nodes:
            listener = to.listener._replace(is_for_nodes=is_for_nodes)
            to = Gate(self._desk, self._reception, listener, to.certificates, to.keys)
        return Wire(to.protocol(), "10.128.0.1")

    def _wire(self, gate: str, wires: list[Wire], host: str = "") -> Wire:
        self._host_count += 1
        number = self._host_count // PER_HOST
        host = host or f"10.{number >> 16 & 127}.{number >> 8 & 255}.{number & 255}"
        wire = Wire(self._gates[gate].protocol(), host)
        wires.append(wire)
        return wire

    def _send(self, wire: Wire, data: bytes) -> None:
        """In pieces, and then the client hangs, or hangs up."""
        random = self._random
        for at in sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(3))):
            wire.send(data[:at])
            data = data[at:] if at <= len(data) else b""
        wire.send(data)
        self._is_nobody(wire)
        if random.random() < 0.5:
            asyncio.get_running_loop().call_later(random.random() * 5, wire.leave)

    @staticmethod
    def _is_nobody(wire: Wire) -> None:
        connection = wire.get_protocol()
        if isinstance(connection, Connection):
            assert connection.caller.principal == ANONYMOUS

    # What is sent

    def _nonsense(self) -> bytes:
        random = self._random
        frames = [self._frame() for _ in range(random.choice((1, 1, 2, 2, 3, 6)))]
        return self._broken(b"".join(frames), 0.3)

    def _frame(self) -> bytes:
        """One that makes sense, or nearly."""
        random = self._random
        kind = random.randrange(10)
        if kind == 0:
            version = random.randrange(5)
            body = encoded("api_versions", version, ApiVersionsRequest("client", "1.0"))
            frame = request_frame("api_versions", version, body)
        elif kind <= 3:
            mechanism = random.choice((*MECHANISMS, "GSSAPI", "", "scram-sha-256", "x" * 300))
            body = encoded("sasl_handshake", 1, SaslHandshakeRequest(mechanism))
            frame = request_frame("sasl_handshake", random.choice((0, 1, 1, 1, 2)), body)
        elif kind <= 7:
            frame = self._authenticate(self._broken(self._message(), 0.6))
        elif kind == 8:
            frame = request_frame("metadata", 8, encoded("metadata", 8, MetadataRequest()))
        else:
            key = random.choice((-1, 0, 1, 17, 18, 22, 36, 51, 99, 20_000, 20_001))
            frame = request_frame("metadata", 8, random.randbytes(random.randrange(60)), key=key)
        return self._broken(frame, 0.4)

    def _authenticate(self, message: bytes) -> bytes:
        version = self._random.randrange(3)
        body = encoded("sasl_authenticate", version, SaslAuthenticateRequest(message))
        return request_frame("sasl_authenticate", version, body)

    def _message(self) -> bytes:
        random = self._random
        user = random.choice((USER, "nobody", "=2C=3D", "", "é" * 40, "x" * 1_100))
        kind = random.randrange(5)
        if kind == 0:
            return f"n,{random.choice(('', f'a={user}', 'a=other'))},n={user},r=abcdef".encode()
        if kind == 1:
            return b"c=biws,r=abcdef,p=" + base64.b64encode(random.randbytes(32))
        if kind == 2 and random.random() < 0.1:
            # The one that costs milliseconds.
            return f"\0{user}\0{random.choice(('wrong', '', 'x' * 2_000))}".encode()
        if kind == 3:
            return b"n,,\x01auth=Bearer " + self._signer.bad_token(random) + b"\x01\x01"
        return random.choice((b"", b"\x01", b"n,,", b"\0\0\0", random.randbytes(40)))

    def _broken(self, data: bytes, chance: float) -> bytes:
        while self._random.random() < chance:
            data = mutated(data, self._random)
            chance /= 2
        return data

    # Sign-ins

    async def come_in_by_token(self) -> None:
        """Raises AssertionError if that is refused."""
        await self._sign_in(self.wire("OPEN"), is_good=True, mechanism=OAUTHBEARER)

    async def _sign_in(self, wire: Wire, *, is_good: bool, mechanism: str = "") -> None:
        random = self._random
        mechanism = mechanism or random.choice(
            MECHANISMS[:2] if random.random() < 0.98 else MECHANISMS
        )
        token = (
            self._signer.token()
            if is_good
            else self._signer.bad_token(random).decode("utf-8", "replace")
        )
        sasl = Sasl(mechanism, USER, PASSWORD if is_good else "wrong")
        messages = exchange(sasl, random.randbytes(8).hex(), token)
        if not is_good and random.random() < 0.5:
            # The right password, and something that breaks on its way.
            messages = exchange(sasl._replace(password=PASSWORD), random.randbytes(8).hex(), token)
        body = encoded("sasl_handshake", 1, SaslHandshakeRequest(mechanism))
        is_broken = False
        try:
            wire.send(request_frame("sasl_handshake", 1, body))
            await wire.receive()
            message = next(messages)
            while True:
                if not is_good and (is_broken or random.random() < 0.5):
                    sent, message = message, mutated(message, random)
                    is_broken |= meaning(sent) != meaning(message)
                version = 2
                frame = SaslAuthenticateRequest(message)
                wire.send(
                    request_frame("sasl_authenticate", 2, encoded("sasl_authenticate", 2, frame))
                )
                reply = decoded_reply("sasl_authenticate", version, await wire.receive())
                self.reply_count += 1
                if reply.error_code:
                    assert not is_good, f"{mechanism}: {reply.error_message}"
                    self.refused_count += 1
                    assert not reply.auth_bytes
                    self._is_nobody(wire)
                    return
                message = messages.send(bytes(reply.auth_bytes))
        except StopIteration:
            connection = wire.get_protocol()
            assert isinstance(connection, Connection)
            if connection.caller.principal == ANONYMOUS:
                assert not is_good
                return
            assert connection.caller.principal.name == USER
            assert is_good or not is_broken, f"came in by {bytes(wire.said)!r}"
            wire.send(request_frame("metadata", 8, encoded("metadata", 8, MetadataRequest([]))))
            await wire.receive()
            self.good_count += 1
            wire.leave()
        except (ConnectionError, SemelError, UnicodeDecodeError):
            assert not is_good
            self._is_nobody(wire)

    async def _shake_hands(self, wire: Wire) -> None:
        """A client of TLS that breaks what it says, more with each message."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        for step in range(6):
            try:
                client.do_handshake()
                client.write(self._nonsense())
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return
            said = outgoing.read()
            wire.send(self._broken(said, 0.2 + step / 5))
            await elapse(0.01)
            incoming.write(bytes(wire.received))
            wire.received.clear()
            self._is_nobody(wire)


def meaning(message: bytes) -> tuple[bytes, bytes]:
    """The last letter of a proof in base64 has bits that say nothing."""
    head, _, proof = message.rpartition(b",p=")
    try:
        return head, base64.b64decode(proof, validate=True)
    except ValueError:
        return message, b""


def mutated(data: bytes, random: Random) -> bytes:
    """With one thing wrong."""
    at = random.randrange(len(data) + 1)
    before, behind = data[:at], data[at:]
    kind = random.randrange(7)
    if kind == 0:
        behind = b""
    elif kind == 1 and behind:
        behind = bytes([behind[0] ^ 1 << random.randrange(8)]) + behind[1:]
    elif kind == 2:
        behind = random.randbytes(random.randrange(1, 9)) + behind
    elif kind == 3:
        behind = behind[random.randrange(1, 9) :]
    elif kind == 4:
        behind = behind[: random.randrange(1, 40)] + behind
    elif kind == 5:
        size, letter = random.choice(((2, ">h"), (4, ">i")))
        limit = 1 << 8 * size - 1
        number = max(-limit, min(limit - 1, random.choice(ODD)))
        behind = struct.pack(letter, number) + behind[size:]
    else:
        behind = bytes([random.randrange(256)]) * random.choice((1, 2, 200)) + behind
    return before + behind


def proxy_header(random: Random) -> bytes:
    kind, size = random.choice(((0x11, 4), (0x21, 16), (0x00, 0), (0x31, 108)))
    addresses = random.randbytes(2 * size + 4)
    more = random.randbytes(random.choice((0, 0, 7, 300)))
    rest = addresses + more
    return SIGNATURE + struct.pack(">BBH", random.choice((0x20, 0x21)), kind, len(rest)) + rest


class Signer:
    """Who gives tokens, and tokens that nobody gave."""

    def __init__(self, folder: Path) -> None:
        import jwt
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._jwt: Any = jwt
        self._key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self._public = self._key.public_key().public_bytes(*raw)
        known = {"kty": "OKP", "crv": "Ed25519", "kid": "one", "alg": "EdDSA"}
        file = folder / "keys.json"
        file.write_text(json.dumps({"keys": [{**known, "x": _plain_base64(self._public)}]}))
        self.keys_url = f"file://{file}"
        self._good = self._signed({})
        self._others = [self._signed({name: None}) for name in ("exp", "iss", "aud", "sub")]
        self._others += [
            self._signed({"aud": "other"}),
            self._signed({"exp": 1}),
            self._signed({"iss": "x"}),
            self._signed({"sub": 7}),
            self._signed({}, kid="unknown"),
            self._unsigned("none", b""),
            self._unsigned("HS256", None),
            "..",
            "a.b.c",
            "",
        ]

    def token(self) -> str:
        return self._good

    def bad_token(self, random: Random) -> bytes:
        if random.random() < 0.5:
            return random.choice(self._others).encode()
        while True:
            # A bit that says nothing may be the one that is changed.
            found = mutated(self._good.encode(), random)
            if found.strip(b" \x01\0").rstrip(b"=") != self._good.encode():
                return found

    def _signed(self, claims: dict[str, Any], kid: str = "one") -> str:
        all_claims = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "exp": FOR_EVER_S} | claims
        said = {name: value for name, value in all_claims.items() if value is not None}
        return str(self._jwt.encode(said, self._key, algorithm="EdDSA", headers={"kid": kid}))

    def _unsigned(self, algorithm: str, signature: bytes | None) -> str:
        header = _plain_base64(json.dumps({"alg": algorithm, "kid": "one"}).encode())
        said = f"{header}.{self._good.split('.')[1]}"
        if signature is None:
            # By what everybody may know.
            signature = hmac.digest(self._public, said.encode(), "sha256")
        return f"{said}.{_plain_base64(signature)}"


def _plain_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _keystore(folder: Path) -> str:
    file = folder / "both.pem"
    file.write_text((TLS / "certificate.pem").read_text() + (TLS / "key.pem").read_text())
    return str(file)


@asynccontextmanager
async def knocks(folder: Path, seed: int) -> AsyncIterator[Knocks]:
    with warnings.catch_warnings():
        # A handshake that fails leaves one behind that asyncio has not closed.
        warnings.filterwarnings("ignore", "unclosed transport", ResourceWarning)
        try:
            async with Machine().broker() as broker:
                salt, password = b"the salt of ann.", PASSWORD.encode()
                made = tuple(credential(each, password, salt, 4096) for each in Mechanism)
                broker.lanes.controller.submit(AlterUser(USER, made))
                # It would tell of nothing else.
                broker.audit = Audit(LoopClock(), lambda event, **values: None)
                with mock.patch("hashlib.pbkdf2_hmac", lru_cache(10_000)(hashlib.pbkdf2_hmac)):
                    # Milliseconds each time, and the same ones again and again.
                    yield Knocks(broker, folder, seed)
        finally:
            gc.collect()
