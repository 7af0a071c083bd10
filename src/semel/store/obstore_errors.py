"""What the errors of `obstore` mean for the seam.

Its types say too little: a bucket that is missing and an object that is missing are one, a create
that another disturbed and one that lost are one, all else is generic. The answer of the store is in
the text, so that is read. What is in doubt is StoreAway, which promises nothing.
"""

import errno
import re
from typing import Final

from semel.store.seam import (
    ObjectExists,
    ObjectMissing,
    StoreAway,
    StoreError,
    StoreRefused,
    StoreThrottled,
)

STATUS: Final = re.compile(r"status code: (\d{3})")
CODE: Final = re.compile(r"<Code>(\w+)</Code>")
MESSAGE: Final = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
ADDRESS: Final = re.compile(r"Error performing \w+ (\w+://[^/\s]+)")
KIND: Final = re.compile(r"HttpError \{\s*kind: (\w+)")

NO_SUCH_OBJECT: Final = frozenset({"NoSuchKey", "BlobNotFound"})
"""Alone these say that a key is free. What else is not found is the bucket, or the store itself."""
EXISTS: Final = frozenset({"BlobAlreadyExists"})
"""Azure's. S3 says 409 to a create that it has not done and that may be tried again."""
THROTTLED: Final = frozenset({"SlowDown", "Throttling", "ThrottlingException", "ServerBusy"})
THROTTLED_STATUSES: Final = frozenset({429, 503})
PASSING: Final = THROTTLED | {"RequestTimeout"}
PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
LASTING_STATUSES: Final = frozenset({501, 505, 507})
LASTING_ERRNOS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}
)
CREDENTIALS: Final = (
    "the store does not know these credentials: look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
REGION: Final = "the bucket is in another region: name that with --store-option region=NAME"
DENIED_STATUSES: Final = frozenset({401, 403})
DENIED: Final = (
    "the store does not say why: look at the credentials (AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY for s3://), the name of the bucket, and --store-option endpoint=URL"
)
FULL: Final = "the store is full, and nothing is acknowledged until there is room"
ADVICE: Final = {
    "AccessDenied": "who runs a node must be allowed to create, read, list and delete there",
    "AuthorizationHeaderMalformed": REGION,
    "ExpiredToken": "renew the credentials",
    "InvalidAccessKeyId": CREDENTIALS,
    "NoSuchBucket": "make the bucket, or name another",
    "PermanentRedirect": REGION,
    "QuotaExceeded": FULL,
    "SignatureDoesNotMatch": CREDENTIALS,
    "XMinioStorageFull": FULL,
}
"""What to do about it, where the store's own words do not say it."""


class BehindTheEnd(StoreRefused):
    """A range begins where the object has no byte any more."""


def translate(error: Exception, doing: str) -> StoreError:
    """`doing` names the call and its key, for who reads the sentence."""
    text = str(error)
    said = f"{doing}: {reason(error)}"
    status = _number(STATUS, text)
    code = _first(CODE, text)
    kind = type(error).__name__
    if isinstance(error, TimeoutError):
        return StoreAway(f"{doing}: no answer in time")
    if isinstance(error, FileNotFoundError):
        is_object = status is None or code in NO_SUCH_OBJECT
        return ObjectMissing(said) if is_object else StoreRefused(said)
    if kind == "AlreadyExistsError":
        is_object = status in {None, 412, 304} or code in EXISTS
        return ObjectExists(said) if is_object else StoreAway(said)
    if status == 416 or "StartTooLarge" in text:
        return BehindTheEnd(said)
    if status in THROTTLED_STATUSES or code in THROTTLED:
        return StoreThrottled(said)
    return StoreRefused(said) if _lasts(kind, status, code, text) else StoreAway(said)


def _lasts(kind: str, status: int | None, code: str | None, text: str) -> bool:
    if kind in {"PermissionDeniedError", "UnauthenticatedError", "NotSupportedError"}:
        return code not in PASSING
    if status is not None:
        is_ours = status < 500 and status not in PASSING_STATUSES and code not in PASSING
        return is_ours or status in LASTING_STATUSES
    if (number := _number(OS_ERROR, text)) is not None:
        return number in LASTING_ERRNOS
    return "builder error" in text


def reason(error: Exception) -> str:
    """One line of it: what the store said, else what the library says."""
    text = str(error)
    status = _number(STATUS, text)
    if status is not None:
        code, message = _first(CODE, text) or "", _first(MESSAGE, text) or ""
        said = " ".join(f"{status} {code} {message}".split())
        if status in DENIED_STATUSES and not code:
            return f"{said}: {DENIED}"
        return f"{said.rstrip('.')}: {ADVICE[code]}" if code in ADVICE else said
    summary = text.partition("\n")[0]
    kind = _first(KIND, text)
    if kind == "Connect" and (address := _first(ADDRESS, text)):
        return f"nobody answers at {address}"
    return f"{summary} ({kind})" if kind else summary


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = _first(pattern, text)
    return None if found is None else int(found)
