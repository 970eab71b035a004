"""Options of reading a file are those of a table and some more."""

from dataclasses import fields

import pytest

from rfp.edge_table.table_options import TableOptions
from rfp.errors import ArgumentError
from rfp.io.options import ReadOptions


def test_all_options_of_a_table_are_there_with_their_checks() -> None:
    own = [f.name for f in fields(ReadOptions)]
    assert own[: len(fields(TableOptions))] == [f.name for f in fields(TableOptions)]
    assert own[len(fields(TableOptions)) :] == ["format", "header", "delimiter", "comment", "quotes"]
    with pytest.raises(ArgumentError, match="contradict each other"):
        ReadOptions(weight="w", unweighted=True)


def test_all_is_left_to_the_file() -> None:
    options = ReadOptions()
    undecided = [f.name for f in fields(ReadOptions) if getattr(options, f.name) is not None]
    assert {name: getattr(options, name) for name in undecided} == {"unweighted": False, "quotes": True}
