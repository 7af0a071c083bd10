"""Replies to Produce: who was answered, and what becomes of those who were not."""

import pytest

from semel.client.producing.batch import ProducerBatch
from semel.client.producing.requests import Request, answers_of
from semel.errors import NetworkException
from semel.types import TopicPartition
from semel.wire.messages import produce


def request_of(*partitions: int) -> Request:
    return Request(
        1, [ProducerBatch(TopicPartition("t", partition), 0) for partition in partitions]
    )


def reply_of(*partitions: int) -> produce.ProduceResponse:
    answers = [produce.PartitionProduceResponse(each, 0, 100 + each) for each in partitions]
    return produce.ProduceResponse([produce.TopicProduceResponse("t", answers)])


def test_answers_come_in_the_order_of_the_request() -> None:
    answers = answers_of(request_of(2, 0, 1), reply_of(0, 1, 2))
    assert [answer.base_offset for answer in answers] == [102, 100, 101]


def test_who_is_left_out_asks_again() -> None:
    with pytest.raises(NetworkException, match="says nothing of t-1") as caught:
        answers_of(request_of(0, 1), reply_of(0))
    assert caught.value.retriable
