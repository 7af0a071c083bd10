"""Java's stores of certificates and keys, JKS and PKCS12, as the PEM that OpenSSL reads.

Which of them a file is, its first bytes say: Java takes either for the other as well.
"""

import base64
import hashlib
import hmac
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from semel.errors import ConfigError

_PEM: Final = b"-----BEGIN"
_JKS: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_VERSION_OF_PKCS12: Final = b"\x02\x01\x03"

_KEY_ENTRY: Final = 1
_CERTIFICATE_ENTRY: Final = 2
_WITH_TYPES: Final = 2
"""The version of JKS whose certificates say that they are X.509."""
_DIGEST_SIZE: Final = 20
# It stands so in Java, and in each store's checksum.
_WORDS: Final = b"Mighty Aphrodite"


class Pem(NamedTuple):
    certificates: str
    """Those who are trusted; or of a key its own, and the chain that leads to it."""
    key: str | None = None

    @property
    def text(self) -> str:
        return (self.key or "") + self.certificates


_DESCRIPTORS: Final = Path("/proc/self/fd")


class UnreadableStore(ConfigError):
    """The password is wrong, or the bytes are; the message says which and what to do."""


def load_trusted(context: ssl.SSLContext, file: str, password: str | None) -> None:
    """Of a file of any kind. Raises UnreadableStore, ssl.SSLError, OSError."""
    store = as_pem(Path(file).read_bytes(), password)
    if store is None:
        context.load_verify_locations(file)
    else:
        context.load_verify_locations(cadata=store.certificates)


def load_own(
    context: ssl.SSLContext,
    file: str,
    key_file: str | None,
    key_password: str | None,
    password: str | None,
) -> None:
    """A certificate and its key, which may stand in a file of its own where both are PEM. Raises as
    `load_trusted`, and ValueError."""
    store = as_pem(Path(file).read_bytes(), password, key_password)
    if store is None:
        # Without a password OpenSSL would ask whoever sits at the terminal.
        context.load_cert_chain(file, key_file, key_password or "")
        return
    if store.key is None:
        raise UnreadableStore("it has no private key, so it says of nobody who they are")
    with _file_of(store.text) as copy:
        context.load_cert_chain(copy)


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """OpenSSL takes a key from a file alone. This one nobody else may read, and it is gone at once;
    on Linux it is in memory, so that no disk keeps what it held."""
    if sys.platform == "linux" and _DESCRIPTORS.is_dir():
        descriptor = os.memfd_create("key")
        with os.fdopen(descriptor, "w", encoding="ascii") as memory:
            memory.write(text)
            memory.flush()
            yield str(_DESCRIPTORS / str(descriptor))
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as copy:
            copy.write(text)
            copy.flush()
            yield copy.name


FileState = tuple[int, int, int] | None


def state_of(file: str | None) -> FileState:
    """Another value when the file is another one, or was written again; None if there is none."""
    try:
        stat = Path(file).stat() if file else None
    except OSError:
        stat = None
    return stat and (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def as_pem(content: bytes, password: str | None, key_password: str | None = None) -> Pem | None:
    """Of a store; None if it is none, so that it is for OpenSSL to read."""
    if _PEM in content:
        return None
    if content.startswith(_JCEKS):
        raise UnreadableStore("it is of the type JCEKS, so export it as PKCS12 by keytool")
    if not content.startswith(_JKS) and not _is_pkcs12(content):
        return None
    if password is None:
        raise UnreadableStore(
            "it is a store of Java's, which has a password: say ssl.keystore.password, or "
            "ssl.truststore.password"
        )
    if content.startswith(_JKS):
        return _Jks(content, password, key_password or password).pem()
    return _pkcs12(content, password)


def _is_pkcs12(content: bytes) -> bool:
    return content[:1] == b"\x30" and _VERSION_OF_PKCS12 in content[:9]


def _pkcs12(content: bytes, password: str) -> Pem:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise UnreadableStore(
            "PKCS12 is read by the package cryptography, which is not installed: "
            "`pip install cryptography`, or export the store as PEM by `openssl pkcs12 -nodes`"
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, password.encode())
    except ValueError:
        raise UnreadableStore("the password does not open it, or it is damaged") from None
    found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    encoding = serialization.Encoding.PEM
    key = None
    if store.key is not None:
        key = store.key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
    return Pem("".join(each.public_bytes(encoding).decode() for each in found), key)


class _Jks:
    def __init__(self, content: bytes, password: str, key_password: str) -> None:
        self._content, self._end = content, len(content) - _DIGEST_SIZE
        self._position = len(_JKS)
        self._key_password = key_password.encode("utf-16-be")
        digest = hashlib.sha1(password.encode("utf-16-be") + _WORDS + content[: self._end])
        if not hmac.compare_digest(digest.digest(), content[self._end :]):
            raise UnreadableStore("the password does not open it, or it is damaged")

    def pem(self) -> Pem:
        version, count = self._number(4), self._number(4)
        trusted: list[str] = []
        chain: list[str] = []
        key = None
        for _ in range(count):
            tag = self._number(4)
            self._bytes(2)  # Its alias.
            self._take(8)  # When it was put there.
            if tag == _KEY_ENTRY:
                key = _pem("PRIVATE KEY", self._unlocked(self._bytes(4)))
                chain = [self._certificate(version) for _ in range(self._number(4))]
            elif tag == _CERTIFICATE_ENTRY:
                trusted.append(self._certificate(version))
            else:
                raise UnreadableStore(f"it has an entry of kind {tag}, which JKS does not know")
        return Pem("".join(chain or trusted), key)

    def _certificate(self, version: int) -> str:
        if version == _WITH_TYPES:
            self._bytes(2)
        return _pem("CERTIFICATE", self._bytes(4))

    def _unlocked(self, locked: bytes) -> bytes:
        """Sun's own way: a key stream of SHA-1, which begins with a salt and ends with a check."""
        protected = _last_octets(locked)
        salt, body = protected[:_DIGEST_SIZE], protected[_DIGEST_SIZE:-_DIGEST_SIZE]
        stream, digest = bytearray(), salt
        while len(stream) < len(body):
            digest = hashlib.sha1(self._key_password + digest).digest()
            stream += digest
        key = bytes(one ^ other for one, other in zip(body, stream, strict=False))
        check = hashlib.sha1(self._key_password + key).digest()
        if not hmac.compare_digest(check, protected[-_DIGEST_SIZE:]):
            raise UnreadableStore("the password of the key is another: say ssl.key.password")
        return key

    def _bytes(self, length_size: int) -> bytes:
        return self._take(self._number(length_size))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size))

    def _take(self, size: int) -> bytes:
        begin, self._position = self._position, self._position + size
        if self._position > self._end:
            raise UnreadableStore(f"it is cut at byte {self._end}, within what begins at {begin}")
        return self._content[begin : self._position]


def _last_octets(encrypted: bytes) -> bytes:
    """Of an EncryptedPrivateKeyInfo: a sequence of how it is encrypted, and of the octets."""
    try:
        begin, _ = _element(encrypted, 0)
        _, after = _element(encrypted, begin)
        begin, end = _element(encrypted, after)
    except IndexError:
        raise UnreadableStore("its key is in no form that JKS knows") from None
    return encrypted[begin:end]


def _element(der: bytes, position: int) -> tuple[int, int]:
    """Where the content of what stands here begins and ends."""
    length, position = der[position + 1], position + 2
    if length & 0x80:
        size = length & 0x7F
        length, position = int.from_bytes(der[position : position + size]), position + size
    return position, position + length


def _pem(kind: str, der: bytes) -> str:
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n"
