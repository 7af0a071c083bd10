"""What a call from one worker to another costs: its round trip, and the CPU of both ends.

.venv/bin/python -m bench.lane_calls
"""

import asyncio
import json
import os
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from semel.broker.assignment import Assignment, encoded
from semel.broker.lines import Lines
from semel.cluster.channel import connect
from semel.cluster.keys import OnlyKey
from semel.cluster.messages import LaneCall, LaneReply
from semel.lane.calls import AskOutcomes, encode_call
from semel.world import SystemRandomness

SEQUENTIAL = 2_000
AT_ONCE = 64
ROUNDS = 200
PATIENCE_S = 10.0
CALL = LaneCall(0, encode_call(AskOutcomes(())))


def cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(address: tuple[str, int], key: bytes, worker_id: int) -> dict[str, float]:
    async with asyncio.TaskGroup() as tasks:
        lines = Lines(
            OnlyKey(key),
            SystemRandomness(),
            connect,
            tasks.create_task,
            PATIENCE_S,
            stay_on_machine=True,
        )

        async def ask() -> None:
            answer = await lines.ask(address, CALL, PATIENCE_S)
            assert isinstance(answer, LaneReply), answer

        await ask()
        took = []
        for _ in range(SEQUENTIAL):
            begin = time.perf_counter()
            await ask()
            took.append(time.perf_counter() - begin)
        begin_s, own, its = time.perf_counter(), own_cpu_s(), cpu_s(worker_id)
        for _ in range(ROUNDS):
            await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        count = ROUNDS * AT_ONCE
        found = {
            "round_trip_ms_median": 1000 * median(took),
            "round_trip_ms_p99": 1000 * sorted(took)[int(0.99 * len(took))],
            "at_once": AT_ONCE,
            "calls_per_s_at_once": count / (time.perf_counter() - begin_s),
            "caller_us_cpu_per_call": 1e6 * (own_cpu_s() - own) / count,
            "answerer_us_cpu_per_call": 1e6 * (cpu_s(worker_id) - its) / count,
        }
        lines.close()
    return found


def main() -> None:
    key = secrets.token_bytes(32)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    address, listening = (each.getsockname()[:2] for each in sockets)
    with tempfile.TemporaryDirectory() as folder:
        worker = subprocess.Popen(
            [sys.executable, "-m", "semel", "serve", "--as-worker", "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[each.fileno() for each in sockets],
        )
        assert worker.stdin is not None
        assert worker.stdout is not None
        assignment = Assignment(
            (1,),
            1,
            (address,),
            ({},),
            1,
            tuple(each.fileno() for each in sockets),
            f"PLAINTEXT://127.0.0.1:{listening[1]}",
            key,
            folder,
            False,
            None,
            (),
            None,
        )
        worker.stdin.write(encoded(assignment))
        worker.stdin.flush()
        worker.stdout.readline()
        try:
            print(json.dumps(asyncio.run(measure(address, key, worker.pid)), indent=2))
        finally:
            worker.stdin.close()
            worker.wait()


if __name__ == "__main__":
    main()
