"""The table of APIs, against the schemas that kafka-python carries and against kio."""

import subprocess
import sys

import pytest
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
    assert [produce.knows(version) for version in (-1, 2, 3, 12, 13)] == [
        False, False, True, True, False,
    ]  # fmt: skip
    others = [api for api in APIS if api is not produce]
    assert all(api.advertised_version_min == api.version_min for api in others)


def test_only_what_is_marked_is_served() -> None:
    assert {api.key for api in served()} == {api.key for api in APIS if api.served}


def test_the_table_imports_no_messages() -> None:
    program = (
        "import sys, semel.wire.apis as apis, semel.wire.headers;"
        "assert not [name for name in sys.modules if name.startswith('semel.wire.messages')];"
        "assert apis.BY_KEY[0].messages.API_KEY == 0"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
