"""What the parts of an encoded message are, and what cannot be encoded."""

import pytest

from semel.types import Buffer
from semel.wire.apis import APIS
from semel.wire.messages import fetch, join_group, produce
from semel.wire.primitives import SCATTER_SIZE_MIN


def fetch_response(*records: Buffer | list[Buffer] | None) -> fetch.FetchResponse:
    partitions = [fetch.PartitionData(index, records=item) for index, item in enumerate(records)]
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse("t", partitions)])


@pytest.mark.parametrize("version", [4, 11, 12])
def test_large_records_are_sent_uncopied_and_small_pieces_joined(version: int) -> None:
    first, second, third = (bytes((value,)) * SCATTER_SIZE_MIN for value in b"abc")
    parts: list[Buffer] = [memoryview(second), third]
    response = fetch_response(first, parts, b"tiny", None, b"")
    encoded = fetch.encode_response(response, version)
    assert len(encoded) == 6
    assert encoded[1] is first
    assert encoded[3] is parts[0]
    assert encoded[4] is third
    decoded, _ = fetch.decode_response(b"".join(encoded), 0, version)
    views = [partition.records for partition in decoded.responses[0].partitions]
    assert views == [first, second + third, b"tiny", None, b""]


def test_parts_are_the_same_on_the_wire_as_one_buffer() -> None:
    whole = bytes(range(256)) * 4
    parts: list[Buffer] = [whole[:100], memoryview(whole)[100:700], bytearray(whole[700:])]
    in_parts = b"".join(fetch.encode_response(fetch_response(parts), 12))
    assert in_parts == b"".join(fetch.encode_response(fetch_response(whole), 12))


@pytest.mark.parametrize("version", [7, 12])
def test_records_are_views_into_the_request(version: int) -> None:
    partition = produce.PartitionProduceData(0, b"r" * 1000)
    request = produce.ProduceRequest(topic_data=[produce.TopicProduceData("t", [partition])])
    body = b"".join(produce.encode_request(request, version))
    decoded, _ = produce.decode_request(body, 0, version)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is body


def test_a_reply_to_produce_is_one_part() -> None:
    partitions = [produce.PartitionProduceResponse(index, 0, 5) for index in range(100)]
    response = produce.ProduceResponse([produce.TopicProduceResponse("t", partitions)])
    for version in range(3, 13):
        assert len(produce.encode_response(response, version)) == 1


def test_null_is_refused_in_a_version_that_cannot_say_it() -> None:
    response = join_group.JoinGroupResponse(protocol_name=None)
    join_group.encode_response(response, 7)
    with pytest.raises(ValueError, match=r"JoinGroupResponse\.protocol_name"):
        join_group.encode_response(response, 6)


def test_a_message_of_defaults_can_be_encoded_in_every_version() -> None:
    for api in APIS:
        for direction in ("request", "response"):
            message = getattr(api.messages, f"{api.name}{direction.title()}")()
            for version in range(api.version_min, api.version_max + 1):
                encoded = b"".join(getattr(api, f"encode_{direction}")(message, version))
                decoded, _ = getattr(api, f"decode_{direction}")(encoded, 0, version)
                assert decoded == message
