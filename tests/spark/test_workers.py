"""Pipelines over several lanes: workers and nodes die while batches are written; rows are once."""

from pathlib import Path

import pytest

from semel.testing import Broker, Cluster
from spark.attack import (
    STEPS,
    VALUES,
    Hit,
    Strike,
    attacked,
    freeze_node,
    kill_driver,
    kill_node,
    kill_worker,
    move_lanes,
    values_in,
)
from spark.victim import ROWS_PER_BATCH

WORKERS = 3
LANES = 3
SINKS = ["default", "volume"]
FEW = VALUES[: 3 * ROWS_PER_BATCH]
AT_EACH_STEP = [(step, batch_id) for batch_id, step in enumerate(STEPS)]
WHILE_IT_IS_OPEN = [("taken over", 0), ("written", 1), ("marked", 2)]

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("sink", ["default", pytest.param("volume", marks=pytest.mark.chaos)])
def test_workers_may_die_while_a_batch_is_written(tmp_path: Path, sink: str) -> None:
    with (
        Broker(data=tmp_path / "log", workers=WORKERS) as broker,
        attacked(tmp_path, sink, broker=broker, values=FEW) as attack,
    ):
        attack.run([Strike(*at, kill_worker) for at in WHILE_IT_IS_OPEN])
        assert values_in(attack) == FEW, attack.log()
        assert attack.starts == 1, "the query lives on"


@pytest.mark.chaos
@pytest.mark.parametrize("sink", SINKS)
def test_a_worker_may_die_at_any_step_and_the_driver_behind_it(tmp_path: Path, sink: str) -> None:
    with (
        Broker(data=tmp_path / "log", workers=WORKERS) as broker,
        attacked(tmp_path, sink, broker=broker) as attack,
    ):
        strikes = [Strike(*at, kill_worker) for at in AT_EACH_STEP]
        attack.run(
            [*strikes, Strike("committed", 6, kill_driver), Strike("marked", 7, kill_worker)]
        )
        assert values_in(attack) == VALUES, attack.log()


@pytest.mark.chaos
@pytest.mark.parametrize("hit", [kill_node, freeze_node, move_lanes])
@pytest.mark.parametrize("sink", SINKS)
def test_nodes_with_lanes_may_go_at_any_step(tmp_path: Path, sink: str, hit: Hit) -> None:
    with Cluster(lanes=LANES) as cluster, attacked(tmp_path, sink, broker=cluster) as attack:
        attack.run([Strike(*at, hit) for at in AT_EACH_STEP])
        assert values_in(attack) == VALUES, attack.log()
