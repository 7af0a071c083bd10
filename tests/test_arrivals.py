"""Things are gone through in their order, whatever comes and goes meanwhile."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from semel.arrivals import CHUNK_SHIFT, Arrivals

MANY = 5 << CHUNK_SHIFT


@given(st.randoms(use_true_random=False), st.integers(0, MANY), st.integers(0, MANY))
def test_a_walk_gives_all_that_are_there_throughout(rng: Random, count: int, start: int) -> None:
    arrivals = Arrivals[str]()
    there = {arrivals.add(f"{number}"): f"{number}" for number in range(count)}
    stays = dict(there)
    walked = []
    for number, thing in arrivals.walk(start):
        walked.append((number, thing))
        if rng.random() < 0.5 and len(there) < 2 * MANY:
            added = arrivals.add("new")
            there[added] = "new"
        for _ in range(rng.choice((0, 1, 40))):
            if there:
                gone = rng.choice(list(there))
                arrivals.remove(gone)
                # A walk may have come by already.
                assert there.pop(gone)
                stays.pop(gone, None)
    assert [number for number, _ in walked] == sorted({number for number, _ in walked})
    expected = {number: thing for number, thing in stays.items() if number >= start}
    assert expected.items() <= dict(walked).items()
    assert dict(arrivals.walk()) == there


@given(st.lists(st.integers(0, MANY), unique=True))
def test_what_has_gone_is_not_given(gone: list[int]) -> None:
    arrivals = Arrivals[int]()
    for number in range(MANY + 1):
        assert arrivals.add(number) == number
    for number in gone:
        arrivals.remove(number)
    left = [number for number in range(MANY + 1) if number not in set(gone)]
    assert [thing for _, thing in arrivals.walk()] == left


def test_a_number_is_never_used_again() -> None:
    arrivals = Arrivals[str]()
    numbers = []
    for _ in range(3 << CHUNK_SHIFT):
        numbers.append(arrivals.add("one"))
        arrivals.remove(numbers[-1])
    assert numbers == list(range(3 << CHUNK_SHIFT))
    assert list(arrivals.walk()) == []


def test_what_has_gone_takes_no_room() -> None:
    arrivals = Arrivals[int]()
    for number in range(100 << CHUNK_SHIFT):
        arrivals.remove(arrivals.add(number))
    assert len(arrivals._chunks) <= 1
