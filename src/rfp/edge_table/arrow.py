"""Tables with typed columns: Parquet files, and data frames in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.edge_table.columns import Columns, choose_columns, describe_column
from rfp.edge_table.node_ids import Where, as_integers, check_texts, check_weights, numbers_of
from rfp.edge_table.table import EdgeTable, direction_of
from rfp.edge_table.table_options import TableOptions
from rfp.errors import GraphError

# The columns at some positions, as Arrow arrays.
ReadColumns = Callable[[Sequence[int]], Sequence[Any]]


def table_of_columns(names: Sequence[str], read: ReadColumns, options: TableOptions, file: str) -> EdgeTable:
    """The edges of a table with named columns; only the columns that are used are read.

    Args:
        names: Names of the columns.
        read: Reads columns by position.
        options: What was asked for.
        file: Name of the table, for errors.
    """
    import pyarrow as pa

    def where(row: int) -> str:
        return f"{file}, row {row + 1}"

    columns = choose_columns(names, len(names), options, file)
    wanted = columns.used if columns.direction is None else (*columns.used, columns.direction)
    found = dict(zip(wanted, read(wanted), strict=True))
    ends = [_without_nulls(found[i], names[i], where) for i in (columns.source, columns.target)]
    integers, texts = _ids(ends, options, file, where)
    weight = None
    if columns.weight is not None:
        weight = _numbers(_without_nulls(found[columns.weight], names[columns.weight], where), names, columns, file)
        check_weights(weight, where)
    directed, used = None, columns.used
    if columns.direction is not None:
        kinds = _decoded(found[columns.direction])
        if pa.types.is_string(kinds.type) or pa.types.is_large_string(kinds.type):
            directed = direction_of(kinds.cast(pa.string()), options.directed, where)
            used = used if directed is None else wanted
    roles = {"source": columns.source, "target": columns.target, "weight": columns.weight}
    return EdgeTable(
        integers,
        texts,
        weight,
        where,
        weights=None if columns.weight is None else f"column {names[columns.weight]!r}",
        directed=directed,
        ignored=tuple(repr(name) for i, name in enumerate(names) if i not in used),
        facts={role: f"column {describe_column(names, i)}" for role, i in roles.items() if i is not None},
    )


def _decoded(values: Any) -> Any:
    import pyarrow as pa

    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _without_nulls(values: Any, name: str, where: Where) -> Any:
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise GraphError(f"{where(row)}: column {name!r} is null; fill or remove the row")
    return _decoded(values)


def _ids(
    ends: list[Any], options: TableOptions, file: str, where: Where
) -> tuple[NDArray[np.int64] | None, tuple[Any, Any] | None]:
    """The ids as integers, or as texts."""
    import pyarrow as pa

    kinds = [column.type for column in ends]
    told = f"got {kinds[0]} and {kinds[1]}; cast the columns, or choose others with --source and --target"
    if all(map(pa.types.is_integer, kinds)) and options.ids != "text":
        try:
            return np.stack([numbers_of(column.cast(pa.int64())) for column in ends]), None
        except pa.ArrowInvalid as error:
            raise GraphError(
                f"{file}: a node id is larger than 2^63 - 1 ({error}); read the ids with --ids text"
            ) from error
    if any(not (pa.types.is_integer(k) or pa.types.is_string(k) or pa.types.is_large_string(k)) for k in kinds):
        raise GraphError(f"{file}: node ids must be integers or text, {told}")
    if options.num_nodes is not None:
        raise GraphError(f"{file}: with --num-nodes node ids must be integers, {told}")
    texts = (ends[0].cast(pa.string()), ends[1].cast(pa.string()))
    check_texts(*texts, where, blanks_separate=False, any_text=True)
    # Text in a typed table is meant to be text, unless integers are asked for.
    integers = as_integers(list(texts), "int", where) if options.ids == "int" else None
    return integers, None if integers is not None else texts


def _numbers(values: Any, names: Sequence[str], columns: Columns, file: str) -> NDArray[np.float64]:
    import pyarrow as pa

    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(kind(values.type) for kind in kinds):
        raise GraphError(
            f"{file}: the weights in column {describe_column(names, columns.weight)} must be numbers, got "
            f"{values.type}; choose another with --weight, or ignore weights with --unweighted"
        )
    return np.array(values.cast(pa.float64()), dtype=np.float64)
