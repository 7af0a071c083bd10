"""An OpenID provider's address of keys: a small server of HTTP, over TLS where it has a
certificate."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class KeyServer:
    """Answers with what stands in the file, and elsewhere sends on."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []


@contextmanager
def key_server(
    keys: Path, certificate: Path | None = None, sends_on: Mapping[str, str] | None = None
) -> Iterator[KeyServer]:
    """`sends_on` has paths, and where who asks for them is sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            one.asked.append(self.path)
            elsewhere = (sends_on or {}).get(self.path)
            if elsewhere is None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(keys.read_bytes())
            else:
                self.send_response(302)
                self.send_header("Location", elsewhere)
                self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *words: object) -> None:
            """Whoever does not trust it goes in the middle of a handshake."""

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    scheme = "http" if certificate is None else "https"
    one = KeyServer(f"{scheme}://localhost:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
