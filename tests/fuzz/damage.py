"""What can happen to the bytes of a file, and what can be done to them on purpose."""

import io
import json
import re
import struct
import warnings
import zipfile
import zlib

import numpy as np

_INDEX = struct.Struct("<12sIQQQ")  # magic, version, place, length and CRC-32 of the table
_WORDS = (
    b"-1", b"0", b"1", b"2", b"3", b"41", b"999999", b"2147483648", b"9223372036854775807",
    b"1" + b"0" * 30, b"1e999", b"-1e999", b"NaN", b"null", b"true", b'"a"', b"[]", b"{}", b"0.5",
    b"[" * 3000, b'"\\ud800"', b"'", b"\xff\xfe", b"1" * 5000,
)  # fmt: skip
_TYPES = (
    b"<f8",
    b"<i8",
    b"|O",
    b"|b1",
    b">f4",
    b"<U9",
    b"<U9999999",
    b"<c8",
    b"<m8",
    b"|V4",
    b"xx",
)


def damaged(draw, raw, other):
    """Bytes after an accident: cut off, flipped, overwritten, mixed with another file."""
    size = len(raw)
    at, end = sorted((draw.size(0, size), draw.size(0, size)))
    short = min(end, at + draw.size(1, 64))
    fill = draw.pick((b"\0", b"\xff", draw.rng.bytes(1))) * (short - at)
    begin = draw.size(0, len(other))
    part = other[begin : begin + short - at]
    accidents = (
        lambda: raw[:at], lambda: raw[:at], lambda: _flipped(draw, raw),
        lambda: _flipped(draw, raw), lambda: _flipped(draw, raw),
        lambda: raw[:at] + fill + raw[short:], lambda: raw[:at] + part + raw[at + len(part) :],
        lambda: raw[:at] + raw[short:], lambda: raw[:short] + raw[at:],
        lambda: raw + raw[at:short], lambda: raw[:at] + other[at:],
        lambda: _edited_text(draw, raw), lambda: _edited_text(draw, raw),
        lambda: draw.pick((b"", raw[at:], raw + raw, b"\0" * size, raw[::-1])),
    )  # fmt: skip
    return draw.pick(accidents)()


def _flipped(draw, raw):
    """A few bits turned over; half of the time near the ends, where headers and tables are."""
    changed = bytearray(raw)
    for _ in range(draw.pick((1, 1, 1, 2, 8))):
        size = len(raw)
        near = min(size, 400)
        at = draw.pick((draw.size(0, near - 1), size - draw.size(1, near), draw.size(0, size - 1)))
        changed[at] ^= 1 << draw.size(0, 7)
    return bytes(changed)


def crafted(draw, raw):
    """Bytes that somebody made: other contents, with checksums that are right."""
    if raw.startswith(b"kinrankindex"):
        return _crafted_index(draw, raw)
    if raw.startswith(b"PK"):
        return _crafted_zip(draw, raw)
    if raw[8:9] == b"{":
        length = int.from_bytes(raw[:8], "little")
        text = _edited_text(draw, raw[8 : 8 + length])
        return len(text).to_bytes(8, "little") + text + raw[8 + length :]
    return _edited_header(draw, raw) if raw.startswith(b"\x93NUMPY") else _edited_text(draw, raw)


