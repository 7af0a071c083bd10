"""The broker's log as other programs read it."""

import json

from semel.testing import Broker
from support.raw_client import METRICS


def test_every_line_is_an_object_also_of_workers() -> None:
    with Broker(workers=2, arguments=(*METRICS, "--log-format", "json")) as broker:
        lines = [json.loads(line) for line in broker.complaints().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [("info", "metrics")] * 2
    assert all(line["timestamp"].endswith("Z") for line in lines)


def test_what_is_below_the_level_is_not_told() -> None:
    with Broker(arguments=(*METRICS, "--log-level", "warning")) as broker:
        assert broker.complaints() == ""
