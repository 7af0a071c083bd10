"""What each client writes, every client reads: the same bytes, in the same order."""

import pytest

from support.clients import CLIENTS, COMPRESSIONS, Client, Found, Sent

RECORDS = (
    Sent(b"plain"),
    Sent(b"with key", b"key"),
    Sent(None, b"tombstone"),
    Sent(b"", b""),
    Sent(b"with headers", None, headers=(("a", b"1"), ("a", b"2"), ("b", b""))),
    Sent(b"of 2001", b"k", timestamp_ms=1_000_000_000_000),
    Sent(b"x" * 200_000, b"long"),
    *(Sent(b"%d" % number * 20, b"%d" % number) for number in range(300)),
)


def as_expected(records: list[Found]) -> list[tuple[object, ...]]:
    return [(each.offset, each.key, each.value, each.headers) for each in records]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_client_reads_what_one_has_written(
    servers: str, topic: str, client: Client, compression: str
) -> None:
    offsets = client.produce(servers, topic, RECORDS, compression=compression)
    assert offsets == list(range(len(RECORDS)))
    expected = [(offset, sent.key, sent.value, sent.headers) for offset, sent in enumerate(RECORDS)]
    for reader in CLIENTS:
        found = reader.read(servers, topic, [0], len(RECORDS))
        assert as_expected(found) == expected, reader.name
        assert found[5].timestamp_ms == 1_000_000_000_000


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_a_record_is_stored_once_with_any_acks(
    servers: str, topic: str, client: Client, acks: int | str
) -> None:
    # The topic exists first: a record without acks is lost if its partition is not there yet.
    client.produce(servers, topic, [Sent(b"first")])
    sent = [Sent(b"%d" % number) for number in range(50)]
    client.produce(servers, topic, sent, acks=acks)
    client.produce(servers, topic, [Sent(b"last")])
    values = [each.value for each in client.read(servers, topic, [0], 52)]
    assert values == [b"first", *(each.value for each in sent), b"last"]


def test_partitions_keep_their_own_order(servers: str, topic: str, client: Client) -> None:
    sent = [Sent(b"%d" % number, partition=number % 3) for number in range(90)]
    client.produce(servers, topic, sent)
    found = client.read(servers, topic, [0, 1, 2], 90)
    for index in range(3):
        values = [each.value for each in found if each.partition == index]
        assert values == [b"%d" % number for number in range(90) if number % 3 == index]


def test_batches_far_larger_than_a_fetch_are_read_to_the_end(
    servers: str, topic: str, client: Client
) -> None:
    sent = [Sent(b"%06d" % number + bytes(50_000)) for number in range(200)]
    client.produce(servers, topic, sent)
    for reader in CLIENTS:
        found = reader.read(servers, topic, [0], 200)
        assert [each.value for each in found] == [each.value for each in sent], reader.name
