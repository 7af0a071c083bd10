"""`python -m bench.flood scram|plain PORT`: sign-ins with wrong passwords, until it is killed."""

import asyncio
import base64
import os
import ssl
import struct
import sys

from bench import load
from semel.wire.messages import sasl_authenticate, sasl_handshake

AT_ONCE = 40
HOSTS = 20
_SIZE = struct.Struct(">i")


async def _sign_in(kind: str, port: int, number: int, context: ssl.SSLContext | None) -> None:
    mechanism = "PLAIN" if kind == "plain" else "SCRAM-SHA-256"
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, local_addr=(f"127.0.2.{1 + number % HOSTS}", 0)
    )

    async def ask(key: int, version: int, request: object) -> bytes:
        writer.write(load.request(key, version, request))
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        return await reader.readexactly(size)

    try:
        await ask(17, 1, sasl_handshake.SaslHandshakeRequest(mechanism))
        first = b"\0bench\0wrong" if kind == "plain" else b"n,,n=bench,r=nonce"
        reply = await ask(36, 1, sasl_authenticate.SaslAuthenticateRequest(first))
        if kind == "scram":
            nonce = reply[reply.index(b"r=") + 2 : reply.index(b",s=")]
            # What it does not know costs nothing to say.
            proof = base64.b64encode(os.urandom(32))
            final = b"c=biws,r=" + nonce + b",p=" + proof
            await ask(36, 1, sasl_authenticate.SaslAuthenticateRequest(final))
    finally:
        writer.transport.abort()


async def _again_and_again(kind: str, port: int, number: int) -> None:
    context = None
    if kind == "plain":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    while True:
        try:
            await _sign_in(kind, port, number, context)
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.01)


async def _main(kind: str, port: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(AT_ONCE):
            tasks.create_task(_again_and_again(kind, port, number))
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
