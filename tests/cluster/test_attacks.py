"""Who attacks a broker, workers or nodes gets nothing, leaves nothing, and keeps nobody out."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AclOperation, ResourceType

from semel.access.sasl import INVALID_TOKEN
from semel.client.connecting.sasl import exchange
from semel.security import Sasl
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.besieged import HOMES, PASSWORD, PATIENCE_S, ROOT, Besieged, besieged
from support.raw_client import decoded_reply as decoded
from support.raw_client import (
    encoded,
    fetch_request,
    fetched_values,
    produce_values,
    request_frame,
)
from support.secured_in_thread import sign_in
from support.ways_in import FOR_EVER_S

TOPIC_REFUSED, ILLEGAL_MECHANISM, NOT_SIGNED_IN = 29, 33, 58
FLOOD = 60


@pytest.fixture(scope="module", params=HOMES)
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Besieged]:
    with besieged(request.param, tmp_path_factory.mktemp(request.param)) as one:
        yield one


def ends(link: socket.socket) -> bool:
    """Whether the broker says nothing more, and closes."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        return link.recv(1) == b""
    return True


def test_who_never_ends_a_handshake_is_gone_in_time_and_others_come_in(home: Besieged) -> None:
    with contextlib.ExitStack() as stack:
        half_open = []
        for port in home.ports:
            for begin in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
                for _ in range(10):
                    link = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
                    half_open.append(stack.enter_context(link))
                    link.sendall(begin)
        for port in home.ports:
            with home.user(ROOT, port) as root:
                root.call("metadata", 9, MetadataRequest(None))
        assert all(map(ends, half_open))


def test_slow_and_huge_frames_end_before_anybody_has_signed_in(home: Besieged) -> None:
    for port in home.ports:
        for size in (2**31 - 1, 100 * 2**20, 2**20 + 1, -1):
            with home.stranger(port) as stranger:
                stranger.send(size.to_bytes(4, "big", signed=True))
                assert stranger.is_closed_by_broker
        with home.stranger(port) as stranger:
            # More of it all the time, and never the end.
            stranger.send((60_000).to_bytes(4, "big"))
            stranger._socket.settimeout(0.02)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while True:
                    stranger.send(b"\0")
                    with contextlib.suppress(TimeoutError):
                        assert stranger._socket.recv(1) == b""
                        break
        with home.stranger(port) as stranger:
            stranger.send(b"\0")
            assert stranger.is_closed_by_broker


def test_nobody_gets_an_older_tls_a_mechanism_that_is_not_offered_or_another_api(
    home: Besieged,
) -> None:
    for port in home.ports:
        with home.stranger(port) as stranger:
            reply = stranger.call("sasl_handshake", 1, SaslHandshakeRequest("GSSAPI"))
            assert reply.error_code == ILLEGAL_MECHANISM
            assert stranger.is_closed_by_broker
        with home.stranger(port) as stranger:
            asked = encoded("metadata", 9, MetadataRequest(None))
            stranger.send(request_frame("metadata", 9, asked))
            assert stranger.is_closed_by_broker
        # Plain text where TLS is spoken.
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as link:
            link.sendall(request_frame("metadata", 9, asked))
            assert ends(link)


