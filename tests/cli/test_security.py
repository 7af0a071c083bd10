"""Commands against clusters that ask for TLS or for a password."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from semel.cli.main import main
from semel.testing import Broker
from support.command_line import Run
from support.secured_server import CERTIFICATE, PASSWORD, USER, secured_server

TLS = f"""
# As Kafka's own commands take it.
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={CERTIFICATE}
client.id=is of no interest here
"""


@contextmanager
def broker_behind_tls() -> Iterator[str]:
    """The address of a proxy that speaks TLS, which is also the one that the broker tells."""
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


def test_arguments_and_profiles_speak_tls_as_well(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "semel").mkdir()
    with broker_behind_tls() as address:
        (tmp_path / "semel" / "config.toml").write_text(
            f'[profiles.safe]\nbootstrap.servers = "{address}"\nsecurity.protocol = "SSL"\n'
            f'ssl.ca.location = "{CERTIFICATE}"\n'
        )
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        assert run("topic", "create", "safe", "--profile", "safe")[0] == 0
        told = ("-X", "security.protocol=ssl", "-X", f"ssl.truststore.location={CERTIFICATE}")
        code, out, _ = run("topic", "list", "--json", "-b", address, *told)
        assert (code, "safe" in out) == (0, True)
        code, _, err = run("topic", "list", "-b", address, "-X", "security.protocol=ssl")
        assert code == 1
        assert "is not trusted: self-signed certificate; ssl.truststore.location names" in err


def test_an_application_is_run_with_the_tls_of_arguments(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secured_application.py").write_text(
        "import os, pathlib, signal, semel\n"
        "app = semel.App('127.0.0.1:1')\n"
        "@app.listener('safe', group='g')\n"
        "def note(record):\n"
        "    pathlib.Path('noted').write_bytes(record.value)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    (lines := tmp_path / "lines").write_text("one\n")
    with broker_behind_tls() as address:
        told = ("-X", "security.protocol=ssl", "-X", f"ssl.truststore.location={CERTIFICATE}")
        assert run("produce", "safe", str(lines), "--create", "-b", address, *told)[0] == 0
        assert run("run", "secured_application", "-q", "-b", address, *told)[0] == 0
    assert (tmp_path / "noted").read_bytes() == b"one"


def test_every_command_speaks_tls(run: Run, tmp_path: Path) -> None:
    (config := tmp_path / "client.properties").write_text(TLS)
    (lines := tmp_path / "lines").write_text("one\ntwo\n")
    with broker_behind_tls() as address:
        secured = ("-b", address, "--command-config", str(config))
        assert run("topic", "create", "safe", "-p", "1", *secured)[0] == 0
        assert run("produce", "safe", str(lines), *secured)[0] == 0
        assert run("consume", "safe", "-e", *secured) == (0, "one\ntwo\n", "")
        assert run("group", "list", "--json", *secured) == (0, "[]\n", "")
        assert run("txn", "list", "--json", *secured) == (0, "[]\n", "")
        code, out, err = run("topic", "list", "-b", address, "--timeout-ms", "500")
        assert (code, out) == (1, "")
        assert err.startswith(f"semel: {address}")


@pytest.mark.parametrize(("password", "is_right"), [(PASSWORD, True), ("wrong", False)])
def test_a_command_signs_in(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], password: str, is_right: bool
) -> None:
    (config := tmp_path / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USER}" password="{password}";\n'
    )

    async def scenario() -> int:
        async with secured_server(has_tls=False, mechanism="SCRAM-SHA-256") as address:
            command = ["group", "list", "-b", str(address), "--command-config", str(config)]
            return await asyncio.to_thread(main, command)

    assert asyncio.run(scenario()) == 1
    complaint = capfd.readouterr().err
    # The server knows how to sign in, and nothing of topics.
    assert ("Metadata" in complaint) is is_right
    assert ("sasl authentication failed" in complaint) is not is_right
    assert password not in complaint


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("security.protocol=TLS", "security.protocol is 'TLS': it is one of PLAINTEXT, SSL"),
        (
            "security.protocol=SSL\nssl.truststore.type=BKS",
            "ssl.truststore.type is 'BKS': it is one of",
        ),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "sasl.mechanism is 'GSSAPI'"),
    ],
)
def test_what_cannot_be_honoured_is_told_with_its_file(
    run: Run, tmp_path: Path, text: str, sentence: str
) -> None:
    (config := tmp_path / "client.properties").write_text(text)
    code, out, err = run("topic", "list", "--command-config", str(config))
    assert (code, out) == (2, "")
    assert err.startswith(f"semel: {config}: {sentence}")


def test_a_file_that_is_not_there_is_told(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    code, _, err = run("topic", "list", "--command-config", str(missing))
    assert (code, err) == (2, f"semel: {missing}: no such file or directory\n")
