"""Whatever is written and however it is compacted, what must stay does and what must go does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.records.compression import Compression
from semel.records.records import Record
from support.compacting import RETENTION_MS, Partition

KEYS = (b"a", b"b", b"", b"k" * 30 + b"l", b"k" * 30 + b"m")
"""The last two are too long for a key map to hold them as they are."""

one_record = st.builds(
    Record,
    key=st.sampled_from([*KEYS, *KEYS, None]),
    value=st.sampled_from([b"v", b"w" * 100, b"", None, None]),
    timestamp_ms=st.integers(-1, 2_000_000),
    headers=st.sampled_from([(), (("h", b"x"), ("n", None))]),
    offset=st.just(-1),
)
some_records = st.lists(one_record, min_size=1, max_size=4)
producers = st.sampled_from([1, 2])

write = st.tuples(
    st.just("write"),
    some_records,
    st.sampled_from([-1, 1]),
    st.just(False),
    st.sampled_from(Compression),
    st.booleans(),
)
inside = st.tuples(
    st.just("write"),
    some_records,
    producers,
    st.just(True),
    st.sampled_from([0, 4]),
    st.just(False),
)
end = st.tuples(st.just("end"), producers, st.booleans())
compact = st.tuples(
    st.just("compact"),
    st.sampled_from([0, 500, 10**6]),
    st.integers(0, 2),
    st.sampled_from([0, RETENTION_MS - 1, RETENTION_MS, 1, -50, 5 * RETENTION_MS]),
    st.none() | st.none() | st.integers(0, 6),
)
delete = st.tuples(st.just("delete"), st.integers(0, 10))
Script = list[tuple[object, ...]]
steps: st.SearchStrategy[Script] = st.lists(
    st.one_of(write, inside, inside, end, end, compact, compact, delete), min_size=15, max_size=40
)


def run(script: Script) -> Partition:
    """Play these steps, and look at what is there after each pass."""
    partition = Partition()
    for step in script:
        match step:
            case (
                "write",
                list(records),
                int(producer),
                bool(is_inside),
                int(codec),
                bool(stamped),
            ):
                partition.write(
                    records,
                    producer,
                    in_transaction=is_inside,
                    compression=codec,
                    log_append_time=stamped,
                )
            case ("end", int(producer), bool(commit)):
                partition.end(producer, commit=commit)
            case ("compact", int(size), int(untouched), int(later_ms), int() | None as replaced):
                partition.now_ms += later_ms
                partition.compact(size, untouched, replaced)
                partition.check()
            case ("delete", int(offset)):
                partition.delete_before(offset)
            case _:
                raise AssertionError(step)
    return partition


EXAMPLES = 300


@settings(max_examples=EXAMPLES)
@given(steps)
def test_a_pass_takes_what_it_may_and_nothing_else(script: Script) -> None:
    run(script)


@settings(max_examples=50)
@given(steps)
def test_passes_end_with_the_newest_value_of_each_key_and_nothing_else(
    script: Script,
) -> None:
    partition = run(script)
    for producer in (1, 2):
        partition.end(producer, commit=True)
    # One that sees all, one that sees what is left of transactions, one for their markers; later
    # than the clock may have been before it was set back.
    for _ in range(3):
        partition.now_ms += 30 * RETENTION_MS
        partition.compact()
        partition.check()
    assert partition.aborted == []
    assert partition.committed(0) == partition.newest_values()
