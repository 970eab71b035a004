"""Damage, as files get it: cut off, flipped, doubled, joined, edited by hand, written by other programs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import zipfile
from collections.abc import Callable

from tests.fuzz.corpus import unzstd, zstd

# What parsers stumble over: line ends, quotes, marks, ends of number ranges, odd spaces, control characters.
_TOKENS = [
    *(
        mark.encode()
        for mark in [
            "\x00",
            "\r",
            "\r\n",
            "\n\n",
            "\t",
            ",",
            ";",
            ":",
            '"',
            '""',
            "'",
            "#",
            "%",
            "\\",
            "{",
            "}",
            "-",
            ".",
            "e",
            "<",
            ">",
            "&",
            "[1]",
            "\x1a",
            "\x0b",
            "\x0c",
            "\x1b[31m",
        ]
    ),
    *(b" ", b"  ", b"\xff", b"\xc3\x28", b"\xef\xbb\xbf", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xe3\x80\x80", b"\xc3\xa9"),
    *(
        number.encode()
        for number in [
            "-1",
            "+1",
            "0x10",
            "1e400",
            "nan",
            "inf",
            "NA",
            "null",
            "1.5",
            "0,5",
            "007",
            "1_000",
            "2147483648",
            "4294967296",
        ]
    ),
    *(str(number).encode() for number in (2**63 - 1, 2**63, 2**64, 10**40)),
    *(word.encode() for word in ["source,target", "weight", "Directed", "</graph>", "%%MatrixMarket"]),
    b"a" * 200_000,
]


def mutate(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    """One to four kinds of damage; what is packed is often damaged inside and packed again."""
    if random_.random() < 0.6:
        repacked = _inside(content, random_, others)
        if repacked is not None:
            return repacked
    for _ in range(random_.choice([1, 1, 1, 2, 3, 4])):
        content = random_.choice(_KINDS)(content, random_, others)
    return content[: 1 << 21]


def _inside(content: bytes, random_: random.Random, others: list[bytes]) -> bytes | None:
    for magic, unpack, pack in (
        (b"\x1f\x8b", gzip.decompress, gzip.compress),
        (b"BZh", bz2.decompress, bz2.compress),
        (b"\xfd7zXZ", lzma.decompress, lzma.compress),
        (b"\x28\xb5\x2f\xfd", unzstd, zstd),
    ):
        if content.startswith(magic):
            return pack(mutate(unpack(content), random_, others))
    if not content.startswith(b"PK\x03\x04"):
        return None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = random_.choice(list(members))
    members[chosen] = random_.choice(_KINDS)(members[chosen], random_, others)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return out.getvalue()


def _flip(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(random_.choice([1, 1, 2, 8])):
        if changed:
            changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    place = random_.randrange(len(content) + 1)
    value = random_.choice([b"\0", b"\xff", b"\0" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", random_.randbytes(4)])
    return content[:place] + value + content[place + len(value) :]


def _cut(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    return content[: random_.randrange(len(content) + 1)]


def _remove(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    place = random_.randrange(len(content) + 1)
    return content[:place] + content[place + random_.choice([1, 1, 2, 5, 20]) :]


def _insert(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    place = random_.randrange(len(content) + 1)
    return content[:place] + random_.choice(_TOKENS) + content[place:]


def _double(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    begin = random_.randrange(len(content) + 1)
    piece = content[begin : begin + random_.choice([1, 4, 16, 64, 4096])]
    place = random_.randrange(len(content) + 1)
    return content[:place] + piece * random_.choice([1, 1, 2, 50]) + content[place:]


def _join(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    other = random_.choice(others)
    return content[: random_.randrange(len(content) + 1)] + other[random_.randrange(len(other) + 1) :]


def _edit_lines(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    lines = content.split(b"\n")
    place = random_.randrange(len(lines))
    kind = random_.randrange(5)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, random_.choice(lines))
    elif kind == 2:
        lines[place] = random_.choice([b"#", b"%", b"# ", b'"', b" ", b"\t", b","]) + lines[place]
    elif kind == 3:
        lines[place] += random_.choice([b",", b" ", b";", b"\t", b" 7", b",x", b"\r", b' "', b" # note"])
    else:
        random_.shuffle(lines)
    return b"\n".join(lines)


def _exchange_separators(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    separators = [b",", b";", b"\t", b" ", b"  ", b"|", b", ", b"\xc2\xa0"]
    old, new = random_.choice(separators), random_.choice(separators)
    count = random_.choice([1, 1, -1])
    return content.replace(old, new, count)


def _exchange_a_number(content: bytes, random_: random.Random, others: list[bytes]) -> bytes:
    numbers = list(re.finditer(rb"\d+(?:\.\d+)?", content))
    if not numbers:
        return _insert(content, random_, others)
    chosen = random_.choice(numbers)
    return content[: chosen.start()] + random_.choice(_TOKENS) + content[chosen.end() :]


_Kind = Callable[[bytes, random.Random, list[bytes]], bytes]
_KINDS: list[_Kind] = [
    _flip,
    _overwrite,
    _cut,
    _remove,
    _insert,
    _double,
    _join,
    _edit_lines,
    _edit_lines,
    _exchange_separators,
    _exchange_a_number,
    _exchange_a_number,
]
