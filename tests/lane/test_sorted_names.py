"""Names are gone through in their order, whatever comes and goes meanwhile."""

from random import Random

import pytest

from semel.lane.catalogue import Catalogue, Topic
from semel.lane.sorted_names import CHUNK_MAX, SortedNames
from support.work import Work, work_of


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_gives_all_that_are_there_throughout_in_their_order(seed: int) -> None:
    rng = Random(seed)
    names = SortedNames()
    there = {f"{rng.randrange(10**6)}" for _ in range(rng.choice((0, 1, CHUNK_MAX, 3 * CHUNK_MAX)))}
    for name in sorted(there, key=lambda name: rng.random()):
        names.add(name)
    first = rng.choice(("", *sorted(there)))
    stays = {name for name in there if name >= first}
    assert list(names.walk(first)) == sorted(stays)
    walked = []
    for name in names.walk(first):
        walked.append(name)
        if rng.random() < 0.3 and (gone := rng.choice([*sorted(there), ""])):
            names.remove(gone)
            there.remove(gone)
            stays.discard(gone)
        if rng.random() < 0.3 and (new := f"{rng.randrange(10**6)}") not in there:
            names.add(new)
            there.add(new)
    assert walked == sorted(set(walked))
    assert stays <= set(walked)
    assert list(names.walk()) == sorted(there)
    for name in there:
        names.remove(name)
    assert list(names.walk()) == []


def test_a_catalogue_is_walked_by_the_names_of_its_topics() -> None:
    catalogue = Catalogue()
    for name in ("c", "a", "b", "a"):
        catalogue.remove(name)
        catalogue.add(Topic(name, name.encode() * 16, {}))
    assert [topic.name for topic in catalogue.walk()] == ["a", "b", "c"]
    walk = catalogue.walk("b")
    assert next(walk).name == "b"
    catalogue.remove("c")
    assert next(walk, None) is None


def test_to_come_and_to_be_found_are_as_much_work_among_many() -> None:
    def one_among(count: int) -> Work:
        names = SortedNames()
        for number in range(count):
            names.add(f"{number * 10:08}")

        def step() -> None:
            names.add("00000005")
            assert next(names.walk("00000005")) == "00000005"
            names.remove("00000005")

        step()
        return work_of(step)

    few, many = one_among(CHUNK_MAX - 10), one_among(20 * CHUNK_MAX)
    assert few.is_about(many), (few, many)
