"""What security costs: TLS, sign-ins, access lists, and those who never come in."""

import re
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

from bench import load, processes
from bench.figures import Figure, Plan
from semel.access.access_list import AccessList
from semel.access.principal import Caller, Principal
from semel.access.rights import AccessSettings, CallersRights
from semel.access.rules import ANY, PatternType, Permission, Rule
from semel.client.connecting.sasl import exchange
from semel.security import Sasl
from semel.testing import Broker
from semel.wire.apis import BY_KEY
from semel.wire.messages import create_acls, sasl_authenticate, sasl_handshake
from semel.wire.rights import WRITE_TOPIC, Operation, ResourceType

TOPIC: Final = "bench"
KB: Final = 1024
TLS: Final = Path(__file__).parent.parent / "tests" / "support" / "tls"
USER, PASSWORD = "bench", "a password"
LISTENERS: Final = ("OPEN", "SECURE", "SIGNED", "BOTH")
MAP: Final = "OPEN:PLAINTEXT,SECURE:SSL,SIGNED:SASL_PLAINTEXT,BOTH:SASL_SSL"
_ENDPOINT: Final = re.compile(r"([A-Z]+)://[^,:]+:(\d+)")
ASKING: Final = Principal("User", "asking")
STRANGERS: Final = 1_000
STRANGERS_PER_HOST: Final = 20
HANDSHAKES_PER_S: Final = 80
"""Fewer than the broker lets come."""
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@contextmanager
def secured(**settings: object) -> Iterator[tuple[Broker, dict[str, int]]]:
    """A durable broker, and the ports of its listeners."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as name:
        folder = Path(name)
        certificate = folder / "certificate.pem"
        certificate.write_text(
            (TLS / "certificate.pem").read_text() + (TLS / "key.pem").read_text()
        )
        users = folder / "users.toml"
        users.write_text(f'{USER} = "{PASSWORD}"\n')
        users.chmod(0o600)
        with Broker(
            data=folder / "data",
            settings={
                "listener.security.protocol.map": MAP,
                "ssl.keystore.location": certificate,
                "listener.name.both.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "initial.users": users,
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
            arguments=["--listen", ",".join(f"{each}://127.0.0.1:0" for each in LISTENERS)],
        ) as broker:
            ports = {name: int(port) for name, port in _ENDPOINT.findall(broker.ready)}
            yield broker, ports


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def over_tls(context: ssl.SSLContext, port: int) -> socket.socket:
    return context.wrap_socket(load.connected(port))


def signed_in(
    port: int, connect: load.Connect = load.connected, password: str = PASSWORD
) -> socket.socket:
    """By SCRAM. The users of a file are made soon after the start. Raises ConnectionError."""
    link = connect(port)
    link.sendall(load.request(17, 1, sasl_handshake.SaslHandshakeRequest("SCRAM-SHA-256")))
    load.receive_exactly(link)
    messages = exchange(Sasl("SCRAM-SHA-256", USER, password), "nonce of a client")
    try:
        message = next(messages)
        while True:
            request = sasl_authenticate.SaslAuthenticateRequest(message)
            link.sendall(load.request(36, 2, request))
            # Behind the correlation id and the tags.
            reply, _ = BY_KEY[36].decode_response(load.receive_exactly(link), 5, 2)
            if reply.error_code:
                raise ConnectionRefusedError(reply.error_message)
            message = messages.send(bytes(reply.auth_bytes))
    except StopIteration:
        return link


def _cpu_us(
    port: int, process_id: int, frame: bytes, plan: Plan, connect: load.Connect = load.connected
) -> float:
    before = processes.cpu_seconds(process_id)
    done = load.run(
        port, lambda: frame, connections=4, in_flight=5, seconds=plan.seconds, connect=connect
    )
    return (processes.cpu_seconds(process_id) - before) / done.replies * 1e6


def produce_over_tls(plan: Plan) -> Iterator[Figure]:
    """CPU of the broker for 16 KB with acks=1, over TLS and plain, by turns."""
    frame = load.produce_request(TOPIC, 0, 16 * KB, acks=1)
    tls = partial(over_tls, _context())
    plain_us, tls_us = [], []
    with secured() as (broker, ports):
        load.wait_for_topic(ports["OPEN"], TOPIC)
        for _ in range(plan.repeats):
            plain_us.append(_cpu_us(ports["OPEN"], broker.process_id, frame, plan))
            tls_us.append(_cpu_us(ports["SECURE"], broker.process_id, frame, plan, tls))
    plain, secure = statistics.median(plain_us), statistics.median(tls_us)
    yield Figure(
        "produce of 16 KB: CPU over TLS / plain",
        secure / plain,
        "<= 3",
        {"plain_us": plain, "tls_us": secure},
    )


def _handshake_us(port: int, process_id: int, context: ssl.SSLContext, count: int) -> float:
    before = processes.cpu_seconds(process_id)
    began_s = time.perf_counter()
    for number in range(count):
        with over_tls(context, port) as link:
            assert link.fileno() >= 0
        # Both as often: what comes after a pause costs more than what comes at once.
        time.sleep(max(0, began_s + number / HANDSHAKES_PER_S - time.perf_counter()))
    return (processes.cpu_seconds(process_id) - before) / count * 1e6


def handshake_cost(plan: Plan) -> Iterator[Figure]:
    """CPU of the broker for a connection with TLS, over that of a bare asyncio server."""
    context = _context()
    count = int(plan.seconds * HANDSHAKES_PER_S)
    bare_us, semel_us = [], []
    with ExitStack() as stack:
        broker, ports = stack.enter_context(secured())
        certificate = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "both.pem"
        certificate.write_text(
            (TLS / "certificate.pem").read_text() + (TLS / "key.pem").read_text()
        )
        bare_port, bare_id = stack.enter_context(
            processes.bare_server("handshake", str(certificate))
        )
        for _ in range(2 * plan.repeats):
            bare_us.append(_handshake_us(bare_port, bare_id, context, count))
            semel_us.append(_handshake_us(ports["BOTH"], broker.process_id, context, count))
    bare, semel = statistics.median(bare_us), statistics.median(semel_us)
    yield Figure(
        "TLS handshake: CPU / bare asyncio server",
        semel / bare,
        "<= 1.2",
        {"bare_us": bare, "semel_us": semel},
    )


def produce_with_access_lists(plan: Plan) -> Iterator[Figure]:
    """CPU of the broker for 1 KB with acks=1, with a rule that allows it and without any, by
    turns."""
    frame = load.produce_request(TOPIC, 0, KB, acks=1)
    free_us, ruled_us = [], []
    with ExitStack() as stack:
        free, free_ports = stack.enter_context(secured())
        ruled, ruled_ports = stack.enter_context(
            secured(authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS")
        )
        load.wait_for_topic(ruled_ports["OPEN"], TOPIC)
        load.wait_for_topic(free_ports["OPEN"], TOPIC)
        creation = create_acls.AclCreation(
            ResourceType.TOPIC, TOPIC, PatternType.LITERAL, f"User:{USER}", ANY,
            Operation.WRITE, Permission.ALLOW,
        )  # fmt: skip
        allowing = create_acls.CreateAclsRequest([creation])
        load.ask(ruled_ports["OPEN"], load.request(30, 2, allowing))
        # The shares of two processes differ from turn to turn more than what is measured.
        for _ in range(3 * plan.repeats):
            free_us.append(_cpu_us(free_ports["SIGNED"], free.process_id, frame, plan, signed_in))
            ruled_us.append(
                _cpu_us(ruled_ports["SIGNED"], ruled.process_id, frame, plan, signed_in)
            )
    ratios = [ruled / free for free, ruled in zip(free_us, ruled_us, strict=True)]
    yield Figure(
        "produce of 1 KB: CPU with access lists / without",
        statistics.median(ratios),
        "<= 1.05",
        {"without_us": statistics.median(free_us), "with_us": statistics.median(ruled_us)},
    )


def _rules(count: int) -> Iterator[Rule]:
    """All about who asks, with prefixes of many sizes: the most that there is to look at."""
    for number in range(count):
        yield Rule(
            ResourceType.TOPIC,
            f"topic-{number}" + "-" * (number % 50),
            PatternType.PREFIXED if number % 2 else PatternType.LITERAL,
            ASKING,
            ANY,
            Operation.WRITE,
            Permission.ALLOW,
        )


def many_rules(plan: Plan) -> Iterator[Figure]:
    """What it takes to ask for a right with 1,000 rules and with 10: one that the connection has
    asked for before, and one that it has not."""
    names = [f"topic-{number}-x" for number in range(500)]
    settings = AccessSettings()

    def asked_again_us(access_list: AccessList) -> float:
        rights = CallersRights(
            Caller(ASKING, host="10.0.0.1"), lambda: access_list, settings, lambda *_: None
        )
        return min(_each_us(names, partial(rights.may_see, WRITE_TOPIC)) for _ in range(10))

    def decided_us(access_list: AccessList) -> float:
        allowed = partial(access_list.allowed, ASKING, "10.0.0.1", ResourceType.TOPIC)
        return min(_each_us(names, allowed) for _ in range(10))

    lists = {count: AccessList(_rules(count)) for count in (10, 1_000)}
    for what, measured, bound in (
        ("a right that was asked for before", asked_again_us, "<= 1.05"),
        ("a right that nobody remembers", decided_us, "<= 1.25"),
    ):
        # Other work on the machine makes it more, and never less.
        few, many = (
            min(measured(lists[count]) for _ in range(plan.repeats)) for count in (10, 1_000)
        )
        yield Figure(
            f"{what}: 1,000 rules / 10", many / few, bound, {"of_10_us": few, "of_1000_us": many}
        )


def _each_us(names: Sequence[str], ask: Callable[[str], object]) -> float:
    began = time.perf_counter()
    for name in names:
        ask(name)
    return (time.perf_counter() - began) / len(names) * 1e6


def beside_strangers(plan: Plan) -> Iterator[Figure]:
    """The rate of a client that has signed in, beside others who have not, over that alone."""
    frame = load.produce_request(TOPIC, 0, KB, acks=1)
    crowds: dict[str, Callable[[dict[str, int]], object]] = {
        "1,000 who say nothing": lambda ports: Silent(ports["SIGNED"]),
        "a flood of sign-ins by SCRAM": lambda ports: Flood("scram", ports["SIGNED"]),
        "a flood of sign-ins by PLAIN": lambda ports: Flood("plain", ports["BOTH"]),
    }
    with secured() as (_, ports):
        load.wait_for_topic(ports["OPEN"], TOPIC)

        def rate() -> float:
            done = load.run(
                ports["SIGNED"],
                lambda: frame,
                connections=1,
                in_flight=5,
                seconds=plan.seconds,
                connect=signed_in,
            )
            return done.replies / done.seconds

        for name, crowd in crowds.items():
            alone, beside = [], []
            for _ in range(2 * plan.repeats):
                alone.append(rate())
                with crowd(ports):  # type: ignore[attr-defined]
                    # What may be used at once is used first.
                    rate()
                    beside.append(rate())
            # Each with the one before it: a machine is not from minute to minute what it was.
            ratios = [its / others for its, others in zip(beside, alone, strict=True)]
            yield Figure(
                f"rate beside {name} / alone",
                statistics.median(ratios),
                ">= 0.8",
                {
                    "alone_per_s": statistics.median(alone),
                    "beside_per_s": statistics.median(beside),
                    "least": min(ratios),
                    "most": max(ratios),
                },
            )


class Silent:
    """As many as the broker keeps at the door, from as many addresses as that takes."""

    def __init__(self, port: int) -> None:
        hosts = [f"127.0.1.{1 + number}" for number in range(STRANGERS // STRANGERS_PER_HOST)]
        hosts_in_turn = cycle(hosts)
        self._links: Sequence[socket.socket] = [
            socket.create_connection(("127.0.0.1", port), source_address=(next(hosts_in_turn), 0))
            for _ in range(STRANGERS)
        ]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for link in self._links:
            link.close()


class Flood:
    """Wrong passwords from many addresses, as fast as the broker refuses them."""

    def __init__(self, kind: str, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.flood", kind, str(port)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()
