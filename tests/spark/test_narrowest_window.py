"""The driver dies after the commit of its sink, and before Spark has noted the batch.

No other moment shows whether a batch is written once: Spark runs again what is in the log already.
"""

from pathlib import Path

import pytest

from semel.testing import Broker
from spark.attack import VALUES, Attack, Halted, Strike, attacked, kill_driver, values_in
from spark.victim import ROWS_PER_BATCH, SINKS

pytestmark = pytest.mark.timeout(900)


def kill_driver_in_the_window(attack: Attack, halted: Halted) -> None:
    kill_driver(attack, halted)
    assert not (attack.checkpoint / "commits" / str(halted.batch_id)).exists()


def die_in_the_window_of(batches: range, attack: Attack, values: list[bytes]) -> None:
    attack.run([Strike("committed", number, kill_driver_in_the_window) for number in batches])
    assert values_in(attack) == values, attack.log()
    for number in batches:
        assert attack.seen.count(("before taking over", number)) == 2, "Spark runs it again"
        assert attack.seen.count(("taken over", number)) == 1, "and it is not written again"


@pytest.mark.parametrize(
    "sink",
    [pytest.param(sink, marks=[] if sink == "default" else pytest.mark.chaos) for sink in SINKS],
)
def test_a_batch_that_spark_has_not_noted_is_not_written_again(
    tmp_path: Path, semel_broker: Broker, name: str, sink: str
) -> None:
    few = VALUES[: 2 * ROWS_PER_BATCH]
    with attacked(tmp_path, sink, broker=semel_broker, prefix=f"{name}-", values=few) as attack:
        die_in_the_window_of(range(1, 2), attack, few)


@pytest.mark.chaos
@pytest.mark.parametrize("sink", SINKS)
def test_no_batch_is_written_again_though_spark_has_noted_none(
    tmp_path: Path, semel_broker: Broker, name: str, sink: str
) -> None:
    with attacked(tmp_path, sink, broker=semel_broker, prefix=f"{name}-") as attack:
        die_in_the_window_of(range(8), attack, VALUES)
