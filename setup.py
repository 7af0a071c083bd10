"""With SEMEL_COMPILE=1 the paths that every request takes are compiled by mypyc.

Without it, and where there is no C compiler, Semel is plain Python. The source is the same and so
are the tests (`make test-compiled`). `pyproject.toml` says all the rest.
"""

import os
from typing import Any

from setuptools import setup

COMPILED = """
    types world arrivals deadlines durations
    access/access_list access/rights
    wire/primitives wire/messages/produce wire/messages/fetch wire/messages/end_txn
    records/batch records/checksum records/compression records/control records/fields
    records/header records/partitioning records/records records/scanning records/varint
    log/partition log/producers log/transactions
    compaction/keys compaction/passes compaction/rewriting compaction/transactions
    transactions/commands transactions/coordinator transactions/dialect transactions/ending
    transactions/epochs transactions/joining transactions/outcome transactions/participants
    transactions/records transactions/store
    lane/catalogue lane/clock lane/commands lane/frame lane/hosting lane/lane lane/opening
    lane/participating lane/producing lane/partition_log lane/state lane/transactions lane/view
    journal/compacted journal/containers journal/damaged_index journal/frames journal/index
    journal/index_files journal/index_in_memory journal/rows journal/sealed journal/stretch
    journal/tail
    journal/file/commit journal/file/disk journal/file/journal journal/file/salvaging
    journal/file/segments
    journal/slots/barrier journal/slots/journal journal/slots/reading journal/slots/stretches
    journal/slots/table journal/slots/writer
    cluster/session
    broker/access_control broker/across broker/answer broker/broker broker/connection
    broker/connection_on_store broker/coordinators broker/dispatch broker/inbox broker/incoming
    broker/led_lanes broker/server broker/topic_counts broker/transactional
    broker/transactional_produce
    broker/handlers/produce broker/handlers/fetch broker/handlers/end_txn
"""
"""Left out, besides what is seldom used: modules that define structs of msgspec, whose options
mypyc forgets, and those with a NamedTuple that has a memoryview, which it does not find.

Law: nothing is waited for in an `except` or a `finally`. An error that a compiled coroutine handles
meanwhile is handled, for Python, in all that runs until then, and may be raised there
(`tests/test_compiled_modules.py`)."""


def extensions() -> dict[str, Any]:
    if os.environ.get("SEMEL_COMPILE") != "1":
        return {}
    try:
        from mypyc.build import mypycify
    except ImportError:
        # Said when pip asks what it needs to build; it asks again when that is there.
        return {"setup_requires": ["mypy>=1.13"]}
    options = ["--follow-imports=silent", "--ignore-missing-imports", "--config-file="]
    sources = [f"src/semel/{module}.py" for module in COMPILED.split()]
    built = mypycify(
        [*options, *sources], opt_level="2", debug_level="0", multi_file=True, group_name="semel"
    )
    return {"ext_modules": built}


setup(**extensions())
