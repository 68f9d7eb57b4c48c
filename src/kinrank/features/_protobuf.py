"""The wire format of protocol buffers: enough to write a network and to look into one.

A message is a row of fields, each a key (number * 8 + kind) and a value: a varint (kind 0), eight
bytes (1), a length and as many bytes (2), or four bytes (5). Fields may repeat, and a message given
in two pieces is the two of them joined, which is how a network gets another output.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_FIXED = {EIGHT: 8, FOUR: 4}
_MAX_SHIFT = 63


def varint(number: int) -> bytes:
    """A whole number, seven bits to a byte, the lowest first."""
    number &= (1 << 64) - 1  # negative numbers are written as 64 bits
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: a whole number, text, or bytes (a message is bytes too)."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(raw)) + raw


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: (number, value).

    Raises
    ------
    ValueError
        If the bytes are not a message.
    """
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = _read_varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + size > len(message):
            raise ValueError("a field that is longer than the message")
        yield key >> 3, message[at : at + size]
        at += size


def messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of the fields ``number`` that are bytes."""
    for found, value in fields(message):
        if found == number and isinstance(value, memoryview):
            yield value


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > _MAX_SHIFT:
            raise ValueError("a number without an end")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
