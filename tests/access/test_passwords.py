"""The check of a password takes the same of everybody: of each kind of user, and of nobody."""

import hashlib
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.access.sasl import Disguise
from semel.access.scram import ITERATIONS, Credential, Mechanism, credential
from semel.access.users import Users

SMALL, LARGE = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
Kept = Mapping[Mechanism, int]
"""Iterations of each credential."""


def users_of(kept: Mapping[str, Kept]) -> Users:
    users = Users()
    for name, of in kept.items():
        for mechanism, iterations in of.items():
            users.set(name, credential(mechanism, b"tulip", b"the salt of them", iterations))
    return users


def work(users: Users, name: str, password: bytes) -> tuple[bool, Counter[str]]:
    """Whether it is right, and how many iterations of which digest it took to know that."""
    taken: Counter[str] = Counter()
    derive = hashlib.pbkdf2_hmac

    def counted(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        taken[digest] += iterations
        return derive(digest, password, salt, iterations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashlib, "pbkdf2_hmac", counted)
        return Disguise().check(users, name).is_of(password), taken


KINDS: dict[str, Kept] = {
    "both": {SMALL: 40, LARGE: 50},
    "small": {SMALL: 60},
    "large": {LARGE: 30},
    "larger": {LARGE: 70},
}


def test_what_it_takes_tells_neither_who_exists_nor_of_which_kind_they_are() -> None:
    users = users_of(KINDS)
    for name in (*KINDS, "nobody"):
        for password in (b"tulip", b"rose"):
            is_right, taken = work(users, name, password)
            assert is_right == (name in KINDS and password == b"tulip")
            assert taken == {"sha256": 60, "sha512": 70}


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.dictionaries(st.sampled_from(Mechanism), st.integers(1, 50), min_size=1),
        max_size=4,
    )
)
def test_whoever_there_is_all_cost_the_same(kept: Mapping[str, Kept]) -> None:
    users = users_of(kept)
    costs = [work(users, name, b"rose")[1] for name in "abcdefg"]
    assert all(cost == costs[0] for cost in costs)
    assert costs[0].total() > 0


def test_who_has_both_pays_for_the_cheaper_alone() -> None:
    assert work(users_of({"both": KINDS["both"]}), "both", b"tulip") == (True, {"sha256": 40})
    assert work(users_of({}), "nobody", b"tulip") == (False, {"sha256": ITERATIONS})


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from(Mechanism), st.integers(1, 3)),
    ),
    max_size=12,
)


@given(CHANGES)
def test_what_users_have_in_common_is_counted_as_they_change(
    changes: list[tuple[str, Kept]],
) -> None:
    users = Users()
    for name, kept in changes:
        users.tell(
            name,
            {
                each: Credential(each, iterations, bytes(8 * iterations), b"", b"")
                for each, iterations in kept.items()
            },
        )
    all_of = [users.of(name) for name in users]
    assert users.shapes == Counter(
        (each.mechanism, each.iterations, len(each.salt)) for of in all_of for each in of.values()
    )
    cheaper = [of.get(SMALL) or of[LARGE] for of in all_of]
    assert users.checks == Counter((each.mechanism, each.iterations) for each in cheaper)
    assert 0 not in {*users.shapes.values(), *users.checks.values()}


def test_nobody_looks_as_often_like_one_of_those_that_there_are() -> None:
    users = Users()
    for number in range(40):
        iterations, salt = (5_000, 8) if number % 4 else (6_000, 24)
        users.tell(str(number), {SMALL: Credential(SMALL, iterations, bytes(salt), b"", b"")})
    disguise = Disguise()
    found = Counter[tuple[int, int]]()
    for number in range(4_000):
        made = disguise.of(users, f"nobody {number}", SMALL, b"key")
        found[made.iterations, len(made.salt)] += 1
    assert found.keys() == {(5_000, 8), (6_000, 24)}
    assert 2_800 < found[5_000, 8] < 3_200
