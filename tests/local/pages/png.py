"""PNG files as Chromium writes them: their size, whether there is anything to see, and the same in far fewer bytes."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 256
_ENOUGH = 400_000


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def variety(png: bytes) -> int:
    """How many different bytes its first filtered pixels have: a picture of one colour has a handful."""
    return len(set(zlib.decompressobj().decompress(_deflated(png), _ENOUGH)))


def packed(png: bytes) -> bytes:
    """The same picture with the 256 colours that it has most of, and for the others the nearest of those."""
    rows = list(_rows(png))
    counts = Counter(row[at : at + 3] for row in rows for at in range(0, len(row), 3))
    palette = [colour for colour, _ in counts.most_common(_PALETTE)]
    number = {colour: min(range(len(palette)), key=lambda one: _distance(palette[one], colour)) for colour in counts}
    indexed = b"".join(b"\0" + bytes(number[row[at : at + 3]] for at in range(0, len(row), 3)) for row in rows)
    head = struct.pack(">IIBBBBB", *size_of(png), 8, 3, 0, 0, 0)
    parts = [(b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(indexed, 9)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part)) for name, part in parts
    )
    return _SIGNATURE + b"".join(chunks)


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _deflated(png: bytes) -> bytes:
    found, at = b"", len(_SIGNATURE)
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        found += png[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    return found


def _rows(png: bytes) -> Iterator[bytes]:
    """Pixels of 3 bytes, row by row, without their filters (PNG specification, section 9)."""
    assert png[24:26] == b"\x08\x02", "Chromium writes 8 bits for each of red, green and blue"
    width, height = size_of(png)
    raw, stride = zlib.decompress(_deflated(png)), width * 3
    above = bytes(stride)
    for start in range(0, height * (stride + 1), stride + 1):
        above = _unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above)
        yield above


def _unfiltered(kind: int, row: bytes, above: bytes) -> bytes:
    if kind == 0:
        return row
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(row, above, strict=True))
    done = bytearray(row)
    for at, byte in enumerate(row):
        left, corner = (done[at - 3], above[at - 3]) if at >= 3 else (0, 0)
        done[at] = (byte + _guess(kind, left, above[at], corner)) & 255
    return bytes(done)


def _guess(kind: int, left: int, up: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 3:
        return (left + up) // 2
    base = left + up - corner
    to_left, to_up, to_corner = abs(base - left), abs(base - up), abs(base - corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner
