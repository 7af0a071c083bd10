"""Compaction: records per second of one core over both of its passes, without disk."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, Plan
from semel.compaction.keys import KeyMap
from semel.compaction.passes import CompactionPass
from semel.records.compression import Compression
from semel.records.records import Record, encode_batch
from semel.types import Offset

COUNT = 200_000
RECORDS_PER_BATCH = 150
KEY_SIZE = 10
VALUE_SIZE = 90
KEY_COUNTS = {"half": COUNT, "few": 1_000, "none": 10**9}
"""From how many keys they are drawn: then a good half of the records stays, hardly any, all."""


def compaction(plan: Plan) -> Iterator[Figure]:
    """Of records of 100 bytes that are not compressed, half of which are superseded."""
    rates = {name: _rate(_log(count), plan) for name, count in KEY_COUNTS.items()}
    rates["half_lz4"] = _rate(_log(COUNT, Compression.LZ4), plan)
    rates["half_plain_python"] = _rate_of_source(plan)
    yield Figure("compaction: records/s of one core, both passes", rates["half"], ">= 500e3", rates)


def _rate_of_source(plan: Plan) -> float:
    """As the modules are that nobody has compiled."""
    source = Path(__file__).parent.parent / "src"
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(plan.repeats)],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(done.stdout)


def _log(key_count: int, compression: int = Compression.NONE) -> list[bytes]:
    dice = random.Random(13)
    batches = []
    for base_offset in range(0, COUNT, RECORDS_PER_BATCH):
        records = [
            Record(b"%0*d" % (KEY_SIZE, dice.randrange(key_count)), b"x" * VALUE_SIZE, base_offset)
            for _ in range(RECORDS_PER_BATCH)
        ]
        batches.append(encode_batch(records, base_offset=base_offset, compression=compression))
    return batches


def _rate(log: list[bytes], plan: Plan) -> float:
    """By CPU time; what others do on the machine can only add to that."""
    spent_s = []
    for _ in range(plan.repeats + 1):
        started_s = time.process_time()
        _compact(log)
        spent_s.append(time.process_time() - started_s)
    return len(log) * RECORDS_PER_BATCH / min(spent_s)


def _compact(log: list[bytes]) -> None:
    keys = KeyMap(Offset(0), ())
    for batch in log:
        assert keys.add(batch)
    compaction_pass = CompactionPass(
        keys,
        (),
        now_ms=COUNT,
        delete_retention_ms=0,
        high_watermark=keys.end_offset,
        last_stable_offset=keys.end_offset,
    )
    for _ in compaction_pass.compact(log):
        pass
    assert compaction_pass.counts.records == len(log) * RECORDS_PER_BATCH


if __name__ == "__main__":
    print(_rate(_log(COUNT), Plan(seconds=0, repeats=int(sys.argv[1]))))
