"""A proxy that speaks TLS to clients, in front of a broker that does not."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from semel.testing import Broker
from support.secured_server import CERTIFICATE


@contextmanager
def broker_behind_tls() -> Iterator[str]:
    """The address of the proxy, which is the one that the broker tells its clients, too."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("key.pem"))
    backend: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            while content := await reader.read(65_536):
                writer.write(content)
                await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", backend[0])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pump(reader, back_writer))
            tasks.create_task(pump(back_reader, writer))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(forward, "127.0.0.1", 0, ssl=context))
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever, name="tls-proxy")
    with Broker(arguments=("--advertise", address)) as broker:
        backend.append(int(broker.bootstrap_servers.rpartition(":")[2]))
        thread.start()
        try:
            yield address
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(server.wait_closed())
            loop.close()
