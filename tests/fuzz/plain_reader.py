"""The rules of docs/guides/reading.md once more, as plainly as can be: no Arrow, no NumPy, no code of the library.

Slow and short. What the command accepts must be read the same here, names, entries and weights.
"""

from __future__ import annotations

import ast
import bz2
import gzip
import lzma
import math
import re
from collections.abc import Callable
from typing import Any

from tests.fuzz.corpus import unzstd

PACKED = ("", ".gz", ".bz2", ".xz", ".zst")
Read = tuple[list[Any], dict[tuple[Any, Any], float]]  # nodes in order, entries of the matrix by the names of its ends

_SOURCES = ["source", "src", "from", "u", "node1", "node_1", "id1", "id_1", "fromnodeid", "source_id"]
_TARGETS = ["target", "dst", "to", "v", "node2", "node_2", "id2", "id_2", "tonodeid", "target_id"]
_WEIGHTS = ["weight", "w", "edge_weight", "value"]
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_DICTIONARY = re.compile(r"(.*?)[ \t,;]+(\{.*\})[ \t]*")


class Refused(Exception):  # noqa: N818 - not an error of this program
    """The rules do not let this file be read."""


class CannotTell(Exception):  # noqa: N818 - nor is this
    """A file that the plain reader is too plain for."""


def require(condition: object, why: str) -> None:
    if not condition:
        raise Refused(why)


def unpacked(content: bytes) -> bytes:
    for magic, unpack in ((b"\x1f\x8b", gzip.decompress), (b"BZh", bz2.decompress), (b"\xfd7zXZ\0", lzma.decompress)):
        if content.startswith(magic):
            return unpack(content)  # type: ignore[operator, no-any-return]
    return unzstd(content) if content.startswith(b"\x28\xb5\x2f\xfd") else content


def split(line: str, separator: str) -> list[str]:
    """Fields of a line; those in double quotes may hold the separator."""
    fields, rest = [], line.strip(" \t") if separator == " " else line
    while True:
        rest = rest.lstrip(" \t" if separator != "\t" else " ")
        if rest.startswith('"'):
            quoted = (
                re.match(r'"((?:[^"]|"")*)"(?!")[ \t]*', rest)
                if separator != "\t"
                else re.match(r'"((?:[^"]|"")*)"(?!") *', rest)
            )
            require(quoted, "a quote is not closed")
            assert quoted is not None
            field, rest = quoted[1].replace('""', '"').strip(" \t"), rest[quoted.end() :]
            if separator == " ":
                require(not rest or quoted[0][-1] in " \t", "text after a closing quote")
                more = bool(rest)
            else:
                require(not rest or rest.startswith(separator), "text after a closing quote")
                more, rest = bool(rest), rest[1:]
        else:
            cut = re.search(r"[ \t]+" if separator == " " else re.escape(separator), rest)
            field, more = (rest, False) if cut is None else (rest[: cut.start()], True)
            rest = "" if cut is None else rest[cut.end() :]
            field = field.strip(" \t")
            require('"' not in field, "a quote inside a field")
        fields.append(field)
        if not more:
            return fields


