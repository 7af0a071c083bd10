"""What Spark's own processes do at the beginning of a task, and no other process does."""

import subprocess
import sys

_TASKS = """
import gc, sys
from semel.spark.worker_process import begin_task
for _ in range(3):
    begin_task()
    print(gc.get_freeze_count() > 0)
"""


def frozen_at_each_task(*options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *options, _TASKS], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_a_process_of_the_user_is_left_alone() -> None:
    assert frozen_at_each_task("-c") == ["False", "False", "False"]


def test_what_a_worker_has_loaded_is_not_searched_again_from_its_second_task_on() -> None:
    named = "__spec__ = type(sys)('s'); __spec__.name = 'pyspark.daemon'"
    script = f"import sys; {named}\nexec(sys.argv[1])"
    assert frozen_at_each_task("-c", script) == ["False", "True", "True"]
