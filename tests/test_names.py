"""The names that the package shows before any of them is used."""

import subprocess
import sys

import semel
import semel.spark


def test_all_public_names_are_listed_before_their_first_use() -> None:
    program = "import semel, semel.spark; print(*dir(semel), *dir(semel.spark))"
    listed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert {"App", "Consumer", "Producer", "Record", "TopicPartition", "read"} <= set(listed)
    assert {"Session", "exactly_once", "session"} <= set(listed)


def test_only_public_names_are_listed() -> None:
    program = "import semel, semel.testing; semel.Producer; print(*dir(semel))"
    listed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [name for name in listed if not name.startswith("__")] == [
        "Acl",
        "Admin",
        "App",
        "AsyncAdmin",
        "AsyncConsumer",
        "AsyncProducer",
        "Consumer",
        "Outbox",
        "Producer",
        "Record",
        "TopicPartition",
        "Transaction",
        "client",
        "errors",
        "read",
        "security",
        "testing",
        "write",
    ]
    assert "__version__" in listed


def test_how_to_sign_in_can_be_said_without_another_import() -> None:
    program = "import semel; print(semel.security.Sasl('PLAIN', 'ana', 'tulip'))"
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert said == "Sasl('PLAIN', 'ana')\n"


def test_every_listed_name_can_be_had() -> None:
    assert all(hasattr(semel, name) for name in dir(semel))


def test_a_name_that_is_not_there_is_refused() -> None:
    assert not hasattr(semel, "Nothing")
    assert not hasattr(semel.spark, "Nothing")
