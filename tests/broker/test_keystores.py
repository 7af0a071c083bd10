"""Brokers whose certificates lie in stores that keytool has made: JKS and PKCS12."""

import shutil
import socket
import ssl
import sys
import tempfile
from pathlib import Path

import kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from semel.broker.certificates import server_context
from semel.broker.config import BrokerConfig
from semel.errors import ConfigError
from semel.keystores import load_own
from semel.security import Tls, tls_context
from semel.testing import Broker
from support.secured_in_thread import SecuredInThread
from support.signing_in import ports_of

STORES = Path(__file__).parent.parent / "client" / "stores"
PASSWORD, KEY_PASSWORD = "opensesame", "otherword"
PATIENCE_S = 20.0


def secrets(folder: Path) -> tuple[str, str]:
    """References to the passwords of the stores, and of the key in one."""
    (file := folder / "password").write_text(PASSWORD)
    (key_file := folder / "key-password").write_text(KEY_PASSWORD)
    return f"${{file:{file}}}", f"${{file:{key_file}}}"


def test_clients_come_in_over_certificates_of_both_kinds(tmp_path: Path) -> None:
    password, key_password = secrets(tmp_path)
    settings = {
        "listeners": "OLD://127.0.0.1:0,NEW://127.0.0.1:0",
        "listener.security.protocol.map": "OLD:SSL,NEW:SSL",
        "ssl.keystore.password": password,
        "ssl.truststore.password": password,
        "listener.name.old.ssl.keystore.location": STORES / "key.jks",
        "listener.name.old.ssl.keystore.type": "JKS",
        "listener.name.old.ssl.key.password": key_password,
        "listener.name.old.ssl.truststore.location": STORES / "trust.jks",
        "listener.name.old.ssl.truststore.type": "jks",
        "listener.name.old.ssl.client.auth": "required",
        "listener.name.new.ssl.keystore.location": STORES / "key.p12",
        "listener.name.new.ssl.keystore.type": "PKCS12",
    }
    with Broker(settings=settings) as broker:
        ports = ports_of(broker.ready)
        admin = AdminClient(
            {
                "bootstrap.servers": f"localhost:{ports['NEW']}",
                "security.protocol": "SSL",
                "ssl.ca.location": str(STORES / "p12.pem"),
            }
        )
        assert admin.list_topics(timeout=PATIENCE_S).brokers
        (described,) = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.BROKER, "1")]
        ).values()
        shown = described.result(PATIENCE_S)
        assert shown["ssl.keystore.password"].is_sensitive
        assert not any(
            word in str(each.value) for each in shown.values() for word in (PASSWORD, KEY_PASSWORD)
        )
        mutual = tls_context(
            Tls(
                str(STORES / "trust.jks"),
                str(STORES / "key.jks"),
                key_password=KEY_PASSWORD,
                trusted_password=PASSWORD,
                certificate_password=PASSWORD,
            )
        )
        client = kafka.KafkaAdminClient(
            bootstrap_servers=f"localhost:{ports['OLD']}",
            security_protocol="SSL",
            ssl_context=mutual,
        )
        assert client.describe_cluster()["brokers"]
        client.close()
        assert PASSWORD not in broker.complaints()


def seen(port: int) -> bytes:
    """The certificate that is shown to who connects now."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as raw,
        anyone.wrap_socket(raw) as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def test_a_store_is_read_anew_and_one_that_does_not_open_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    password, key_password = secrets(tmp_path)
    shutil.copy(STORES / "key.jks", store := tmp_path / "store")
    settings = [
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.location={store}",
        f"ssl.keystore.password={password}",
        f"ssl.key.password={key_password}",
    ]
    with SecuredInThread(tmp_path, settings) as server:
        first = seen(server.port)
        shutil.copy(STORES / "key.p12", store)
        server.do(lambda _: server.listening.reload())
        second = seen(server.port)
        assert second != first
        store.write_bytes(store.read_bytes()[:-9])
        server.do(lambda _: server.listening.reload())
        assert seen(server.port) == second


def refusal(**changed: str) -> str:
    settings = {
        "ssl_keystore_location": str(STORES / "key.jks"),
        "ssl_keystore_password": PASSWORD,
        "ssl_key_password": KEY_PASSWORD,
        **changed,
    }
    with pytest.raises(ConfigError) as refused:
        server_context(BrokerConfig(**settings))  # type: ignore[arg-type]
    assert PASSWORD not in str(refused.value)
    return str(refused.value).partition(": ")[2]


def test_what_is_wrong_with_a_store_is_said() -> None:
    assert refusal(ssl_keystore_password="x") == "the password does not open it, or it is damaged"
    assert refusal(ssl_keystore_password="").startswith("it is a store of Java's, which has a pass")
    assert refusal(ssl_key_password="x").startswith("the password of the key is another")
    assert "no private key" in refusal(ssl_keystore_location=str(STORES / "trust.jks"))
    trusting = {"ssl_client_auth": "required", "ssl_truststore_location": str(STORES / "trust.p12")}
    assert "which has a password" in refusal(**trusting)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a file can be in memory")
def test_no_disk_keeps_a_key_that_was_in_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a file was made")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_own(context, str(STORES / "key.jks"), None, KEY_PASSWORD, PASSWORD)