def test_what_was_overheard_and_tokens_that_nobody_signed_let_nobody_in(home: Besieged) -> None:
    for port in home.ports:
        heard: list[bytes] = []
        with home.user(ROOT, port):
            pass
        with home.stranger(port) as meant:
            meant.call("sasl_handshake", 1, SaslHandshakeRequest("SCRAM-SHA-256"))
            messages = exchange(Sasl("SCRAM-SHA-256", ROOT, PASSWORD), "n" * 32)
            message = next(messages)
            for _ in range(2):
                heard.append(message)
                reply = meant.call("sasl_authenticate", 2, SaslAuthenticateRequest(message))
                assert reply.error_code == 0
                with contextlib.suppress(StopIteration):
                    message = messages.send(bytes(reply.auth_bytes))
        with home.stranger(port) as again:
            again.call("sasl_handshake", 1, SaslHandshakeRequest("SCRAM-SHA-256"))
            codes = [
                again.call("sasl_authenticate", 2, SaslAuthenticateRequest(each)).error_code
                for each in heard
            ]
            assert codes == [0, NOT_SIGNED_IN]
            assert again.is_closed_by_broker
        good: dict[str, object] = {"sub": ROOT, "exp": FOR_EVER_S}
        bad: tuple[tuple[str, dict[str, object]], ...]
        bad = ("none", {}), ("HS256", {}), ("RS256", {"aud": "others"}), ("RS256", {"exp": 1})
        for algorithm, claims in bad:
            with home.stranger(port) as forger:
                forger.call("sasl_handshake", 1, SaslHandshakeRequest("OAUTHBEARER"))
                token = home.signed(algorithm, **{**good, **claims})
                said = SaslAuthenticateRequest(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
                assert forger.call("sasl_authenticate", 2, said).auth_bytes == INVALID_TOKEN
                said = SaslAuthenticateRequest(b"\x01")
                assert forger.call("sasl_authenticate", 2, said).error_code == NOT_SIGNED_IN
                assert forger.is_closed_by_broker


def test_a_flood_of_sign_ins_keeps_nobody_out_and_loses_nothing(home: Besieged) -> None:
    topic = "flooded"
    port = home.create_topic(topic)
    home.allow("kim", AclOperation.WRITE, topic)
    is_over = threading.Event()

    def guess(number: int) -> int:
        tried = 0
        mechanism = ("PLAIN", "SCRAM-SHA-512")[number % 2]
        while not is_over.is_set():
            # Whose turn does not come is cut off.
            with (
                contextlib.suppress(OSError, AssertionError),
                home.stranger(home.ports[number % len(home.ports)]) as stranger,
            ):
                assert sign_in(stranger, ROOT, f"rose {tried}", mechanism).error_code
                tried += 1
        return tried

    settings = {**home.settings, "sasl.username": "kim", "linger.ms": 0}
    failed: list[object] = []
    producer = Producer(settings)
    with ThreadPoolExecutor(8) as guessing:
        tries = [guessing.submit(guess, number) for number in range(8)]
        try:
            for number in range(FLOOD):
                producer.produce(
                    topic,
                    b"%03d" % number,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
                assert producer.flush(PATIENCE_S) == 0
        finally:
            is_over.set()
    assert failed == []
    assert sum(each.result() for each in tries) > 0
    with home.user(ROOT, port) as root:
        assert fetched_values(root, topic) == [b"%03d" % number for number in range(FLOOD)]


def test_a_user_who_is_deleted_is_out_at_every_process(home: Besieged) -> None:
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(home.user("eve", port)) for port in home.ports]
        for each in sessions:
            each.call("metadata", 9, MetadataRequest(None))
        home.delete_user("eve")
        # Without a request, as who only listens is to go as well.
        assert all(each.is_closed_by_broker for each in sessions)
    for port in home.ports:
        with home.stranger(port) as stranger:
            assert sign_in(stranger, "eve", PASSWORD).error_code == NOT_SIGNED_IN


def test_a_right_that_goes_is_gone_for_a_fetch_that_waits(home: Besieged) -> None:
    topic = "read"
    port = home.create_topic(topic)
    home.allow("ana", AclOperation.READ, topic)
    with home.user("ana", port) as reader, home.user(ROOT, port) as root:
        assert fetched_values(reader, topic) == []
        wanted = fetch_request(topic, 0, max_wait_ms=30_000)
        reader.send(request_frame("fetch", 11, encoded("fetch", 11, wanted)))
        home.take_from("ana")
        produce_values(root, topic, [b"secret"])
        reply = reader.receive()
        assert reply is not None
        assert b"secret" not in reply
        (found,) = decoded("fetch", 11, reply).responses[0].partitions
        assert (found.error_code, bytes(found.records or b"")) == (TOPIC_REFUSED, b"")
        assert fetched_values(root, topic) == [b"secret"]


def test_a_right_that_goes_in_mid_transaction_commits_nothing(home: Besieged) -> None:
    topic = "written"
    home.create_topic(topic)
    home.allow("bo", AclOperation.WRITE, topic)
    home.allow("bo", AclOperation.WRITE, "tx", ResourceType.TRANSACTIONAL_ID)
    transactional = {**home.settings, "transactional.id": "tx"}
    producer = Producer({**transactional, "sasl.username": "bo"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"while it was allowed")
    assert producer.flush(PATIENCE_S) == 0
    home.take_from("bo")
    producer.produce(topic, b"afterwards")
    with pytest.raises(KafkaException, match=r"(?i)authoriz"):
        producer.commit_transaction(PATIENCE_S)
    # Whoever takes its place finds nothing of it.
    successor = Producer(transactional)
    successor.init_transactions(PATIENCE_S)
    successor.begin_transaction()
    successor.produce(topic, b"allowed")
    successor.commit_transaction(PATIENCE_S)
    reading = {"group.id": "g", "auto.offset.reset": "earliest"}
    reader = Consumer({**home.settings, **reading})
    reader.subscribe([topic])
    found = None
    until = time.monotonic() + PATIENCE_S
    while found is None:
        found = reader.poll(1)
        assert time.monotonic() < until
    assert (found.error(), found.value()) == (None, b"allowed")
    reader.close()
