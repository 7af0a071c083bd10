"""A few kills and freezes of those that `python -m chaos --workers 4` has by the hundred."""

from pathlib import Path

import pytest
from chaos.run import Run
from chaos.workers import FREEZE, KILL, KILL_ALL, Workers

from semel.testing import Broker

WORKERS = 3
STRIKES = 4


@pytest.mark.usefixtures("connects_in_vain_are_closed")
def test_nothing_is_lost_doubled_torn_or_stuck_while_workers_die(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", workers=WORKERS) as broker:
        run = Run(Workers(broker, WORKERS), tmp_path / "history", seed=2, say=print)
        report = run.tell(STRIKES, [KILL, FREEZE, KILL_ALL])
    assert report.failures == []
    assert report.judgement.anomalies == []
    assert report.has_held
    assert len(report.takeovers) == STRIKES
