"""Every version of every message, against kio's writer."""

from random import Random

import pytest

from semel.wire.apis import APIS, Api
from support.kio_values import kio_bytes, kio_class, ours, random_value

EVERY_MESSAGE = [
    pytest.param(api, version, direction, id=f"{api.name}-{direction}-v{version}")
    for api in APIS
    for version in range(api.version_min, api.version_max + 1)
    for direction in ("request", "response")
]


@pytest.mark.parametrize(("api", "version", "direction"), EVERY_MESSAGE)
def test_a_message_is_read_as_written_and_written_as_kafka_does(
    api: Api, version: int, direction: str
) -> None:
    random = Random(f"{api.name} {version} {direction}")
    decode = getattr(api, f"decode_{direction}")
    encode = getattr(api, f"encode_{direction}")
    for _ in range(10):
        value = random_value(kio_class(api.module, version, direction), random)
        expected = kio_bytes(value)
        message = ours(value, api.messages)
        assert b"".join(encode(message, version)) == expected
        decoded, position = decode(b"???" + expected, 3, version)
        assert position == 3 + len(expected)
        assert decoded == message
        assert decode(memoryview(expected), 0, version) == (message, len(expected))
