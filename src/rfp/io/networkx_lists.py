"""Edge lists of NetworkX with a dictionary at the end of each line: ``0 1 {'weight': 2}``."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from rfp.edge_table.node_ids import shown
from rfp.errors import GraphError
from rfp.io.options import ReadOptions
from rfp.io.text_lines import lines

_WITH_DICTIONARY = re.compile(rb"^(.*?)([ \t]+|,|;)[ \t]*(\{.*\})[ \t]*$")
_EVERY_LINE = re.compile(rb"(?m)^(?:(.*?)(?:[ \t]+|,|;)[ \t]*\{.*\}[ \t]*|.*)$")
_LONGEST = 10_000


def expand_dictionaries(
    content: bytes, file: str, options: ReadOptions
) -> tuple[bytes, ReadOptions, str | None, tuple[str, ...]] | None:
    r"""The same list with the weight as a column instead of a dictionary; ``None`` if it is no such list.

    Returns:
        The text, line numbers as before; how to read it; where the weights come from; the keys that were not used.

    >>> expand_dictionaries(b"0 1 {'weight': 2}\n1 2 {}\n", "f", ReadOptions())[0]
    b'0 1 2.0\n1 2 1.0'
    """
    first = next(lines(content), None)
    if first is None or not _WITH_DICTIONARY.match(first[1]):
        return None
    key = options.weight or "weight"
    found: list[tuple[int, bytes, bytes, Any]] = []
    known: dict[bytes, dict[str, Any]] = {}
    others: dict[str, None] = {}
    for number, line in lines(content):
        where = f"{file}, line {number}"
        match = _WITH_DICTIONARY.match(line)
        if match is None:
            raise GraphError(f"{where}: no dictionary at the end, as the first line has; correct or remove the line")
        if not match[1].strip(b" \t"):
            raise GraphError(f"{where}: a dictionary and no edge before it; correct or remove the line")
        text = match[3]
        if text not in known:
            known[text] = _dictionary(text, where)
            others.update(dict.fromkeys(map(str, known[text])))
        found.append((number, match[1], match[2], known[text].get(key)))
    weighted = not options.unweighted and any(value is not None for *_, value in found)
    if options.weight is not None and not weighted:
        raise GraphError(
            f"{file}: no edge has the key {key!r} asked for by --weight; there are {', '.join(others) or 'none'}"
        )
    rows = [b""] * found[-1][0]
    for number, ends, separator, value in found:
        rows[number - 1] = ends + separator + _number(value, f"{file}, line {number}") if weighted else ends
    unused = tuple(repr(name) for name in others if name != key or not weighted)
    plain = replace(options, header=False, weight="3" if weighted else None, unweighted=not weighted)
    return b"\n".join(rows), plain, f"key {key!r}" if weighted else None, unused


def ends_alone(content: bytes) -> bytes:
    r"""What stands before the dictionaries, on the lines where it stood; nothing of lines without one.

    >>> ends_alone(b"# by hand\n#a b {'weight': 2}\n")
    b'\n#a b\n'
    """
    return _EVERY_LINE.sub(rb"\1", content)


def _dictionary(text: bytes, where: str) -> dict[str, Any]:
    try:
        value = ast.literal_eval(text.decode()) if len(text) <= _LONGEST else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        raise GraphError(
            f"{where}: {shown(text.decode(errors='replace'))} is not a dictionary; write the list with "
            "networkx.write_weighted_edgelist or networkx.write_edgelist(data=False)"
        )
    return value


def _number(value: Any, where: str) -> bytes:
    if value is None:
        return b"1.0"
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise GraphError(
            f"{where}: weight {value!r} is not a number; correct it, choose another key with --weight, or ignore "
            "weights with --unweighted"
        )
    return repr(float(value)).encode()
