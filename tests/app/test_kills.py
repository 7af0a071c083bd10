"""Applications in processes of their own, killed at any step, and their broker with them."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from semel.testing import Broker
from support.app_topics import Topics, numbers, spread, topics_for
from support.topics import name_for, values

FOLDER = Path(__file__).parent
QUICK = {"group.min.session.timeout.ms": 500, "journal.segment.bytes": 8 * 2**20}
RECORD_COUNT = 100
MANY = 2_000
KAFKA = "peers.kafka_in_place"


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker that soon gives up members that are silent."""
    if request.config.pluginmanager.hasplugin(KAFKA):
        kafka: Broker = request.getfixturevalue("semel_broker")
        yield kafka.bootstrap_servers
    else:
        with Broker(settings=QUICK) as broker:
            yield broker.bootstrap_servers


@pytest.fixture
def topics(servers: str, request: pytest.FixtureRequest) -> Topics:
    return topics_for(servers, name_for(request))


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker to be killed."""
    if request.config.pluginmanager.hasplugin(KAFKA):
        pytest.skip("this broker is not ours to kill")
    with Broker(data=tmp_path / "data", settings=QUICK) as broker:
        yield broker


class Application:
    """A process that runs the listener until it is killed or told to stop."""

    def __init__(self, topics: Topics, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "semel", "run", "killed_app:app", "--quiet"],
            cwd=FOLDER,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "SEMEL_BOOTSTRAP_SERVERS": topics.servers,
                "SOURCE": topics.source,
                "TARGET": topics.target,
                "GROUP": topics.group,
                **environment,
            },
        )

    def wait(self) -> int:
        return self._process.wait(120)

    def wait_until_halted(self) -> None:
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """As SIGTERM does, which it takes with no complaint but of work that it had to repeat."""
        self._process.send_signal(signal.SIGTERM)
        _, told = self._process.communicate(timeout=120)
        complaints = [line for line in told.splitlines() if SETBACK not in line]
        # It may have been started only a moment ago.
        has_begun = self._process.returncode != -signal.SIGTERM
        assert (self._process.returncode, complaints) == (0, [FAREWELL]) or not has_begun

    def __enter__(self) -> "Application":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        assert self._process.stderr is not None
        self._process.stderr.close()


FAREWELL = "semel: finishing what is in work; once more ends it at once"
SETBACK = "listener copy: nothing of a cycle was committed, and it is done again"


def wait_for(topics: Topics, count: int) -> list[bytes]:
    """The output, once it has this many records that differ."""
    while len(set(written := values(topics.servers, topics.target))) < count:
        pass
    return written


@pytest.mark.parametrize("step", ["polled", "begun", "sent", "offsets", "committing", "committed"])
def test_an_application_killed_at_any_step_leaves_each_record_once(
    topics: Topics, step: str
) -> None:
    sent = numbers(RECORD_COUNT)
    spread(topics.servers, topics.source, sent)
    with Application(topics, STEP=step, COUNT="3") as first:
        assert first.wait() == -signal.SIGKILL
    with Application(topics) as second:
        wait_for(topics, RECORD_COUNT)
        second.stop()
    assert values(topics.servers, topics.target) == sent


@pytest.mark.parametrize("step", ["begun", "committing", "committed"])
def test_an_application_that_slept_too_long_adds_nothing_when_it_wakes(
    topics: Topics, step: str
) -> None:
    sent = numbers(RECORD_COUNT)
    spread(topics.servers, topics.source, sent)
    with Application(topics, STEP=step, COUNT="2", SIGNAL="SIGSTOP") as sleeper:
        sleeper.wait_until_halted()
        with Application(topics) as heir:
            # Its group has given its partitions away, and its transaction has been ended.
            wait_for(topics, RECORD_COUNT)
            sleeper.resume()
            more = numbers(RECORD_COUNT, start=RECORD_COUNT)
            spread(topics.servers, topics.source, more)
            wait_for(topics, 2 * RECORD_COUNT)
            heir.stop()
        last = numbers(RECORD_COUNT, start=2 * RECORD_COUNT)
        spread(topics.servers, topics.source, last)
        wait_for(topics, 3 * RECORD_COUNT)
        sleeper.stop()
    assert values(topics.servers, topics.target) == [*sent, *more, *last]


def test_without_transactions_the_same_kill_doubles_records(topics: Topics) -> None:
    """The control: these tests see what transactions prevent."""
    sent = numbers(RECORD_COUNT)
    spread(topics.servers, topics.source, sent)
    with Application(topics, PLAIN="1", STEP="stored", COUNT="3") as first:
        assert first.wait() == -signal.SIGKILL
    with Application(topics, PLAIN="1") as second:
        written = Counter(wait_for(topics, RECORD_COUNT))
        second.stop()
    assert set(written) == set(sent)
    assert max(written.values()) == 2


@pytest.mark.parametrize("seed", [1, 2])
def test_two_applications_and_their_broker_killed_at_random_leave_each_record_once(
    broker: Broker, seed: int, request: pytest.FixtureRequest
) -> None:
    topics = topics_for(broker.bootstrap_servers, name_for(request))
    dice = random.Random(seed)
    sent: list[bytes] = []
    with ExitStack() as stack:
        running = [stack.enter_context(Application(topics)) for _ in range(2)]
        for _ in range(4):
            more = numbers(MANY, start=len(sent))
            sent += more
            spread(topics.servers, topics.source, more)
            wait_for(topics, len(sent) - dice.randrange(MANY // 2, MANY))
            victim = dice.choice(("first", "second", "broker"))
            if victim == "broker":
                broker.kill()
                broker.start()
            else:
                place = ("first", "second").index(victim)
                running[place].kill()
                running[place] = stack.enter_context(Application(topics))
        wait_for(topics, len(sent))
        for application in running:
            application.stop()
    assert values(topics.servers, topics.target) == sent
