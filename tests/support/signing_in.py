"""A broker that clients sign in to, with users that it is told of in a file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from semel.testing import Broker
from support.authority import Authority

LISTENERS = ("PLAIN", "INNER", "OUTER", "CERTIFIED")
"""In the order of their ports: without a sign-in, SASL_PLAINTEXT, SASL_SSL, SSL."""
USERS = {"ana": "tulip", "bo,=": "röse"}


class Secured:
    def __init__(self, broker: Broker, authority: Authority, ports: Mapping[str, int]) -> None:
        self.broker = broker
        self.authority = authority
        self.ports = ports

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"


@contextmanager
def secured(
    folder: Path, settings: Mapping[str, object] | None = None, workers: int = 1
) -> Iterator[Secured]:
    authority = Authority(folder)
    users = folder / "users.toml"
    users.write_text("".join(f'"{name}" = "{word}"\n' for name, word in USERS.items()))
    users.chmod(0o600)
    broker = Broker(
        workers=workers,
        settings={
            "listener.security.protocol.map": (
                "PLAIN:PLAINTEXT,INNER:SASL_PLAINTEXT,OUTER:SASL_SSL,CERTIFIED:SSL"
            ),
            "ssl.keystore.location": authority.certificate("broker"),
            "ssl.truststore.location": authority.trusted,
            "listener.name.outer.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.certified.ssl.client.auth": "required",
            "initial.users": users,
            **(settings or {}),
        },
        arguments=["--listen", ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS)],
    )
    with broker:
        yield Secured(broker, authority, ports_of(broker.ready))


def ports_of(ready: str) -> Mapping[str, int]:
    """Of the first broker, as it has said them."""
    found: dict[str, int] = {}
    for endpoint in ready.removeprefix("Semel is ready on ").partition(", data in ")[0].split(","):
        name, _, port = endpoint.replace("://", ":").split(":")
        found.setdefault(name, int(port))
    return found
