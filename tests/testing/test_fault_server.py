"""The fault server by itself: what it takes for S3, and how another process steers it."""

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from semel.testing.s3 import PART_BYTES_MIN, Bucket, Response, parse


def ask(bucket: Bucket, method: str, target: str, body: bytes = b"", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return bucket.answer(parse(method, target, named, body))


def test_create_only_is_honoured() -> None:
    bucket = Bucket("b")
    assert ask(bucket, "PUT", "/b/a/1", b"first", if_none_match="*").status == 200
    assert ask(bucket, "PUT", "/b/a/1", b"second", if_none_match="*").status == 412
    assert bucket.objects == {"a/1": b"first"}


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PUT", "/b/a", {"if_match": "x"}),
        ("PUT", "/b/a", {"x_amz_copy_source": "/b/c"}),
        ("PUT", "/b/a?acl", {}),
        ("GET", "/b?list-type=2&delimiter=/", {}),
        ("GET", "/b", {}),
        ("GET", "/b/a", {"range": "bytes=-5"}),
        ("PATCH", "/b/a", {}),
    ],
)
def test_what_it_does_not_know_is_refused(
    method: str, target: str, headers: dict[str, str]
) -> None:
    bucket = Bucket("b")
    bucket.objects["a"] = b"content"
    assert ask(bucket, method, target, b"", **headers).status == 501
    assert bucket.objects == {"a": b"content"}


def test_another_bucket_is_not_there() -> None:
    answer = ask(Bucket("b"), "GET", "/c/a")
    assert answer.status == 404
    assert b"NoSuchBucket" in answer.body


def test_an_object_has_its_size_without_its_bytes() -> None:
    bucket = Bucket("b")
    bucket.objects["a"] = b"content"
    answer = ask(bucket, "HEAD", "/b/a")
    assert (answer.status, answer.body, answer.size) == (200, b"", 7)


def test_a_key_may_have_any_character() -> None:
    bucket = Bucket("b")
    ask(bucket, "PUT", "/b/a%26%3C%20b", b"x")
    assert list(bucket.objects) == ["a&< b"]
    assert b"<Key>a&amp;&lt; b</Key>" in ask(bucket, "GET", "/b?list-type=2").body


def complete(*numbers: int) -> bytes:
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber></Part>" for number in numbers)
    return f'<CompleteMultipartUpload xmlns="x">{parts}</CompleteMultipartUpload>'.encode()


def test_an_upload_is_there_when_it_is_completed() -> None:
    bucket = Bucket("b")
    ask(bucket, "POST", "/b/a?uploads")
    (name,) = bucket.uploads
    for number in (2, 1):
        content = b"%d" % number * PART_BYTES_MIN
        ask(bucket, "PUT", f"/b/a?partNumber={number}&uploadId={name}", content)
    assert bucket.objects == {}
    assert ask(bucket, "POST", f"/b/a?uploadId={name}", complete(1, 3)).status == 400
    assert ask(bucket, "POST", f"/b/a?uploadId={name}", complete(1, 2)).status == 200
    assert bucket.objects == {"a": b"1" * PART_BYTES_MIN + b"2" * PART_BYTES_MIN}
    assert ask(bucket, "POST", f"/b/a?uploadId={name}", complete(1, 2)).status == 404


def test_small_parts_are_refused_as_s3_does() -> None:
    bucket = Bucket("b")
    ask(bucket, "POST", "/b/a?uploads")
    (name,) = bucket.uploads
    for number in (1, 2):
        ask(bucket, "PUT", f"/b/a?partNumber={number}&uploadId={name}", b"small")
    assert b"EntityTooSmall" in ask(bucket, "POST", f"/b/a?uploadId={name}", complete(1, 2)).body


@pytest.fixture
def server() -> Iterator[http.client.HTTPConnection]:
    command = [sys.executable, "-m", "semel.testing.fault_server", "--get-ms", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = re.fullmatch(r"The fault server is ready on .+:(\d+)\n", process.stdout.readline())
        assert ready is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(ready[1]), timeout=30)
        yield connection
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def request(
    connection: http.client.HTTPConnection, method: str, target: str, body: str = ""
) -> str:
    connection.request(method, target, body)
    answer = connection.getresponse()
    return f"{answer.status} {answer.read().decode()}"


def test_another_process_says_what_goes_wrong(server: http.client.HTTPConnection) -> None:
    planned = {"fault": "ERROR_AFTER", "verb": "PUT", "key": "a/", "count": 2}
    assert request(server, "POST", "/-/control", json.dumps({"plan": [planned]})).startswith("200")
    assert request(server, "PUT", "/bucket/b/1", "x") == "200 "
    assert request(server, "PUT", "/bucket/a/1", "x").startswith("500")
    assert request(server, "PUT", "/bucket/a/2", "x").startswith("500")
    assert request(server, "PUT", "/bucket/a/3", "x") == "200 "
    assert request(server, "POST", "/-/control", '{"is_full": true}').startswith("200")
    assert request(server, "PUT", "/bucket/a/4", "x").startswith("507")
    assert request(server, "GET", "/bucket/a/1") == "200 x"
    assert request(server, "POST", "/-/control", '{"is_fool": true}').startswith("400")
    status, counted = request(server, "GET", "/-/control").split(" ", 1)
    assert (status, json.loads(counted)) == (
        "200",
        {
            "counts": {"PUT": 5, "PUT ERROR_AFTER": 2, "GET": 1},
            "objects": 4,
            "bytes": 4,
        },
    )
