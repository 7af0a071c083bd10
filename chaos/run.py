"""One run: clients at work, one takeover after the other, then rest, and a judgement."""

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from chaos import looking
from chaos.confluent import Copier, IdempotentProducer, Reader, TransactionalProducer
from chaos.in_python import AioKafkaTransactions, KafkaPythonTransactions
from chaos.ours import OurApplication, OurProducer, OurTransactions, copies_of
from chaos.outside import Program, clients_of
from chaos.rest import note_rest
from chaos.scene import LEFT, PARTITION_COUNTS, PLAIN, RIGHT, Client, Scene
from chaos.spark import TARGET as SPARK_TARGET
from chaos.spark import SparkPipeline
from chaos.subject import Subject
from chaos.watching import Watcher
from semel.verify.judging import operations
from semel.verify.judging.judge import Judgement, judge
from semel.verify.judging.operations import Fault, Recorder
from semel.world import SystemClock

START_S: Final = 600.0
"""A Spark driver takes its time, on a machine that is busy."""
STUCK_S: Final = 120.0
"""Longer than any client waits for a node that says nothing, and starts anew."""
TOPICS: Final = {**PARTITION_COUNTS, Copier.target: 1, OurApplication.target: 1}
SECOND_OF_TEN: Final = 2
"""How often the successor is hit as well, before the first is back."""
EVERYBODY_EVERY: Final = 8
"""After so many strikes everybody is waited for, and found out who is stuck. After the others those
are waited for who are served in a moment, and the next strike hits the rest as it finds them."""


class Takeover(NamedTuple):
    deed: str
    led_s: float
    """Until all is led again."""
    served_s: dict[str, float]
    """Until each client was served by it that was waited for, and who else was meanwhile."""
    is_everybodys: bool
    """Whether all were waited for."""


class Report(NamedTuple):
    takeovers: list[Takeover]
    judgement: Judgement
    failures: list[str]
    """What is no anomaly of the records: clients that failed or were stuck, copies that differ."""
    fatal: list[str]
    """Transactions whose producer was fenced."""
    hung: list[str]
    """Transactions in which the library did not come back."""
    passed_by: Counter[str]
    """How often each client was not served before the next strike."""

    @property
    def has_held(self) -> bool:
        return not self.judgement.verdict.value and not self.failures


class Stuck(Exception):
    pass


