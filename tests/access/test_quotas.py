"""Which quota counts for a client is what Kafka's documentation says, in its order."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.access.quotas import EVERY_OTHER, Entity, Kind, Limit, Quotas, Share
from semel.errors import InvalidRequest

NAMES = ("ann", "bob", EVERY_OTHER)
ENTITIES = [
    Entity(user, client_id)
    for user, client_id in itertools.product((*NAMES, None), ("app", "web", EVERY_OTHER, None))
    if (user, client_id) != (None, None)
]
BOUNDS = st.dictionaries(st.sampled_from(ENTITIES), st.integers(1, 1000).map(float), max_size=8)


def documented(
    bounds: dict[Entity, float], user: str, client_id: str
) -> tuple[tuple[str, str], float] | None:
    """The list in Kafka's documentation, item by item; and who is counted together."""
    both, alone, by_client = (user, client_id), (user, ""), ("", client_id)
    order: list[tuple[tuple[str | None, str | None], tuple[str, str]]] = [
        ((user, client_id), both),
        ((user, EVERY_OTHER), both),
        ((user, None), alone),
        ((EVERY_OTHER, client_id), both),
        ((EVERY_OTHER, EVERY_OTHER), both),
        ((EVERY_OTHER, None), alone),
        ((None, client_id), by_client),
        ((None, EVERY_OTHER), by_client),
    ]
    for key, counted in order:
        if Entity(*key) in bounds:
            return counted, bounds[Entity(*key)]
    return None


@given(BOUNDS, st.sampled_from(("ann", "bob", "eve")), st.sampled_from(("app", "web", "else", "")))
def test_the_quota_that_counts_is_the_first_in_kafkas_order(
    bounds: dict[Entity, float], user: str, client_id: str
) -> None:
    quotas = Quotas()
    for entity, bound in bounds.items():
        quotas.tell(entity, {"producer_byte_rate": bound, "unheard_of": 1.0})
    expected = documented(bounds, user, client_id)
    found = quotas.limit(Kind.PRODUCED, user, client_id)
    assert found == (None if expected is None else Limit(Share(*expected[0]), expected[1]))
    assert quotas.limit(Kind.CONSUMED, user, client_id) is None


def test_an_address_has_its_own_rate_or_that_of_all_others() -> None:
    quotas = Quotas()
    assert quotas.connection_rate("10.0.0.1") == (None, False)
    quotas.tell(Entity(ip=EVERY_OTHER), {"connection_creation_rate": 5.0})
    quotas.tell(Entity(ip="10.0.0.1"), {"connection_creation_rate": 50.0})
    assert quotas.connection_rate("10.0.0.1") == (50, True)
    assert quotas.connection_rate("10.0.0.2") == (5, False)
    quotas.tell(Entity(ip="10.0.0.1"), {})
    assert quotas.connection_rate("10.0.0.1") == (5, False)
    assert list(quotas) == [Entity(ip=EVERY_OTHER)]


@pytest.mark.parametrize(
    ("entity", "reason"),
    [
        (Entity(), "a quota is for a user, a client id, both, or an address"),
        (Entity("ann", ip="10.0.0.1"), "for no user and no client id"),
        (Entity(client_id="app", ip=EVERY_OTHER), "for no user and no client id"),
        (Entity(ip="10.0.0"), "'10.0.0' is no IP address"),
        (Entity(ip="host.example"), "'host.example' is no IP address"),
        (Entity("é" * 513), "1024 bytes at most"),
    ],
)
def test_whom_no_quota_can_be_for(entity: Entity, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        entity.check()


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), -0.0])
@pytest.mark.parametrize("name", ["producer_byte_rate", "request_percentage"])
def test_a_quota_is_a_number_above_zero(name: str, value: float) -> None:
    with pytest.raises(InvalidRequest, match="greater than 0"):
        Entity("ann").check_value(name, value)


def test_bytes_and_connections_are_whole_and_percentages_need_not_be() -> None:
    ann, anywhere = Entity("ann"), Entity(ip=EVERY_OTHER)
    ann.check_value("request_percentage", 0.5)
    ann.check_value("consumer_byte_rate", 1e12)
    anywhere.check_value("connection_creation_rate", 3.0)
    for entity, name in ((ann, "consumer_byte_rate"), (anywhere, "connection_creation_rate")):
        with pytest.raises(InvalidRequest, match="must be a whole number"):
            entity.check_value(name, 1.5)
    for entity, name in ((ann, "connection_creation_rate"), (anywhere, "producer_byte_rate")):
        with pytest.raises(InvalidRequest, match="is no quota of"):
            entity.check_value(name, 1.0)


def test_entities_are_written_as_kafka_writes_them_and_never_alike() -> None:
    assert str(Entity("ann", EVERY_OTHER)) == "users/ann/clients/<default>"
    assert str(Entity("a/clients/b")) == "users/a%2Fclients%2Fb"
    assert str(Entity("<default>")) != str(Entity(EVERY_OTHER))
    assert len({str(entity) for entity in ENTITIES}) == len(ENTITIES)
