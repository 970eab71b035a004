"""Formats that are not read are named, with what to do."""

from pathlib import Path

import pytest

from rfp.errors import FileError
from rfp.io.compression import PACKED
from rfp.io.readers import FORMATS, read_graph
from rfp.io.unsupported import UNSUPPORTED


@pytest.mark.parametrize("suffix", UNSUPPORTED)
def test_each_is_named_with_advice(suffix: str, tmp_path: Path) -> None:
    kind, advice = UNSUPPORTED[suffix]
    path = tmp_path / f"graph{suffix}"
    path.write_bytes(b"0 1\n")
    with pytest.raises(FileError) as caught:
        read_graph(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert kind in message
    assert advice in message
    assert "\n" not in message


def test_none_of_them_is_read() -> None:
    known = {suffix for format in FORMATS.values() for suffix in format.suffixes}
    assert not known & set(UNSUPPORTED)
    assert not set(PACKED) & set(UNSUPPORTED)
    assert all(suffix == suffix.lower() for suffix in UNSUPPORTED)


def test_capitals_and_a_format_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "GRAPH.XLSX"
    path.write_bytes(b"0 1\n")
    with pytest.raises(FileError, match="an Excel workbook"):
        read_graph(path)
    assert read_graph(path, format="edges").graph.num_nodes == 2  # whoever says so knows better
