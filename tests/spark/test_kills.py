"""The failure table with real processes: whoever dies at whatever step, every row is there once.

`make chaos` runs these: they take longer than all other tests together.
"""

import signal
from pathlib import Path

import pytest

from spark.attack import (
    STEPS,
    VALUES,
    Attack,
    Halted,
    Hit,
    Strike,
    attacked,
    freeze_broker_past_the_timeout,
    kill_broker,
    kill_driver,
    kill_executor,
    kill_jvm,
    kill_python,
    let_the_transaction_time_out,
    pause_past_the_timeout,
    values_in,
)
from spark.cluster import standalone
from spark.victim import ROWS_PER_BATCH

SINKS = ["default", "volume"]
SHORT_TIMEOUT_MS = 2_000
FEW = VALUES[: 4 * ROWS_PER_BATCH]

pytestmark = [pytest.mark.timeout(1800), pytest.mark.chaos]


@pytest.mark.parametrize("sink", SINKS)
def test_a_driver_a_worker_and_the_broker_may_die_at_their_worst_moments(
    tmp_path: Path, sink: str
) -> None:
    with attacked(tmp_path, sink, values=FEW) as attack:
        attack.run(
            [
                Strike("task", 0, kill_python),
                Strike("marked", 1, kill_broker),
                Strike("committed", 2, kill_driver),
            ]
        )
        assert values_in(attack) == FEW, attack.log()
        assert ("taken over", 2) in attack.seen
        assert attack.seen.count(("committed", 2)) == 1, "the replay is skipped"


def test_without_the_number_of_the_last_batch_a_replay_is_doubled(tmp_path: Path) -> None:
    with attacked(tmp_path, "default", is_unchecked=True, values=FEW) as attack:
        attack.run([Strike("committed", 1, kill_driver)])
        found = values_in(attack)
        assert sorted(set(found)) == FEW
        assert len(found) == len(FEW) + ROWS_PER_BATCH


@pytest.mark.parametrize("kill", [kill_driver, kill_jvm, kill_python, kill_broker])
@pytest.mark.parametrize("sink", SINKS)
def test_any_process_may_die_at_any_step(tmp_path: Path, sink: str, kill: Hit) -> None:
    with attacked(tmp_path, sink) as attack:
        attack.run([Strike(step, batch_id, kill) for batch_id, step in enumerate(STEPS)])
        assert values_in(attack) == VALUES, attack.log()


@pytest.mark.parametrize("sink", SINKS)
def test_an_executor_may_die_while_its_tasks_run(tmp_path: Path, sink: str) -> None:
    with (
        standalone(tmp_path) as master,
        attacked(tmp_path, sink, master=master) as attack,
    ):
        attack.run([Strike("task", 1, kill_executor), Strike("task", 3, kill_executor)])
        assert values_in(attack) == VALUES, attack.log()


@pytest.mark.parametrize(
    "pause",
    [pause_past_the_timeout, freeze_broker_past_the_timeout, let_the_transaction_time_out],
)
@pytest.mark.parametrize("sink", [*SINKS, "write"])
def test_a_transaction_that_times_out_is_written_again_by_the_same_run(
    tmp_path: Path, sink: str, pause: Hit
) -> None:
    runs: list[int] = []

    def paused(attack: Attack, halted: Halted) -> None:
        runs.append(attack.starts)
        pause(attack, halted)

    with attacked(tmp_path, sink, timeout_ms=SHORT_TIMEOUT_MS) as attack:
        attack.run([Strike("written", 1, paused), Strike("marked", 3, paused)])
        assert values_in(attack) == VALUES, attack.log()
        assert runs == [attack.starts] * 2, attack.log()


@pytest.mark.parametrize("step", ["taken over", "written", "marked", "committed"])
@pytest.mark.parametrize("sink", SINKS)
def test_a_driver_that_wakes_up_after_another_took_over_writes_nothing(
    tmp_path: Path, sink: str, step: str
) -> None:
    with attacked(tmp_path, sink) as attack:
        zombie, halted = attack.run_until(step, 1)
        zombie.signal_all(signal.SIGSTOP)
        attack.run([])
        assert values_in(attack) == VALUES, attack.log()
        zombie.signal_all(signal.SIGCONT)
        halted.let_go()
        attack.let_all_go_until_the_end_of(zombie)
        assert zombie.ended() != 0
        assert values_in(attack) == VALUES, attack.log()


@pytest.mark.parametrize("sink", SINKS)
def test_without_the_number_every_replay_is_doubled(tmp_path: Path, sink: str) -> None:
    with attacked(tmp_path, sink, is_unchecked=True) as attack:
        attack.run([Strike("committed", batch_id, kill_driver) for batch_id in (0, 2, 4)])
        found = values_in(attack)
        assert sorted(set(found)) == VALUES
        assert len(found) == len(VALUES) + 3 * ROWS_PER_BATCH
