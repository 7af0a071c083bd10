"""Messages that are bytes to whoever carries them: what nodes of a cluster say to each other."""

from semel.types import Buffer


def decode_request(buffer: Buffer, position: int, version: int) -> tuple[bytes, int]:
    return bytes(buffer[position:]), len(buffer)


def encode_request(request: bytes, version: int) -> list[Buffer]:
    return [request]


decode_response = decode_request
encode_response = encode_request
