"""Whatever Spark's newest connector and Kafka's newest client can be told has its place."""

import re
import subprocess
import zipfile

import pytest
from bench import maven
from bench.figures import NotMeasured
from peers.registry import ROOT, jars, java_classes, maven_file

from semel.spark.kafka_options import KAFKA_OPTIONS, REJECTED
from semel.spark.options import SINK, SOURCE

CONNECTOR = "spark-sql-kafka-0-10_2.13"
PROVIDER = "org/apache/spark/sql/kafka010/KafkaSourceProvider.scala"
_TEST_ALONE = {"_mocksystemtime"}
_NO_OPTIONS = {"15m"}


def test_every_option_of_sparks_connector_has_its_place() -> None:
    try:
        newest = maven.newest("org.apache.spark", CONNECTOR, "99")
    except NotMeasured as reason:
        pytest.skip(str(reason))
    sources = maven_file(f"org.apache.spark:{CONNECTOR}:{newest.version}:jar:sources")
    with zipfile.ZipFile(sources) as packed:
        (name,) = (
            each for each in packed.namelist() if each.endswith("/KafkaSourceProvider.scala")
        )
        text = packed.read(name).decode()
    declared = text[text.index("object KafkaSourceProvider") :]
    found = {each.lower() for each in re.findall(r'val [A-Z_]+ =\s+"([^"\s]+)"', declared)}
    assert {"subscribe", "startingoffsets", "topic"} <= found
    known = {each.lower() for each in SOURCE | SINK}
    assert found - known - _TEST_ALONE - _NO_OPTIONS == set()


def test_every_setting_of_kafkas_clients_is_used_passed_over_or_refused() -> None:
    class_path = jars(ROOT / "peers" / "java")
    classes = java_classes(ROOT / "peers" / "java" / "ConfigNames.java", class_path)
    command = ["java", "-cp", f"{classes}:{class_path}/*", "ConfigNames"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {"bootstrap.servers", "ssl.truststore.location", "linger.ms"} <= set(names)
    known = KAFKA_OPTIONS | REJECTED.keys()
    public = [name for name in names if not name.startswith("internal.")]
    assert [name for name in public if f"kafka.{name}" not in known] == []
