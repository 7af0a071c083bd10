"""Sessions that follow each other in one process."""

import subprocess
import sys

from support import session_after_session


def test_each_session_has_the_broker_that_it_names() -> None:
    command = [sys.executable, session_after_session.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.split() == ["one", "two"], done.stderr
