"""A server that knows TLS, SASL and one API: enough of a secured broker to sign in to."""

import asyncio
import base64
import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from semel.client.connecting.address import Address
from semel.wire.apis import BY_KEY
from semel.wire.messages import api_versions, list_groups, sasl_authenticate, sasl_handshake

CERTIFICATE = Path(__file__).parent / "tls" / "certificate.pem"
_KEY = CERTIFICATE.with_name("key.pem")
_FAILED, _NO_SUCH_MECHANISM = 58, 33
_SERVED = (18, 17, 36, 16)
_FRAME_SIZE_MAX = 65_536
_GRACE_S = 5.0
"""A busy machine may hold up who signs in again in time; who never does is found out."""
_SALT, _ITERATIONS = b"some salt", 4096

USER, PASSWORD = "ana,=", "tulip"
TOKEN = "header.body.signature"


@dataclass
class SignIns:
    """What came over the connections of a server."""

    lifetime_ms: int = 0
    count: int = 0
    requests: list[int] = field(default_factory=list)
    """The API of each."""


@asynccontextmanager
async def secured_server(
    *, has_tls: bool, mechanism: str, seen: SignIns | None = None
) -> AsyncIterator[Address]:
    seen = seen or SignIns()
    context = None
    if has_tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE, _KEY)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _serve(reader, writer, mechanism, seen)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mechanism: str, seen: SignIns
) -> None:
    loop = asyncio.get_running_loop()
    check: Generator[Answer, bytes, None] | None = None
    is_signed_in, ends_s = False, float("inf")
    while True:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _FRAME_SIZE_MAX:
            return
        frame = await reader.readexactly(size)
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        name_size = int.from_bytes(frame[8:10], "big")
        is_flexible = version >= BY_KEY[key].flexible_version_min
        body = 10 + name_size + is_flexible
        seen.requests.append(key)
        if key == 17:
            check = _check(mechanism)
            next(check)
            asked, _ = sasl_handshake.decode_request(frame, body, version)
            refused = 0 if asked.mechanism == mechanism else _NO_SUCH_MECHANISM
            answer = sasl_handshake.encode_response(
                sasl_handshake.SaslHandshakeResponse(refused, [mechanism]), version
            )
        elif key == 36:
            proof, _ = sasl_authenticate.decode_request(frame, body, version)
            assert check is not None, "an answer without a handshake"
            error_code, reply, is_signed_in = check.send(bytes(proof.auth_bytes))
            lifetime_ms = 0
            if is_signed_in:
                check = None
                seen.count += 1
                lifetime_ms = seen.lifetime_ms
                if lifetime_ms:
                    ends_s = loop.time() + lifetime_ms / 1000 + _GRACE_S
            answer = sasl_authenticate.encode_response(
                sasl_authenticate.SaslAuthenticateResponse(error_code, None, reply, lifetime_ms),
                version,
            )
        elif key == 18:
            known = [
                api_versions.ApiVersion(each, BY_KEY[each].version_min, BY_KEY[each].version_max)
                for each in _SERVED
            ]
            answer = api_versions.encode_response(
                api_versions.ApiVersionsResponse(0, known), version
            )
        else:
            if not is_signed_in or check is not None or loop.time() > ends_s:
                return
            answer = list_groups.encode_response(list_groups.ListGroupsResponse(), version)
        tags = b"\0" if is_flexible and key != 18 else b""
        reply_bytes = frame[4:8] + tags + b"".join(bytes(part) for part in answer)
        writer.write(len(reply_bytes).to_bytes(4, "big") + reply_bytes)


Answer = tuple[int, bytes, bool]


def _check(mechanism: str) -> Generator[Answer, bytes, None]:
    if mechanism == "PLAIN":
        return _plain()
    return _bearer() if mechanism == "OAUTHBEARER" else _scram("sha" + mechanism[-3:])


def _bearer() -> Generator[Answer, bytes, None]:
    given = yield (0, b"", False)
    if given == f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode():
        yield (0, b"", True)
    else:
        assert (yield (0, b'{"status":"invalid_token"}', False)) == b"\x01"
        yield (_FAILED, b"", False)


def _plain() -> Generator[Answer, bytes, None]:
    given = yield (0, b"", False)
    is_right = given == f"\0{USER}\0{PASSWORD}".encode()
    yield (0 if is_right else _FAILED, b"", is_right)


def _scram(digest: str) -> Generator[Answer, bytes, None]:
    first = (yield (0, b"", False)).decode()
    bare = first.removeprefix("n,,")
    name, nonce = (part[2:] for part in bare.split(","))
    assert name == USER.replace("=", "=3D").replace(",", "=2C")
    offer = f"r={nonce}server,s={base64.b64encode(_SALT).decode()},i={_ITERATIONS}"
    final = (yield (0, offer.encode(), False)).decode()
    unproven, _, proof = final.rpartition(",p=")
    signed = f"{bare},{offer},{unproven}".encode()
    salted = hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), _SALT, _ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    expected = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    is_right = base64.b64decode(proof) == expected
    server_key = hmac.digest(salted, b"Server Key", digest)
    verifier = base64.b64encode(hmac.digest(server_key, signed, digest))
    yield (0 if is_right else _FAILED, b"v=" + verifier, is_right)
