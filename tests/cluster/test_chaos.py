"""A few takeovers of those that `make chaos-cluster` has by the hundred, under the same clients."""

from pathlib import Path

import pytest
from chaos.nodes import Nodes
from chaos.run import Run

from semel.testing import Cluster

TAKEOVERS = 3


@pytest.mark.usefixtures("connects_in_vain_are_closed")
def test_nothing_is_lost_doubled_torn_or_stuck_over_takeovers(tmp_path: Path) -> None:
    with Cluster(proxied=True) as cluster:
        run = Run(Nodes(cluster), tmp_path / "history", seed=3, say=print)
        report = run.tell(TAKEOVERS, ["kill", "stop", "cut off"])
    assert report.failures == []
    assert report.judgement.anomalies == []
    assert report.has_held
    assert len(report.takeovers) == TAKEOVERS
