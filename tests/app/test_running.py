"""An application that a program runs by itself."""

import signal
import subprocess
import sys

from support.app_topics import Topics, group_offsets, numbers, spread
from support.topics import values

PROGRAM = """
import sys
from semel import App

servers, source, target, group = sys.argv[1:]
app = App(servers)

@app.listener(source, group=group)
@app.transactional
async def copy(record, out):
    out.send(target, value=record.value)
    print(record.value.decode(), flush=True)

app.run()
print("done")
"""


def test_a_program_runs_its_application_until_it_is_told_to_stop(topics: Topics) -> None:
    sent = numbers(30)
    spread(topics.servers, topics.source, sent)
    arguments = (topics.servers, topics.source, topics.target, topics.group)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in sent:
            assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert (out, process.returncode) == ("done\n", 0)
    assert values(topics.servers, topics.target) == sent
    assert sum(group_offsets(topics.servers, topics.group).values()) == 30


STUCK = """
import sys, threading
from semel import App

servers, source, group = sys.argv[1:]
app = App(servers, stop_timeout_ms=50)

@app.listener(source, group=group)
@app.transactional
def stuck(record):
    print("at work", flush=True)
    threading.Event().wait()

app.run()
"""


def test_a_function_that_never_returns_does_not_keep_its_program(topics: Topics) -> None:
    spread(topics.servers, topics.source, numbers(1))
    arguments = (topics.servers, topics.source, topics.group)
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert group_offsets(topics.servers, topics.group) == {}
