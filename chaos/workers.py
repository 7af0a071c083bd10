"""Workers on the files of one machine, which their parent starts again."""

import os
import signal
import threading
from collections.abc import Sequence
from random import Random
from typing import Final

from chaos.subject import Host
from semel.testing.asking import NoAnswer, ask
from semel.testing.broker import Broker
from semel.wire.messages.metadata import MetadataRequest

ASKED_S_MAX: Final = 5.0
FROZEN_S_MAX: Final = 6.0
"""Longer than clients wait for an answer."""
KILL, STOP, FREEZE, KILL_ALL = "kill", "stop", "freeze", "kill all"


class Workers:
    deeds: Sequence[str] = (KILL, KILL, KILL, FREEZE, FREEZE, STOP, KILL_ALL)

    def __init__(self, broker: Broker, count: int) -> None:
        self._broker = broker
        self.bootstrap_servers = broker.bootstrap_servers
        self.hosts = [Host(index + 1, broker.port + index) for index in range(count)]
        self._thawing: list[threading.Timer] = []

    @property
    def asked_port(self) -> int:
        return self.hosts[0].port

    def strike(self, deed: str, random: Random) -> str:
        node_id = random.choice(self.hosts).node_id
        if deed == KILL:
            self._broker.kill_worker(node_id)
        elif deed == STOP:
            self._broker.stop_worker(node_id)
        elif deed == KILL_ALL:
            self._broker.kill()
            self._broker.start()
            return "all"
        else:
            assert deed == FREEZE
            process_id = self._broker.worker_process_ids[node_id]
            os.kill(process_id, signal.SIGSTOP)
            thawing = threading.Timer(
                random.uniform(0.2, FROZEN_S_MAX), os.kill, (process_id, signal.SIGCONT)
            )
            self._thawing.append(thawing)
            thawing.start()
        return f"worker {node_id}"

    def until_led(self) -> str:
        for host in self.hosts:
            while not _is_serving(host.port):
                pass
        return "all"

    def mend(self) -> None:
        for thawing in self._thawing:
            thawing.join()
        self._thawing.clear()


def _is_serving(port: int) -> bool:
    try:
        ask(("127.0.0.1", port), "Metadata", 9, MetadataRequest([]), ASKED_S_MAX)
    except NoAnswer:
        return False
    return True
