"""The port that Prometheus reads: what is there, and what is not."""

import re
import urllib.error
import urllib.request

import pytest

from semel.testing import Broker
from support.raw_client import METRICS


def test_only_the_path_of_the_metrics_has_them() -> None:
    with Broker(arguments=METRICS) as broker:
        told = re.search(r"(http://[0-9.:]+)/metrics", broker.complaints())
        assert told is not None
        with urllib.request.urlopen(f"{told[1]}/metrics", timeout=60) as page:
            assert b"# HELP semel_topics " in page.read()
        for path in ("", "/", "/metrics/", "/metric", "/health"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{told[1]}{path}", timeout=60)
            with refused.value as page:
                assert (page.code, b"/metrics" in page.read()) == (404, True)