def find_separator(line: str) -> str:
    bare = re.sub(r'"(?:[^"]|"")*"', "q", line).strip(" \t")
    if "\t" in bare:
        separator = "\t"
    elif ";" in bare:
        separator = ";"
        decimal = [f for f in bare.split(";") if "," in f]
        require(all(_NUMBER.fullmatch(f.strip()) for f in decimal), "both ; and ,")
        require(not decimal or len(bare.split(";")) - len(decimal) >= 2, "both ; and ,")
    elif "," in bare:
        fields = bare.split()
        decimal = [f for f in fields if re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", f)]
        plain = [f for f in fields if "," not in f]
        separator = " " if len(plain) >= 2 and len(plain) + len(decimal) == len(fields) else ","
    else:
        separator = " "
    for field in bare.split(separator) if separator != " " else bare.split():
        parts = re.split(r"[ \t,;]+", field.strip(" \t"))
        numbers = len(parts) > 1 and all(map(_NUMBER.fullmatch, parts))
        require(not numbers or _NUMBER.fullmatch(field.strip(" \t")), "a field of several numbers")
    return separator


def is_counted(fields: list[str]) -> bool:
    return fields == [str(i) for i in range(len(fields))]


def usual(names: list[str], known: list[str], least: int = 1) -> bool:
    return any(name.strip().lower() in known and len(name.strip()) >= least for name in names)


def has_header(rows: list[list[str]]) -> bool:
    first = rows[0]
    second = rows[1] if len(rows) > 1 else []
    numbers = [bool(_NUMBER.fullmatch(field)) for field in second]
    if usual(first, _SOURCES, 2) and usual(first, _TARGETS, 2):
        return True
    if not first[0]:
        return not second or second[0] != ""
    if not any(map(_NUMBER.fullmatch, first)) and second and (all(numbers[:2]) or any(numbers[2:])):
        return True
    return is_counted(first) and bool(second) and not all(re.fullmatch(r"-?\d+", field) for field in second[:2])


def check_first_line(rows: list[list[str]], separator: str) -> None:
    first, others = rows[0], {field for row in rows[1:] for field in row[:2]}
    alone = len(rows) > 1 and not set(first[:2]) & others
    no_number = not any(map(_NUMBER.fullmatch, first))
    counted = is_counted(first) and separator != " "
    require(not (alone and (no_number or counted)), "the first line may be a header")


def choose(names: list[str] | None, count: int, *, weighted: bool) -> tuple[int, int, int | None]:
    """Positions of source, target and weight."""
    if names is None:
        require(count in (2, 3) or (count > 3 and not weighted), f"{count} columns without names")
        return 0, 1, 2 if count == 3 and weighted else None

    def find(known: list[str]) -> list[int]:
        return [i for i, name in enumerate(names) if name.strip().lower() in known]

    sources, targets, weights = find(_SOURCES), find(_TARGETS), find(_WEIGHTS)
    require(max(len(sources), len(targets), len(weights)) <= 1, "two columns that mean the same")
    weight = weights[0] if weights and weighted else None
    if not (sources and targets):
        index = {0} if names[0] in ("", "Unnamed: 0") else set()
        left = [i for i in range(count) if i not in index and i not in weights[:1]]
        require(len(left) == 2, "which columns are the ids?")
        sources, targets = left[:1], left[1:]
    return sources[0], targets[0], weight


def read_edge_list(content: bytes, *, directed: bool, weighted: bool) -> Read:
    text = unpacked(content).decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    lines = [line for line in re.split(r"\r\n|\n|\r", text) if line.strip(" \t")]
    marked = [line.lstrip(" \t")[:1] in ("#", "%") for line in lines]
    kept = [line for line, comment in zip(lines, marked, strict=True) if not comment]
    require(kept, "no edges")
    require(not any("\ufeff" in line for line in kept), "a byte-order mark inside")
    require(not any("\udc80" <= char <= "\udcff" for line in kept for char in line), "not UTF-8")
    dictionaries = [_DICTIONARY.fullmatch(line) for line in kept]
    if dictionaries[0] is not None:
        require(all(dictionaries), "a dictionary on some lines only")
        kept = [match[1] for match in dictionaries if match]
    separator = find_separator(kept[0])
    rows = [split(line, separator) for line in kept]
    require(all(len(row) == len(rows[0]) for row in rows), "lines of different lengths")
    names: list[str] | None = None
    if dictionaries[0] is None and has_header(rows):
        names, rows = rows[0], rows[1:]
    elif dictionaries[0] is None:
        before = [line for line, comment in zip(lines, marked, strict=True) if comment or line == kept[0]]
        before = before[: before.index(kept[0])]
        last = re.split(r"[ \t]+" if separator == " " else separator, before[-1].lstrip("#% \t")) if before else []
        last = [name.strip() for name in last]
        if len(last) == len(rows[0]) and usual(last, _SOURCES, 2) and usual(last, _TARGETS, 2):
            names = last
        else:
            check_first_line(rows, separator)
    require(rows, "no edges")
    with_rows = zip(rows, kept[-len(rows) :], strict=True)  # "" is a field, nothing at all is the separator's end
    bare_end = [row[-1] == "" and not line.rstrip().endswith('""') for row, line in with_rows]
    unnamed = names is None or not names[-1]  # of a named column nothing is a value
    if len(rows[0]) > 2 and bare_end[0] and separator != " " and unnamed:
        require(all(bare_end), "a separator ends some lines only")
        rows, names = [row[:-1] for row in rows], None if names is None else names[:-1]
    source, target, weight = choose(names, len(rows[0]), weighted=weighted)
    check_comments(lines, marked, rows, separator, source, target)
    ends = [(row[source], row[target]) for row in rows]
    require(names is None or (names[source], names[target]) not in ends, "the names of the columns again")
    values = [1.0] * len(rows)
    if dictionaries[0] is not None and weighted:
        values = [float(ast.literal_eval(match[2]).get("weight", 1)) for match in dictionaries if match]
    elif weight is not None:
        values = weights([row[weight] for row in rows], named=names is not None)
        require(names is not None or not has_mark(ends, values), "an arrow between ids?")
    require(all(map(math.isfinite, values)), "a weight is not finite")
    kinds = [i for i, name in enumerate(names or []) if name.lower() == "type"]
    directed = directed or bool(kinds and all(row[kinds[0]].lower() == "directed" for row in rows))
    return assemble(identify(ends, separator), values, directed=directed)


def check_comments(
    lines: list[str], marked: list[bool], rows: list[list[str]], separator: str, source: int, target: int
) -> None:
    integers = all(re.fullmatch(r"-?\d+", rows[0][i]) for i in (source, target))
    for place, (line, comment) in enumerate(zip(lines, marked, strict=True)):
        body = line.lstrip(" \t")
        if comment and re.match(r"[#%][^#% \t]", body):
            fields = re.split(r"[ \t]+" if separator == " " else re.escape(separator), body.strip(" \t"))
            after = not all(marked[:place])
            require(not (len(fields) == len(rows[0]) and (after or not integers)), f"comment or edge? {body[:40]}")


def weights(texts: list[str], *, named: bool) -> list[float]:
    require(all(map(_NUMBER.fullmatch, texts)), "a weight is not a number")
    require(not (any("," in text for text in texts) and any("." in text for text in texts)), "points and commas")
    times = all(re.fullmatch(r"\d+", text) and int(text) >= 100_000_000 for text in texts)
    require(named or not times, "times, not weights")
    return [float(text.replace(",", ".")) for text in texts]


def identify(ends: list[tuple[str, str]], separator: str) -> list[tuple[Any, Any]]:
    flat = [name for pair in ends for name in pair]
    require(all(flat), "an empty id")
    require(not any(re.search(r"[\x00-\x1f\x7f-\x9f]", name) for name in flat), "a control character in an id")
    require(not any(name[0] == "{" for name in flat), "an id begins with {")
    check_numbers(set(flat))
    for name in flat:
        bare = name if separator == " " else name[0] + name[-1]
        require(not any(char.isspace() and char not in " \t" for char in bare), "a Unicode space in an id")
    if all(re.fullmatch(r"-?(0|[1-9]\d*)", name, re.ASCII) and -(2**63) <= int(name[:30]) < 2**63 for name in flat):
        require(not any(name.startswith("-") for name in flat), "a negative id")
        return [(int(u), int(v)) for u, v in ends]
    return list(ends)


def has_mark(ends: list[tuple[str, str]], values: list[float]) -> bool:
    """Whether every line is like ``0 -> 1`` or ``e 1 2``."""

    def number(name: str) -> bool:
        return re.fullmatch(r"0|-?[1-9]\d{0,18}", name, re.ASCII) is not None

    sides = [[u for u, _ in ends], [v for _, v in ends]]
    constant = any(
        len(set(one)) == 1 and not number(one[0]) and all(map(number, other)) for one, other in (sides, sides[::-1])
    )
    return constant and all(value >= 0 and value == int(value) for value in values)


def check_numbers(names: set[str]) -> None:
    """In a file of numbers neither a missing value nor a second spelling is a node."""
    integers = {name for name in names if re.fullmatch(r"0|-?[1-9]\d{0,18}", name, re.ASCII)}
    decimals = {name for name in names - integers if re.fullmatch(r"[+-]?\d+(\.0*|(\.\d*)?[eE]\+?\d+)", name, re.ASCII)}
    missing = {name for name in names if name.lower() in ("nan", "na", "n/a", "<na>", "none", "null", "nil")}
    if names == integers | decimals | missing:
        require(not missing or names == missing, "a missing id among numbers")
        require(not integers or not decimals, "numbers with and without decimals")


def assemble(ends: list[tuple[Any, Any]], values: list[float], *, directed: bool) -> Read:
    merged: dict[tuple[Any, Any], float] = {}
    for (u, v), value in zip(ends, values, strict=True):
        for pair in ((u, v),) if directed else ((u, v), (v, u)):
            require(merged.get(pair, value) == value, "two weights for one edge")
            merged[pair] = value
    nodes = dict.fromkeys(name for pair in ends for name in pair)
    numbers = all(isinstance(name, int) for name in nodes)
    return sorted(nodes) if numbers else list(nodes), merged


def read_matrix_market(content: bytes, *, directed: bool, weighted: bool) -> Read:
    lines = re.split(r"\r\n|\n|\r", unpacked(content).decode("latin1"))
    _, _, layout, field, symmetry = lines[0].lower().split()
    rest = [line.split() for line in lines[1:] if line.strip(" \t")]
    rest = rest[next(i for i, line in enumerate(rest) if not line[0].startswith("%")) :]
    sizes, body = [int(size) for size in rest[0]], rest[1:]
    merged: dict[tuple[Any, Any], float] = {}
    if layout == "array":
        triangle = {"general": 0, "symmetric": 0, "skew-symmetric": 1}[symmetry]
        first = [(j + triangle if symmetry != "general" else 0) for j in range(sizes[1])]
        places = [(i, j) for j in range(sizes[1]) for i in range(first[j], sizes[0])]
        found = [(i, j, float(line[0])) for (i, j), line in zip(places, body, strict=True) if float(line[0])]
    else:
        require(len(body) == sizes[2], "the number of entries")
        found = [(int(i) - 1, int(j) - 1, float(v[0]) if v else 1.0) for i, j, *v in body]
        require(all(len(line) == (2 if field == "pattern" else 3) for line in body), "fields of a line")
    sign = -1 if symmetry == "skew-symmetric" else 1
    if symmetry != "general":
        found += [(j, i, sign * v) for i, j, v in found if i != j]
    for i, j, v in found:
        merged[i, j] = merged.get((i, j), 0.0) + (v if weighted else 1.0)
    return list(range(sizes[0])), merged


_TEXT = [".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el", ".ncol", ".dat"]
PLAIN_READERS: dict[str, Callable[..., Read]] = {
    suffix + packed: reader
    for suffix, reader in [*((one, read_edge_list) for one in _TEXT), (".mtx", read_matrix_market)]
    for packed in PACKED
}
