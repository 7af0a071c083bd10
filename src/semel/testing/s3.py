"""The part of S3 that Semel uses, kept in memory: a request in, a response out, nothing else.

Strict: what is not known here is answered 501, so that a library which begins to ask for something
else is noticed. Nothing is awaited in between, so that of all who create one key one wins.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape
from zlib import crc32

PART_BYTES_MIN: Final = 5 * 2**20
"""Of each part of an upload but the last, as S3 has it."""
LAST_MODIFIED: Final = "Thu, 01 Jan 2026 00:00:00 GMT"
LISTING: Final = frozenset({"list-type", "prefix", "start-after", "continuation-token", "max-keys"})
REFUSED: Final = frozenset({"if-match", "x-amz-copy-source"})
WRITES: Final = frozenset({"PUT", "POST", "DELETE"})


@dataclass(slots=True)
class Request:
    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def verb(self) -> str:
        """What it asks for, as price lists name it: PUT, GET, LIST, DELETE."""
        if self.method == "POST":
            return "DELETE" if "delete" in self.query else "PUT"
        if self.method == "GET" and not self.key:
            return "LIST"
        return "GET" if self.method == "HEAD" else self.method


@dataclass(slots=True)
class Response:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    size: int | None = None
    """What the length is said to be where there is no body: of HEAD."""


def parse(method: str, target: str, headers: dict[str, str], body: bytes) -> Request:
    url = urlsplit(target)
    bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    return Request(method, bucket, key, query, headers, body)


def refusal(status: int, code: str, message: str = "") -> Response:
    return xml(f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>", status)


def xml(content: str, status: int = 200) -> Response:
    declared = f'<?xml version="1.0" encoding="UTF-8"?>{content}'
    return Response(status, declared.encode(), {"Content-Type": "application/xml"})


@dataclass(slots=True)
class Upload:
    key: str
    parts: dict[int, bytes] = field(default_factory=dict)


class Bucket:
    """The objects of one bucket and what is being uploaded to it in parts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_there = True
        self.page_size = 1000
        """How many keys one LIST answers."""
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, Upload] = {}
        self._upload_count = 0
        nothing: frozenset[str] = frozenset()
        self._deeds: dict[tuple[str, bool, frozenset[str]], Callable[[Request], Response]] = {
            ("PUT", True, nothing): self._put,
            ("PUT", True, frozenset({"partNumber", "uploadId"})): self._put_part,
            ("POST", True, frozenset({"uploads"})): self._begin_upload,
            ("POST", True, frozenset({"uploadId"})): self._complete_upload,
            ("DELETE", True, frozenset({"uploadId"})): self._abort_upload,
            ("POST", False, frozenset({"delete"})): self._delete_many,
            ("DELETE", True, nothing): self._delete,
            ("GET", True, nothing): self._get,
            ("HEAD", True, nothing): self._get,
            ("GET", False, LISTING): self._list,
        }
        """By method, whether a key is named, and what is asked."""

    def answer(self, request: Request) -> Response:
        if not self.is_there or request.bucket != self.name:
            return refusal(404, "NoSuchBucket", "The specified bucket does not exist")
        is_list = request.method == "GET" and request.query.get("list-type") == "2"
        asked = LISTING if is_list else frozenset(request.query)
        deed = self._deeds.get((request.method, bool(request.key), asked))
        if deed is None or not set(request.query) <= asked or REFUSED & set(request.headers):
            return refusal(501, "NotImplemented", f"{request.method} with {sorted(request.query)}")
        return deed(request)

    def _put(self, request: Request) -> Response:
        if request.headers.get("if-none-match") == "*" and request.key in self.objects:
            return refusal(412, "PreconditionFailed", "There is something under this key")
        self.objects[request.key] = request.body
        return Response(200, headers={"ETag": etag(request.body)})

    def _get(self, request: Request) -> Response:
        content = self.objects.get(request.key)
        if content is None:
            return refusal(404, "NoSuchKey", "The specified key does not exist.")
        headers = {"ETag": etag(content), "Last-Modified": LAST_MODIFIED, "Accept-Ranges": "bytes"}
        if request.method == "HEAD":
            return Response(200, b"", headers, size=len(content))
        wanted = request.headers.get("range")
        if wanted is None:
            return Response(200, content, headers)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
        if found is None:
            return refusal(501, "NotImplemented", f"Range: {wanted}")
        first = int(found[1])
        last = min(int(found[2]) if found[2] else len(content), len(content) - 1)
        if first > last:
            return refusal(416, "InvalidRange", "The requested range is not satisfiable")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return Response(206, content[first : last + 1], headers)

    def _list(self, request: Request) -> Response:
        asked = request.query
        prefix = asked.get("prefix", "")
        behind = max(asked.get("start-after", ""), asked.get("continuation-token", ""))
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > behind)
        page = keys[: min(self.page_size, int(asked.get("max-keys", "1000")))]
        is_truncated = len(page) < len(keys)
        described = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z"
            f"</LastModified><ETag>{escape(etag(self.objects[key]))}</ETag>"
            f"<Size>{len(self.objects[key])}</Size></Contents>"
            for key in page
        )
        if is_truncated:
            described += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        return xml(
            f"<ListBucketResult><Name>{self.name}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(is_truncated).lower()}"
            f"</IsTruncated>{described}</ListBucketResult>"
        )

    def _delete(self, request: Request) -> Response:
        self.objects.pop(request.key, None)
        return Response(204)

    def _delete_many(self, request: Request) -> Response:
        keys = texts(request.body, "Key")
        if not 0 < len(keys) <= 1000:
            return refusal(400, "MalformedXML", f"{len(keys)} keys")
        for key in keys:
            self.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return xml(f"<DeleteResult>{deleted}</DeleteResult>")

    def _begin_upload(self, request: Request) -> Response:
        self._upload_count += 1
        name = f"upload-{self._upload_count}"
        self.uploads[name] = Upload(request.key)
        return xml(
            f"<InitiateMultipartUploadResult><Bucket>{self.name}</Bucket><Key>{escape(request.key)}"
            f"</Key><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
        )

    def _put_part(self, request: Request) -> Response:
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None or upload.key != request.key:
            return refusal(404, "NoSuchUpload", request.query["uploadId"])
        upload.parts[int(request.query["partNumber"])] = request.body
        return Response(200, headers={"ETag": etag(request.body)})

    def _abort_upload(self, request: Request) -> Response:
        self.uploads.pop(request.query["uploadId"], None)
        return Response(204)

    def _complete_upload(self, request: Request) -> Response:
        name = request.query["uploadId"]
        upload = self.uploads.get(name)
        if upload is None or upload.key != request.key:
            return refusal(404, "NoSuchUpload", name)
        if request.headers.get("if-none-match") == "*" and request.key in self.objects:
            return refusal(412, "PreconditionFailed", "There is something under this key")
        numbers = [int(number) for number in texts(request.body, "PartNumber")]
        if not numbers or numbers != sorted(set(numbers)) or not set(numbers) <= set(upload.parts):
            return refusal(400, "InvalidPart", f"{numbers} of {sorted(upload.parts)}")
        parts = [upload.parts[number] for number in numbers]
        if any(len(part) < PART_BYTES_MIN for part in parts[:-1]):
            return refusal(400, "EntityTooSmall", "a part that is not the last")
        content = b"".join(parts)
        self.objects[request.key] = content
        del self.uploads[name]
        return xml(
            f"<CompleteMultipartUploadResult><Bucket>{self.name}</Bucket><Key>"
            f"{escape(request.key)}</Key><ETag>{escape(etag(content))}</ETag>"
            f"</CompleteMultipartUploadResult>"
        )


def texts(document: bytes, name: str) -> list[str]:
    """What the elements of this name hold, whatever their namespace."""
    found = ElementTree.fromstring(document).iter()
    return [element.text or "" for element in found if element.tag.rpartition("}")[2] == name]


def etag(content: bytes) -> str:
    """Any mark will do, and a checksum of all would be most of what a large request costs."""
    return f'"{len(content):x}-{crc32(content[-64:], crc32(content[:64])):08x}"'