def _edited_text(draw, text):
    """One number or word of a header replaced by another."""
    tokens = list(re.finditer(rb"-?\d+(\.\d+)?|\"[^\"]*\"|true|false|null", text[:4000]))
    tokens += list(re.finditer(rb"-?\d+(\.\d+)?|\"[^\"]*\"|true|false|null", text[-4000:]))
    if not tokens:
        return text[: len(text) // 2]
    token = draw.pick(tokens)
    shift = 0 if token.string == text[:4000] else len(text) - len(token.string)
    begin, end = token.start() + shift, token.end() + shift
    word = draw.pick(_WORDS) if draw.chance(0.8) else draw.pick(tokens).group()
    return text[:begin] + word + text[end:]


def _edited_header(draw, raw):
    """An npy file whose header says something else, of the right length."""
    length = int.from_bytes(raw[8:10], "little")
    header = raw[10 : 10 + length].rstrip()
    if draw.chance(0.4):
        header = re.sub(rb"'[<>|][a-zA-Z]\d+'", b"'" + draw.pick(_TYPES) + b"'", header)
    else:
        header = _edited_text(draw, header)
    header = header.ljust(length - 1)[:65000] + b"\n"
    return raw[:8] + len(header).to_bytes(2, "little") + header + raw[10 + length :]


def _crafted_zip(draw, raw):
    """An archive with a member changed, renamed, left out or there twice."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.pick(sorted(members))
    kind, out = draw.size(0, 7), io.BytesIO()
    if kind <= 2:
        members[name] = _edited_header(draw, members[name])
    elif kind == 3:
        members[name] = _bytes(_odd_array(draw, np.load(io.BytesIO(members[name]))))
    elif kind == 4:
        del members[name]
    elif kind == 5:
        other = draw.pick(("a", ".npy", "../a.npy", "ids", "ids.npy", "a" * 300, "é.npy", "/a.npy"))
        members[other] = members.pop(name)
    elif kind == 6:
        members[name] = draw.pick((b"", members[name][:50], b"text", b"\x80\x04N.", raw))
    with zipfile.ZipFile(out, "w", draw.pick((0, 8, 12, 14))) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, content in members.items():
            archive.writestr(title, content)
        if kind == 7:
            archive.writestr(name, draw.pick((members[name], members[name][:80], b"")))
    return out.getvalue()


def _bytes(array):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def _crafted_index(draw, raw):
    """An index with other contents in an array or in its table."""
    magic, version, place, length, _ = _INDEX.unpack(raw[: _INDEX.size])
    text = raw[place : place + length]
    body = bytearray(raw[:place])
    if draw.chance(0.65):
        table = json.loads(text)
        name = draw.pick(sorted(table["arrays"]))
        entry = table["arrays"][name]
        dtype, begin = np.dtype(entry["dtype"]), entry["offset"]
        size = int(np.prod(entry["shape"])) * dtype.itemsize
        array = np.frombuffer(bytes(body[begin : begin + size]), dtype).copy()
        if array.size:
            body[begin : begin + size] = _odd_values(draw, array).tobytes()
        entry["crc32"] = zlib.crc32(body[begin : begin + size])
        text = json.dumps(table).encode()
    else:
        text = _edited_table(draw, text, bytes(body))
    head = _INDEX.pack(magic, version, place, len(text), zlib.crc32(text))
    return head + bytes(body[_INDEX.size :]) + text


def _edited_table(draw, text, body):
    if draw.chance(0.5):
        return _edited_text(draw, text)
    table = json.loads(text)
    name = draw.pick(sorted(table["arrays"]))
    entry = table["arrays"][name]
    kind = draw.size(0, 6)
    if kind == 0:
        del table["arrays"][name]
    elif kind == 1:
        entry["dtype"] = draw.pick(("<f4", "<f8", "<i4", "<i8", "<U9", "|b1", "|O", 7))
    elif kind == 2 and entry["shape"]:
        entry["shape"][0] = draw.pick((0, 1, entry["shape"][0] - 1, entry["shape"][0] + 1, 2**40))
    elif kind == 3:
        entry["shape"] = draw.pick(([], [0], entry["shape"][::-1], [1, *entry["shape"]], None))
    elif kind == 4:
        entry["offset"] += draw.pick((1, -64, 64, 4))
    elif kind == 5:
        about = table["description"]
        about[draw.pick(sorted(about))] = draw.pick((None, -1, 0, 10**12, "a", [], {}, True, 1e300))
    else:
        other = draw.pick(sorted(table["arrays"]))
        table["arrays"][name] = table["arrays"][other]
    for one in table["arrays"].values():  # the checksums of what is there now
        try:
            size = int(np.prod(one["shape"])) * np.dtype(one["dtype"]).itemsize
            one["crc32"] = zlib.crc32(body[one["offset"] : one["offset"] + size])
        except (TypeError, ValueError, KeyError):
            continue
    return json.dumps(table).encode()


def _odd_values(draw, array):
    """Some entries changed to what they should not be."""
    for _ in range(draw.pick((1, 1, 3, array.size))):
        at = draw.size(0, array.size - 1)
        if array.dtype.kind == "i":
            array[at] = draw.pick((-5, -1, 0, 1, 39, 40, 41, 47, 1000, 2**31 - 1, -(2**31)))
        elif array.dtype.kind == "f":
            array[at] = draw.pick((np.nan, np.inf, -np.inf, -1.0, 0.0, 1e38, 1e-45, 2.0))
        elif array.dtype.kind == "U":
            array[at] = draw.pick(("", array[0], "\0", "é"))
    if draw.chance(0.2):
        draw.rng.shuffle(array)
    return array


def _odd_array(draw, array):
    with np.errstate(all="ignore"):
        return draw.pick((
            array[:0], array[:-1], array.ravel(), array[None], array.astype(str),
            array if array.dtype.kind == "U" else array.astype(np.float64) * np.nan,
            array if array.dtype.kind == "U" else array.astype(np.float64) * 1e300,
            array if array.dtype.kind == "U" else array.astype(np.int64) - 7,
            array if array.dtype.kind == "U" else array.astype(bool),
        ))  # fmt: skip
