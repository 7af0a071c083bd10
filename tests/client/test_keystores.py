"""Stores that keytool has made: both ends of a connection come out of them, or a sentence."""

import hashlib
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.errors import ConfigError
from semel.keystores import UnreadableStore, as_pem
from semel.security import Tls, tls_context

STORES = Path(__file__).parent / "stores"
PASSWORD, KEY_PASSWORD = "opensesame", "otherword"


def mutual(kind: str) -> Tls:
    return Tls(
        str(STORES / f"trust.{kind}"),
        str(STORES / f"key.{kind}"),
        key_password=KEY_PASSWORD if kind == "jks" else None,
        trusted_password=PASSWORD,
        certificate_password=PASSWORD,
    )


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_client_and_broker_meet_with_what_a_store_holds(kind: str, tmp_path: Path) -> None:
    store = as_pem((STORES / f"key.{kind}").read_bytes(), PASSWORD, KEY_PASSWORD)
    assert store is not None
    own = tmp_path / "broker.pem"
    own.write_text(store.text)
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(STORES / f"{kind}.pem"))
    broker.load_cert_chain(own)
    broker.verify_mode = ssl.CERT_REQUIRED
    client = tls_context(mutual(kind))
    assert client.check_hostname
    assert names_after_handshake(client, broker) == ("localhost", "localhost")


def names_after_handshake(client: ssl.SSLContext, broker: ssl.SSLContext) -> tuple[str, str]:
    to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_broker, server_hostname="localhost"),
        broker.wrap_bio(to_broker, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    assert not waiting
    seen_by_client, seen_by_broker = map(_name_of_peer, ends)
    return seen_by_client, seen_by_broker


def _name_of_peer(end: ssl.SSLObject) -> str:
    certificate = end.getpeercert()
    assert certificate is not None
    named: Any = certificate["subject"]
    return str(named[0][0][1])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"trusted_password": "wrong"}, r"trust\.jks: the password does not open it"),
        ({"trusted_password": None}, r"trust\.jks: it is a store of Java's, which has a password"),
        ({"key_password": "wrong"}, r"key\.jks: the password of the key is another: say ssl\.key"),
        ({"certificate_file": str(STORES / "trust.jks")}, "it has no private key"),
    ],
)
def test_what_does_not_open_is_told_with_the_file(
    changed: dict[str, str | None], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        tls_context(mutual("jks")._replace(**changed))  # type: ignore[arg-type]
    assert PASSWORD not in str(raised.value)


def test_pkcs12_with_another_password_is_told() -> None:
    with pytest.raises(ConfigError, match=r"trust\.p12: the password does not open it"):
        tls_context(Tls(str(STORES / "trust.p12"), trusted_password="wrong"))


def test_pkcs12_without_the_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(UnreadableStore, match=r"pip install cryptography.*openssl pkcs12"):
        as_pem((STORES / "key.p12").read_bytes(), PASSWORD)


def test_a_store_that_is_cut_is_told_wherever_it_is() -> None:
    whole = (STORES / "key.jks").read_bytes()[:-20]
    begin = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    for size in range(4, len(whole)):
        cut = whole[:size]
        with pytest.raises(UnreadableStore):
            as_pem(cut + hashlib.sha1(begin + cut).digest(), PASSWORD, KEY_PASSWORD)
        with pytest.raises(UnreadableStore, match="does not open it, or it is damaged"):
            as_pem(whole[:size], PASSWORD)


def test_what_is_no_store_is_left_to_openssl(tmp_path: Path) -> None:
    assert as_pem((STORES / "jks.pem").read_bytes(), PASSWORD) is None
    other = tmp_path / "other"
    other.write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigError, match="they have to be PEM, or a JKS or PKCS12 store"):
        tls_context(Tls(str(other)))
    other.write_bytes(b"\xce\xce\xce\xce")
    with pytest.raises(ConfigError, match="of the type JCEKS, so export it as PKCS12"):
        tls_context(Tls(str(other)))
