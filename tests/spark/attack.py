"""Starts the pipeline until it is done, and strikes whoever reaches the step that is next."""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from semel.client.cluster.blocking import ClientOptions, Connected
from semel.client.cluster.offsets import Isolation, ends_of
from semel.testing import Broker, Cluster
from semel.types import TopicPartition
from spark import victim
from spark.cluster import with_tests_to_import
from spark.steps import HALTS, UNCHECKED
from support import topics

STEPS = ("task", "before taking over", "taken over", "written", "marked", "committed")
PARTITIONS = 2
_DEADLINE_S = 600
_STARTS_MAX = 20


class Halted(NamedTuple):
    """A process that has come to a step and waits."""

    step: str
    batch_id: int
    process_id: int
    parent_id: int
    told: socket.socket

    def let_go(self) -> None:
        with suppress(OSError):  # It may have been killed meanwhile.
            self.told.sendall(b"!")
        self.told.close()


Hit = Callable[["Attack", Halted], None]


class Strike(NamedTuple):
    """What happens to the pipeline when a batch comes to a step."""

    step: str
    batch_id: int
    hit: Hit


class Application:
    """One run of the driver, with its JVM in a process group of its own."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.process_id = self._process.pid
        self.end = os.pidfd_open(self.process_id)
        """Readable from the end of the process on."""
        self.jvm_id: int | None = None

    def ended(self) -> int | None:
        return self._process.poll()

    def wait(self) -> None:
        self._process.wait()

    def signal_all(self, number: signal.Signals) -> None:
        os.killpg(self.process_id, number)

    def kill(self) -> None:
        if self.ended() is None:
            self.signal_all(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self.kill()
        os.close(self.end)


class Attack:
    def __init__(
        self,
        folder: Path,
        broker: Broker | Cluster,
        sink: str,
        *,
        prefix: str,
        master: str,
        timeout_ms: int,
        is_unchecked: bool,
    ) -> None:
        self.broker = broker
        self.source, self.target = f"{prefix}in", f"{prefix}out"
        self.checkpoint = folder / "checkpoint"
        self.timeout_ms = timeout_ms
        self._folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        port = self._listener.getsockname()[1]
        self._command = [sys.executable, victim.__file__, sink, master]
        self._command += [broker.bootstrap_servers, str(folder)]
        self._command += [self.source, self.target, str(timeout_ms)]
        self._environment = {
            **with_tests_to_import(),
            HALTS: f"127.0.0.1:{port}",
        }
        if is_unchecked:
            self._environment[UNCHECKED] = "yes"
        self._applications: list[Application] = []
        self.seen: list[tuple[str, int]] = []
        """Steps and batches, in the order in which they were reached."""

    @property
    def one_broker(self) -> Broker:
        assert isinstance(self.broker, Broker)
        return self.broker

    @property
    def cluster(self) -> Cluster:
        assert isinstance(self.broker, Cluster)
        return self.broker

    @property
    def application(self) -> Application:
        return self._applications[-1]

    @property
    def starts(self) -> int:
        return len(self._applications)

    def start(self) -> Application:
        assert self.starts < _STARTS_MAX, self.log()
        log = self._folder / "application.log"
        self._applications.append(Application(self._command, self._environment, log))
        return self.application

    def run(self, strikes: Sequence[Strike]) -> None:
        """Until the pipeline has ended well, after all strikes."""
        left = deque(strikes)
        self.start()
        while True:
            halted = self.next_halt()
            if halted is None:
                if self.application.ended() == 0 and not left:
                    return
                assert not (self.application.ended() == 0 and left), f"no one came to {left[0]}"
                self.start()
            elif left and (halted.step, halted.batch_id) == left[0][:2]:
                left.popleft().hit(self, halted)
                halted.let_go()
            else:
                halted.let_go()

    def run_until(self, step: str, batch_id: int) -> tuple[Application, Halted]:
        """A run that has come to this step, and is left there."""
        application = self.start()
        while (halted := self.next_halt()) is not None:
            if (halted.step, halted.batch_id) == (step, batch_id):
                return application, halted
            halted.let_go()
        raise AssertionError(f"it ended before {step} of batch {batch_id}: {self.log()}")

    def let_all_go_until_the_end_of(self, application: Application) -> None:
        while (halted := self.next_halt(application)) is not None:
            halted.let_go()

    def next_halt(self, application: Application | None = None) -> Halted | None:
        """Whoever comes to a step next; None if the application ends instead."""
        watched = application or self.application
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(watched.end, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(_DEADLINE_S)]
                assert ready, f"nothing has happened for {_DEADLINE_S} s: {self.log()}"
                if self._listener not in ready:
                    watched.wait()
                    return None
                if (halted := self._accept()) is not None:
                    return halted

    def _accept(self) -> Halted | None:
        told, _ = self._listener.accept()
        told.settimeout(_DEADLINE_S)
        with told.makefile("rb") as lines:
            line = lines.readline()
        if not line:
            told.close()  # It was killed as it spoke.
            return None
        facts = json.loads(line)
        jvm_id = facts.pop("jvm_id", None)
        halted = Halted(**facts, told=told)
        self.seen.append((halted.step, halted.batch_id))
        if jvm_id is not None:
            self.application.jvm_id = jvm_id
            halted.let_go()
            return None
        return halted

    def log(self) -> str:
        return (self._folder / "application.log").read_text(errors="replace")[-6_000:]

    def close(self) -> None:
        for application in self._applications:
            application.close()
        self._listener.close()


def kill_driver(attack: Attack, halted: Halted) -> None:
    """With all that runs on its machine: its JVM, and the process in which the sink commits."""
    attack.application.kill()
    _kill(halted.process_id)


def kill_jvm(attack: Attack, halted: Halted) -> None:
    """Alone: a sink that was about to commit goes on as an orphan."""
    assert attack.application.jvm_id is not None
    _kill(attack.application.jvm_id)


def kill_python(attack: Attack, halted: Halted) -> None:
    """The Python process that has come to the step, whichever it is."""
    _kill(halted.process_id)


def kill_broker(attack: Attack, halted: Halted) -> None:
    broker = attack.one_broker
    broker.kill()
    broker.start()


def kill_worker(attack: Attack, halted: Halted) -> None:
    """One of several that are the broker, another one for each batch. The pipeline goes on before
    that one is back."""
    workers = attack.one_broker.worker_process_ids
    _kill(workers[1 + halted.batch_id % len(workers)])


def kill_node(attack: Attack, halted: Halted) -> None:
    """Of a cluster, another one for each batch; those that were killed before run again."""
    cluster = attack.cluster
    cluster.mend()
    cluster.kill(1 + halted.batch_id % len(cluster.nodes))


def freeze_node(attack: Attack, halted: Halted) -> None:
    cluster = attack.cluster
    cluster.mend()
    cluster.freeze(1 + halted.batch_id % len(cluster.nodes))


def move_lanes(attack: Attack, halted: Halted) -> None:
    """Each lane to another node, one after the other."""
    cluster = attack.cluster
    for lane, node_id in cluster.lanes.items():
        cluster.move(1 + node_id % len(cluster.nodes), lane)


def kill_executor(attack: Attack, halted: Halted) -> None:
    """The JVM above the daemon from which the worker was forked."""
    status = Path(f"/proc/{halted.parent_id}/stat").read_text()
    _kill(int(status.rpartition(")")[2].split()[1]))


def pause_past_the_timeout(attack: Attack, halted: Halted) -> None:
    """The driver stands still until the cluster has given its transaction up."""
    attack.application.signal_all(signal.SIGSTOP)
    wait_for_no_open_transaction(attack)
    attack.application.signal_all(signal.SIGCONT)


def freeze_broker_past_the_timeout(attack: Attack, halted: Halted) -> None:
    attack.one_broker.pause()
    # Nobody can be asked meanwhile whether that was long enough.
    time.sleep(attack.timeout_ms / 1000 + 1)
    attack.one_broker.resume()


def let_the_transaction_time_out(attack: Attack, halted: Halted) -> None:
    wait_for_no_open_transaction(attack)


def wait_for_no_open_transaction(attack: Attack) -> None:
    places = [TopicPartition(attack.target, number) for number in range(PARTITIONS)]
    with Connected(ClientOptions(attack.broker.bootstrap_servers)) as connected:
        while True:
            ends, stable_ends = (
                connected.run(ends_of(connected.cluster, places, isolation))
                for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
            )
            if ends == stable_ends:
                return


def _kill(process_id: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGKILL)


def values_in(attack: Attack) -> list[bytes]:
    return topics.values(attack.broker.bootstrap_servers, attack.target)


VALUES = [b"%05d" % number for number in range(8 * victim.ROWS_PER_BATCH)]


@contextmanager
def attacked(
    folder: Path,
    sink: str,
    *,
    broker: Broker | Cluster | None = None,
    prefix: str = "",
    master: str = "local[2,4]",
    timeout_ms: int = 60_000,
    is_unchecked: bool = False,
    values: Sequence[bytes] = VALUES,
) -> Iterator[Attack]:
    """Rows to copy, and a pipeline that is not yet started.

    The broker is one of its own, which is durable, or the one that is given: then `prefix` is for
    topics that no other test uses.
    """
    with Broker(data=folder / "log") if broker is None else nullcontext(broker) as running:
        attack = Attack(
            folder,
            running,
            sink,
            prefix=prefix,
            master=master,
            timeout_ms=timeout_ms,
            is_unchecked=is_unchecked,
        )
        try:
            servers = running.bootstrap_servers
            for topic in (attack.source, attack.target):
                topics.create(servers, topic, PARTITIONS)
            for partition in range(PARTITIONS):
                topics.fill(servers, attack.source, values[partition::PARTITIONS], partition)
            yield attack
        finally:
            attack.close()
