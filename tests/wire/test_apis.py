"""The table of APIs, against the schemas that kafka-python carries and against kio."""

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module
from typing import Any

import aiokafka.protocol
import pytest
from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.broker_version_data import BrokerVersionData
from kio.schema.index import api_key_map

from semel.wire.apis import APIS, BY_KEY, Api, lookup, served
from support.kio_values import kio_class


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_row_agrees_with_kafkas_schema(api: Api) -> None:
    assert api_key_map[api.key] == api.module
    for version in range(api.version_min, api.version_max + 1):
        kio = kio_class(api.module, version, "request")
        assert kio.__name__ == f"{api.name}Request"
        assert kio.__flexible__ == (version >= api.flexible_version_min)


def test_keys_and_modules_are_unique() -> None:
    assert len(BY_KEY) == len(APIS) == len({api.module for api in APIS})
    assert [api.key for api in APIS] == sorted(BY_KEY)


def test_a_key_that_nobody_knows_is_not_found() -> None:
    assert lookup(0) is BY_KEY[0]
    assert lookup(32000) is None
    assert lookup(-1) is None


def test_produce_is_advertised_from_zero_and_known_from_three() -> None:
    produce = BY_KEY[0]
    assert produce.advertised_version_min == 0
    assert (produce.version_min, produce.version_max) == (3, 13)
    others = [api for api in APIS if api is not produce]
    assert all(api.advertised_version_min == api.version_min for api in others)


def test_only_what_is_marked_is_served() -> None:
    assert {api.key for api in served()} == {api.key for api in APIS if api.served}


def classes_of(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if inspect.isclass(value)}


def requests_of_kafka_python() -> list[Any]:
    return [
        value
        for module in (admin, consumer, metadata, producer, sasl)
        for name, value in classes_of(module).items()
        if name.endswith("Request") and hasattr(value, "API_KEY")
    ]


def test_kafka_python_finds_a_version_of_every_served_api() -> None:
    offered = {api.key: (api.advertised_version_min, api.version_max) for api in served()}
    negotiated = BrokerVersionData(api_versions=offered)
    assert negotiated.broker_version == (4, 3)
    requests = requests_of_kafka_python()
    assert {request.API_KEY for request in requests} >= set(offered)
    for request in requests:
        if request.API_KEY in offered:
            api = BY_KEY[request.API_KEY]
            assert api.version_min <= negotiated.api_version(request) <= api.version_max


def test_aiokafka_finds_a_version_of_every_served_api_that_it_calls() -> None:
    versions: dict[int, set[int]] = {}
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__):
        for value in classes_of(import_module(f"aiokafka.protocol.{module.name}")).values():
            if isinstance(vars(value).get("API_VERSION"), int):
                versions.setdefault(value.API_KEY, set()).add(value.API_VERSION)
    for api in served():
        if api.key in versions:
            known = range(api.version_min, api.version_max + 1)
            assert versions[api.key].intersection(known), api
    assert versions[0] & {3, 4, 5, 6, 7, 8}


def test_the_table_imports_no_messages() -> None:
    program = (
        "import sys, semel.wire.apis as apis, semel.wire.headers;"
        "assert not [name for name in sys.modules if name.startswith('semel.wire.messages')];"
        "assert apis.BY_KEY[0].messages.API_KEY == 0"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
