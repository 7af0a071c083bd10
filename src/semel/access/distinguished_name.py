"""The name in a certificate, as Java writes it (RFC 2253): CN=Ann\\, B\\=x,OU=dev,O=Semel Ltd.

It is read as it was encoded (X.509, DER), since what Java has no short name for is written so.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.errors import ProtocolError

_SEQUENCE, _IDENTIFIER = 0x30, 0x06
_VERSION: Final = 0xA0
_LONG_FORM: Final = 0x80
_TAG_NUMBER: Final = 0x1F
"""All of its bits are set where a tag goes on in the next byte."""
_BEFORE_SUBJECT: Final = 4
"""The serial number, the algorithm, the issuer and how long it is good; the version may be left
out."""
_SHORT: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Those that RFC 2253 has a short name for."""
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""What Java takes for text, all of it as if it was UTF-8: UTF8String, PrintableString, T61String,
IA5String, GeneralString and BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"
"""That are escaped at both ends."""


class _Value(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def subject_of(certificate: bytes) -> bytes:
    """Raises ProtocolError."""
    parts = list(_values(_sequence(_sequence(certificate))))
    if parts and parts[0].tag == _VERSION:
        del parts[0]
    if len(parts) <= _BEFORE_SUBJECT:
        raise ProtocolError("a certificate without a subject")
    return parts[_BEFORE_SUBJECT].encoded


def distinguished_name(subject: bytes) -> str:
    """Raises ProtocolError."""
    parts = _values(_sequence(subject))
    names = ["+".join(map(_attribute, _values(each.content))) for each in parts]
    return ",".join(reversed(names))


def _attribute(attribute: _Value) -> str:
    values = list(_values(attribute.content))
    if len(values) != 2 or values[0].tag != _IDENTIFIER:
        raise ProtocolError("an attribute of a name has a kind and a value")
    kind, value = _dotted(values[0].content), values[1]
    short = _SHORT.get(kind)
    if short is None or value.tag not in _TEXTS:
        return f"{short or kind}=#{value.encoded.hex()}"
    return f"{short}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    written = "".join(
        "\\" + letter if letter in _ESCAPED else "\\00" if letter == "\0" else letter
        for letter in text
    )
    bare = written.strip(_BLANKS)
    begin = len(written) - len(written.lstrip(_BLANKS))
    before, behind = written[:begin], written[begin + len(bare) :]
    return "".join(f"\\{each}" for each in before) + bare + "".join(f"\\{each}" for each in behind)


def _dotted(content: bytes) -> str:
    numbers, number = list[int](), 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80:
        raise ProtocolError("the kind of an attribute is cut")
    root = min(numbers[0] // 40, 2)
    return ".".join(map(str, (root, numbers[0] - 40 * root, *numbers[1:])))


def _sequence(data: bytes) -> bytes:
    """What is in it. Raises ProtocolError."""
    found = _value(data, 0)
    if found.tag != _SEQUENCE:
        raise ProtocolError(f"a certificate has tag {found.tag} where {_SEQUENCE} should be")
    return found.content


def _values(data: bytes) -> Iterator[_Value]:
    """One behind the other. Raises ProtocolError."""
    position = 0
    while position < len(data):
        found = _value(data, position)
        yield found
        position += len(found.encoded)


def _value(data: bytes, position: int) -> _Value:
    begin = position + 2
    if len(data) < begin:
        raise ProtocolError(f"a certificate is cut at byte {position}")
    tag, size = data[position], data[position + 1]
    if tag & _TAG_NUMBER == _TAG_NUMBER or size == _LONG_FORM:
        raise ProtocolError(f"byte {position} of a certificate is not DER")
    if size > _LONG_FORM:
        # Says how many bytes say how many there are.
        begin += size - _LONG_FORM
        size = int.from_bytes(data[position + 2 : begin], "big")
    end = begin + size
    if end > len(data):
        raise ProtocolError(f"a certificate is cut: {end} bytes, of {len(data)}")
    return _Value(tag, data[begin:end], data[position:end])
