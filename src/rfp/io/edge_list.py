"""Edge lists as text, by the rules of ``docs/guides/reading.md``.

The file is parsed by Arrow (about five million lines a second on one core), ids as 64-bit integers first; a short one
by a regular expression instead, before Arrow would be loaded. Only where that fails, or where an id may be written like
``007``, are the columns read as text and looked at; only when something is wrong are lines gone through in Python, to
name the line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.edge_table.columns import Columns, choose_columns, describe_column
from rfp.edge_table.node_ids import (
    Where,
    as_integers,
    check_texts,
    check_weights,
    constant_mark,
    doubtful_kinds,
    first_text,
    kinds_of_ids,
    numbers_of,
    shown,
)
from rfp.edge_table.table import EdgeTable, direction_of, no_edges
from rfp.errors import GraphError, MissingExtraError
from rfp.io.arrow_text import line_of_row, line_problem, may_have_leading_zeros, prepare, read_columns
from rfp.io.compression import read_packed
from rfp.io.dialect import Dialect, find_dialect
from rfp.io.options import ReadOptions
from rfp.io.text_lines import check_utf8, comment_lines, lines, quote_problem, refuse_doubtful_comments, unify_line_ends

# Integers from here on in a third column are times: seconds since 1970 (from 1973 on), or finer.
_FIRST_TIME = 1e8
_POINT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_COMMA = r"^[+-]?([0-9]+,?[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"^[+-]?(?i:nan|inf|infinity)$"


def read_edge_list(path: Path, options: ReadOptions) -> EdgeTable:
    """The edges of a text file; ``-`` is standard input."""
    content, packed = read_packed(path)
    table = parse_edge_list(content, str(path), options)
    return table if packed is None else replace(table, facts={"compression": packed, **table.facts})


def parse_edge_list(content: bytes, file: str, options: ReadOptions) -> EdgeTable:
    r"""The edges of a text; ``file`` is its name in errors.

    Example:
        >>> table = parse_edge_list(b"# who knows whom\nann,bob\nbob,cy\n", "friends.csv", ReadOptions())
        >>> table.first_edges(), table.facts["comments"]
        ((('ann', 'bob'), ('bob', 'cy')), '1 skipped')
    """
    from rfp.io.networkx_lists import ends_alone, expand_dictionaries

    content = unify_line_ends(content, file)
    pattern = comment_lines(content, options.comment)
    bare, num_comments = (content, 0) if pattern is None else pattern.subn(b"", content)
    comments = {"comments": f"{num_comments:,} skipped"} if num_comments else {}
    check_utf8(bare, file)
    lists = expand_dictionaries(bare, file, options)
    if lists is not None:
        bare, options, weights, unused = lists
    dialect = find_dialect(bare, last_comment(content) if num_comments else None, file, options)
    if dialect is None:
        return replace(no_edges(file), facts=comments)
    if lists is not None and dialect.num_columns != (2 if weights is None else 3):
        raise GraphError(
            f"{file}, line {dialect.first_line}: two ids are expected before the dictionary; write the list with "
            "networkx.write_edgelist"
        )
    columns = choose_columns(dialect.names, dialect.num_columns, options, file)
    if pattern is not None and options.comment is None:
        texts = not dialect.looks_integer(columns.source, columns.target)
        written, num_fields = (content, dialect.num_fields) if lists is None else (ends_alone(content), 2)
        refuse_doubtful_comments(written, pattern, dialect.fields, num_fields, dialect.first_line, texts, file)
    del content  # from here on the text without comments is enough: it has the same lines
    table = parse_rows(bare, file, dialect, columns, options)
    if dialect.names is None:
        if looks_like_times(table, options):
            raise times_error(table)
        if may_name_columns(table, dialect, options):
            raise header_error(table, dialect)
        mark = mark_of(table, options)
        if mark is not None:
            raise mark_error(table, *mark)
    doubt = doubtful_kinds(id_kinds(table, options))
    if doubt is not None:
        raise doubt
    if lists is not None:
        table = replace(table, weights=weights, ignored=unused)
    return replace(table, facts={**told_form(dialect, columns), **comments, **table.facts})


def last_comment(content: bytes) -> str | None:
    """The comment just before the first line that is none: it may name the columns."""
    last = None
    for _, line in lines(content):
        if line.lstrip(b" \t")[:1] not in (b"#", b"%"):
            break
        last = line.decode(errors="replace")
    return last


def told_form(dialect: Dialect, columns: Columns) -> dict[str, str]:
    """Separator, header and columns, for people."""
    if dialect.header:
        header = f"line {dialect.first_line}"
    elif dialect.names is not None:
        header = "the last comment"
    else:
        header = "none (line 1 is read as an edge)" if dialect.is_numbered_header else "none"
    roles = {"source": columns.source, "target": columns.target, "weight": columns.weight}
    told = {role: f"column {describe_column(dialect.names, i)}" for role, i in roles.items() if i is not None}
    return {"separator": dialect.separator, "header": header, **told}


def parse_rows(content: bytes, file: str, dialect: Dialect, columns: Columns, options: ReadOptions) -> EdgeTable:
    """The edges of a text without comments whose form is known; what only all rows together tell is not looked at."""

    def where(row: int) -> str:
        return f"{file}, line {line_of_row(content, dialect, row)}"

    if options.quotes and b'"' in content:
        problem = quote_problem(content, dialect.fields, file)
        if problem is not None:
            raise problem
    found, integers, weight, facts = _typed_columns(content, file, dialect, columns, options, where)
    texts = None if integers is not None else (found[columns.source], found[columns.target])
    if dialect.trailing:
        _check_trailing(found[dialect.num_columns], where)
    if weight is not None:
        check_weights(weight, where)
    if texts is not None and dialect.names is not None:
        _refuse_second_header(texts, dialect.names[columns.source], dialect.names[columns.target], where)
    directed, used = None, columns.used
    if columns.direction is not None:
        directed = direction_of(found[columns.direction], options.directed, where)
        used = used if directed is None else (*used, columns.direction)
    return EdgeTable(
        integers,
        texts,
        weight,
        where,
        weights=None if columns.weight is None else f"column {describe_column(dialect.names, columns.weight)}",
        directed=directed,
        ignored=tuple(describe_column(dialect.names, i) for i in range(dialect.num_columns) if i not in used),
        facts=facts,
    )


def _typed_columns(
    content: bytes, file: str, dialect: Dialect, columns: Columns, options: ReadOptions, where: Where
) -> tuple[dict[int, Any], NDArray[np.int64] | None, NDArray[np.float64] | None, dict[str, str]]:
    """The columns, the ids if they are integers, the weights, and what is to be said about them."""
    prepared, delimiter = prepare(content, dialect)
    ids = (columns.source, columns.target)
    more = ([dialect.num_columns] if dialect.trailing else []) + (
        [] if columns.direction is None else [columns.direction]
    )
    quick = options.ids != "text" and dialect.looks_integer(*ids) and not may_have_leading_zeros(prepared, delimiter)
    if quick and not more:
        from rfp.io.few_lines import read_few_lines

        few = read_few_lines(prepared, delimiter, dialect, ids, columns.weight)
        if few is not None:
            return {}, *few, {}
    pa = _arrow()
    types = {i: pa.string() for i in (*ids, *more)}
    number = {} if columns.weight is None else {columns.weight: pa.float64()}
    if quick:
        try:
            found = read_columns(prepared, delimiter, dialect, {**types, **dict.fromkeys(ids, pa.int64()), **number})
        except pa.ArrowInvalid:
            pass
        else:
            ends = np.stack([numbers_of(found[i]) for i in ids])
            return found, ends, _numpy(found, columns), {}
    try:
        found = read_columns(prepared, delimiter, dialect, {**types, **{i: pa.string() for i in number}})
    except pa.ArrowInvalid as error:
        raise line_problem(content, file, dialect) or GraphError(f"{file}: {error}") from error
    source, target = (found[i] for i in ids)
    check_texts(source, target, where, blanks_separate=dialect.fields.delimiter == " ", any_text=options.ids == "text")
    integers = as_integers([source, target], options.ids, where)
    facts = {}
    if integers is None and options.ids is None and dialect.looks_integer(*ids) and len(source):
        row, text = first_text(source, target)
        facts["ids"] = f"text, for {shown(text)} in line {line_of_row(content, dialect, row)} is no integer"
    weight = None
    if columns.weight is not None:
        weight, comma = _weights(found[columns.weight], where)
        facts |= {"decimals": "with a comma"} if comma else {}
    return found, integers, weight, facts


def _arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "reading an edge list") from error
    return pa


def _numpy(found: dict[int, Any], columns: Columns) -> NDArray[np.float64] | None:
    return None if columns.weight is None else numbers_of(found[columns.weight])


def _weights(texts: Any, where: Where) -> tuple[NDArray[np.float64], bool]:
    """Weights from text, and whether they are written with a decimal comma."""
    import pyarrow as pa
    import pyarrow.compute as pc

    comma = False
    good = pc.match_substring_regex(texts, _POINT)
    if not pc.all(good).as_py():
        with_comma = pc.match_substring_regex(texts, _COMMA)
        comma = bool(pc.all(with_comma).as_py())
        if not comma:
            row = int(np.flatnonzero(~good.to_numpy(zero_copy_only=False))[0])
            text = texts[row].as_py()
            if pc.match_substring_regex(pa.array([text]), _NOT_FINITE)[0].as_py():
                problem = f"weight {text} is not finite; correct or remove the edge"
            elif pc.any(good).as_py() and with_comma[row].as_py():
                problem = f"weight {shown(text)} has a decimal comma, others a decimal point; write all alike"
            else:
                problem = f"weight {shown(text)} is not a number; correct it, choose another column with --weight"
            raise GraphError(f"{where(row)}: {problem}, or ignore weights with --unweighted")
        texts = pc.replace_substring(texts, ",", ".")
    return pc.replace_substring_regex(texts, r"^\+", "").cast(pa.float64()).to_numpy(zero_copy_only=False), comma


def has_decimal_point(content: bytes, dialect: Dialect, column: int) -> bool:
    """Whether a number of this column is written with one; costs a second reading of it."""
    import pyarrow.compute as pc

    prepared, delimiter = prepare(content, dialect)
    texts = read_columns(prepared, delimiter, dialect, {column: _arrow().string()})[column]
    return bool(pc.any(pc.match_substring(texts, ".")).as_py())


def _refuse_second_header(texts: tuple[Any, Any], source: str, target: str, where: Where) -> None:
    import pyarrow.compute as pc

    again = pc.and_(pc.equal(texts[0], source), pc.equal(texts[1], target))
    if pc.any(again).as_py():
        row = pc.index(again, True).as_py()
        raise GraphError(
            f"{where(row)}: the names of the columns once more, as files joined end to end have; remove the line, or "
            "give --no-header if they are nodes"
        )


def _check_trailing(column: Any, where: Where) -> None:
    import pyarrow.compute as pc

    if pc.any(pc.not_equal(column, "")).as_py():
        row = int(np.flatnonzero(pc.not_equal(column, "").to_numpy(zero_copy_only=False))[0])
        raise GraphError(
            f"{where(row)}: {shown(column[row].as_py())} in a column that is empty in the first line; correct it, or "
            "name the columns with --source, --target and --weight"
        )


def looks_like_times(table: EdgeTable, options: ReadOptions) -> bool:
    """Whether the numbers of an unnamed third column are seconds since 1970 rather than weights."""
    weight = table.weight
    if weight is None or not len(weight) or options.weight is not None:
        return False
    return bool((weight >= _FIRST_TIME).all()) and bool((weight == np.floor(weight)).all())


def times_error(table: EdgeTable) -> GraphError:
    """For :func:`looks_like_times`."""
    assert table.weight is not None
    return GraphError(
        f"{table.where(0)}: the third column ({table.weight[0]:.0f} here) looks like times, not weights; leave it out "
        "with --unweighted, or use it with --weight 3"
    )


def may_name_columns(table: EdgeTable, dialect: Dialect, options: ReadOptions) -> bool:
    """Whether the ids of the first line appear nowhere else: then it may name the columns."""
    if options.header is not None or table.num_rows < 2 or not dialect.may_be_header:
        return False
    return not has_ids(table, first_ids(table), skip=1)


def mark_of(table: EdgeTable, options: ReadOptions) -> tuple[int, str] | None:
    """What stands in the place of an id in every row, where the weights may be the ids in truth: ``0 -> 1``."""
    asked = (options.source, options.target, options.weight, options.ids)
    weight = table.weight
    if weight is None or table.texts is None or not len(weight) or any(choice is not None for choice in asked):
        return None
    whole = bool((weight >= 0).all()) and bool((weight == np.floor(weight)).all())
    return constant_mark(table.texts) if whole else None


def mark_error(table: EdgeTable, side: int, mark: str) -> GraphError:
    """For :func:`mark_of`."""
    return GraphError(
        f"{table.where(0)}: {shown(mark)} stands in column {side + 1} of every line and numbers in the others; if "
        f"those are the ids, say --source {2 - side} --target 3 --unweighted, if not, --weight 3"
    )


def id_kinds(table: EdgeTable, options: ReadOptions) -> dict[str, str]:
    """Kinds of ids in a table whose ids may be text or numbers (:func:`rfp.edge_table.node_ids.kinds_of_ids`)."""
    if options.ids is not None or not table.num_rows:
        return {}
    return {"integer": table.where(0)} if table.texts is None else kinds_of_ids(*table.texts, table.where)


def first_ids(table: EdgeTable) -> tuple[str, str]:
    """The ids of the first row as text."""
    if table.texts is not None:
        return table.texts[0][0].as_py(), table.texts[1][0].as_py()
    assert table.integers is not None
    return str(table.integers[0, 0]), str(table.integers[1, 0])


def has_ids(table: EdgeTable, ids: tuple[str, str], skip: int = 0) -> bool:
    """Whether one of these ids appears after the first ``skip`` rows."""
    if table.texts is not None:
        import pyarrow.compute as pc

        return any(pc.any(pc.equal(column[skip:], one)).as_py() for column in table.texts for one in ids)
    assert table.integers is not None
    numbers = [int(one) for one in ids if one.isdigit()]
    return any(bool((table.integers[:, skip:] == one).any()) for one in numbers)


def header_error(table: EdgeTable, dialect: Dialect) -> GraphError:
    """For :func:`may_name_columns`."""
    names = ", ".join(shown(field) for field in dialect.first_edge[: dialect.num_columns])
    return GraphError(
        f"{table.where(0)}: {names} may be the names of columns or an edge, for neither appears again; say "
        "--header or --no-header"
    )