class Run:
    def __init__(
        self,
        subject: Subject,
        history: Path,
        seed: int,
        say: Callable[[str], None],
        programs: Sequence[Program] = (),
        *,
        has_spark: bool = False,
    ) -> None:
        self._subject = subject
        self._history = history
        self._random = Random(f"chaos {seed}")
        self._say = say
        self._recorder = Recorder(history)
        clock = SystemClock()
        self._scene = Scene(subject.bootstrap_servers, self._recorder, clock, threading.Event())
        scene = self._scene
        self._application = OurApplication("our-application", scene, seed)
        self.clients: list[Client] = [
            IdempotentProducer("rd-idempotent", scene, seed),
            TransactionalProducer("rd-transactional-1", scene, seed),
            TransactionalProducer("rd-transactional-2", scene, seed),
            Copier("rd-copier-1", scene, seed),
            Copier("rd-copier-2", scene, seed),
            Reader("rd-reader-1", scene, seed),
            Reader("rd-reader-2", scene, seed),
            KafkaPythonTransactions("kafka-python", scene, seed),
            AioKafkaTransactions("aiokafka", scene, seed),
            OurProducer("our-idempotent", scene, seed),
            OurTransactions("our-transactional", scene, seed),
            self._application,
            *clients_of(programs, scene, seed, history.parent),
        ]
        self._programs = programs
        self._topics = {**TOPICS, **{program.target: 1 for program in programs}}
        self._pipeline: SparkPipeline | None = None
        if has_spark:
            self._pipeline = SparkPipeline("spark", scene, seed, history.parent)
            self.clients.append(self._pipeline)
            self._topics[SPARK_TARGET] = 1
        self._watchers = [Watcher(each, scene, seed) for each in subject.hosts]
        self._takeovers: list[Takeover] = []
        self._at_takeover: dict[str, int] = {}
        self._passed_by: Counter[str] = Counter()

    def tell(
        self, takeover_count: int, deeds: Sequence[str], longest_s: float = math.inf
    ) -> Report:
        """As many takeovers as come about in that time are judged."""
        try:
            return self._told(takeover_count, deeds, longest_s)
        finally:
            self._scene.stopping.set()
            if self._pipeline is not None:
                self._pipeline.drop()

    def _told(self, takeover_count: int, deeds: Sequence[str], longest_s: float) -> Report:
        end_s = self._scene.now_s() + longest_s
        create_topics(self._scene.servers, self._topics)
        failures: list[str] = []
        try:
            self._begin()
            while len(self._takeovers) < takeover_count and self._scene.now_s() < end_s:
                self._strike(self._random.choice(deeds))
                if (
                    self._random.randrange(10) < SECOND_OF_TEN
                    and len(self._takeovers) < takeover_count
                ):
                    self._strike(self._random.choice(deeds))
                self._subject.mend()
            self._await_progress(self.clients, self._scene.now_s())
        except Stuck as stuck:
            failures.append(str(stuck))
            self._look_around()
        self._scene.stopping.set()
        self._subject.mend()
        failures += self._ended()
        if not failures:
            failures += self._finished()
        self._recorder.close()
        judgement = judge(operations.read([self._history]))
        fatal = [each for client in self.clients for each in getattr(client, "fatal", ())]
        hung = [each for client in self.clients for each in getattr(client, "hung", ())]
        return Report(self._takeovers, judgement, failures, fatal, hung, self._passed_by)

    def _begin(self) -> None:
        """Spark takes longest, and all that is written before it begins it has to catch up with."""
        first = [client for client in self.clients if client is self._pipeline or client.is_first]
        rest = [client for client in self.clients if client not in first]
        for some in (first, rest):
            for client in some:
                client.start()
            self._await_progress(some, self._scene.now_s(), START_S)
        for watcher in self._watchers:
            watcher.start()

    def _finished(self) -> list[str]:
        """What is wrong with the copies, when those who copy without an end have come to it."""
        servers, targets = self._scene.servers, [OurApplication.target]
        self._application.finish()
        if self._pipeline is not None:
            self._pipeline.finish()
            targets.append(SPARK_TARGET)
        groups = {Copier.group: [PLAIN], Reader.group: [LEFT, RIGHT]}
        groups |= {program.group: [PLAIN] for program in self._programs}
        counts = {topic: count for topic, count in self._topics.items() if topic not in targets}
        note_rest(self._recorder, servers, counts, groups)
        failures = []
        for target in targets:
            lost, doubled = copies_of(servers, PLAIN, target)
            if lost or doubled:
                failures.append(f"of {target} were lost {lost[:5]} and doubled {doubled[:5]}")
        return failures

    def _look_around(self) -> None:
        groups = [Copier.group, Reader.group, OurApplication.group]
        groups += [program.group for program in self._programs]
        told = looking.state(self._subject.asked_port, self._topics, groups)
        for line in (*looking.threads(), *told):
            self._say(line)

    def _strike(self, name: str) -> None:
        for client in self.clients:
            if self._takeovers and client.done_count == self._at_takeover[client.name]:
                self._passed_by[client.name] += 1
        began_s = self._scene.now_s()
        self._scene.note(Fault(began_s, name))
        hit = self._subject.strike(name, self._random)
        leaders = self._subject.until_led()
        led_s = self._scene.now_s() - began_s
        self._scene.note(Fault(self._scene.now_s(), f"after {name} of {hit}: led by {leaders}"))
        self._at_takeover = {client.name: client.done_count for client in self.clients}
        is_everybodys = len(self._takeovers) % EVERYBODY_EVERY == EVERYBODY_EVERY - 1
        waited_for = [client for client in self.clients if client.is_quick or is_everybodys]
        served_s = self._await_progress(waited_for, began_s)
        self._takeovers.append(Takeover(name, led_s, served_s, is_everybodys))
        slowest = max(served_s, key=served_s.__getitem__)
        who = "all" if is_everybodys else "the quick"
        self._say(
            f"{len(self._takeovers):4}  {name:22} {hit} → {leaders}  led after {led_s:5.2f} s, "
            f"{who} served after {served_s[slowest]:5.2f} s ({slowest})"
        )

    def _await_progress(
        self, clients: Sequence[Client], began_s: float, longest_s: float = STUCK_S
    ) -> dict[str, float]:
        """Until each of them was served from now on."""
        served_s: dict[str, float] = {}
        pause = threading.Event()
        before = {client.name: client.done_count for client in clients}
        asked_s = self._scene.now_s()
        while len(served_s) < len(clients):
            now_s = self._scene.now_s()
            for client in (*self.clients, *self._watchers):
                if client.failure is not None:
                    raise Stuck(f"{client.name} failed: {client.failure}")
            for client in clients:
                if client.name not in served_s and client.done_count > before[client.name]:
                    served_s[client.name] = now_s - began_s
            if now_s - asked_s > longest_s:
                missing = sorted(set(before) - set(served_s))
                raise Stuck(f"stuck for {longest_s} s: {', '.join(missing)}")
            pause.wait(0.005)
        return served_s

    def _ended(self) -> list[str]:
        failures = []
        for client in (*self.clients, *self._watchers):
            if not client.join(STUCK_S):
                failures.append(f"{client.name} does not end")
            elif client.failure is not None:
                failures.append(f"{client.name} failed: {client.failure}")
        return failures


def create_topics(servers: str, partition_counts: Mapping[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, count) for name, count in partition_counts.items()]
    for made in admin.create_topics(topics).values():
        made.result(STUCK_S)


def by_deed(takeovers: Sequence[Takeover]) -> dict[str, list[Takeover]]:
    found: dict[str, list[Takeover]] = defaultdict(list)
    for takeover in takeovers:
        found[takeover.deed].append(takeover)
    return dict(found)
