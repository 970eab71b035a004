"""Where files are looked for, what is downloaded, and what is said when that fails."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from torch_geometric.datasets import WebKB

from rfp.data.roots import cache_folder, data_roots, digests, download_with, download_zip, find_files
from rfp.errors import FileError


def test_the_argument_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("argument", "environment"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("RFP_DATA", str(tmp_path / "environment"))
    monkeypatch.setenv("RFP_CACHE", str(tmp_path / "cache"))
    assert data_roots() == [tmp_path / "environment", tmp_path / "cache" / "raw"]
    assert data_roots(tmp_path / "argument", tmp_path / "c") == [tmp_path / "argument", tmp_path / "c" / "raw"]
    monkeypatch.delenv("RFP_DATA")
    monkeypatch.delenv("RFP_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_roots() == [tmp_path / ".cache" / "rfp" / "raw"]
    assert cache_folder() == tmp_path / ".cache" / "rfp"


def test_a_root_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileError, match="data_root must be a folder"):
        data_roots(tmp_path / "typo")
    monkeypatch.setenv("RFP_DATA", str(tmp_path / "typo"))
    with pytest.raises(FileError, match="RFP_DATA must be a folder"):
        data_roots()


def test_the_root_with_all_files_is_taken(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for root, names in ((first, ["a"]), (second, ["a", "b"])):
        root.mkdir()
        for name in names:
            (root / name).touch()
    assert find_files("set", ["a", "b"], [first, second], None) == second
    assert find_files("set", ["a"], [first, second], None) == first


def test_missing_files_are_listed_with_the_folder_they_belong_in(tmp_path: Path) -> None:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "sub" / "a").touch()
    with pytest.raises(FileError) as caught:
        find_files("set", ["sub/a", "sub/b", "c"], [tmp_path / "root", tmp_path / "cache"], None)
    message = str(caught.value)
    assert "downloads are switched off" in message
    assert f"under {tmp_path / 'root'}:\n  sub/b\n  c" in message
    assert "sub/a" not in message


def no_network(root: Path) -> None:
    (root / "half").touch()
    raise OSError("Name or service not known")


def test_without_a_network_that_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no network \(OSError: Name or service not known\)"):
        find_files("set", ["a"], [tmp_path / "cache"], no_network)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_download_goes_to_our_folder_only(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()

    def fetch(root: Path) -> None:
        (root / "sub").mkdir()
        (root / "sub" / "a").write_text("content")

    found = find_files("set", ["sub/a"], [tmp_path / "root", tmp_path / "cache"], fetch)
    assert (found / "sub" / "a").read_text() == "content"
    assert found == tmp_path / "cache"
    assert list((tmp_path / "root").iterdir()) == []
    with pytest.raises(FileError, match="did not bring sub/b"):
        find_files("set", ["sub/b"], [tmp_path / "root", tmp_path / "cache"], fetch)


def test_download_by_a_pyg_class_does_not_process(
    cornell_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The class fetches from its url; here that is a folder laid out as the repository it points to.
    raw = cornell_root / "webkb" / "cornell" / "raw"
    for name in ("out1_node_feature_label.txt", "out1_graph_edges.txt"):
        target = tmp_path / "server" / "new_data" / "cornell" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((raw / name).read_bytes())
    (tmp_path / "server" / "splits").mkdir()
    for path in raw.glob("*.npz"):
        (tmp_path / "server" / "splits" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(WebKB, "url", (tmp_path / "server").as_uri())
    download_with(WebKB, "webkb", name="cornell")(tmp_path / "into")
    fetched = {str(path.relative_to(tmp_path / "into")) for path in (tmp_path / "into").rglob("*") if path.is_file()}
    assert fetched == {f"webkb/cornell/raw/{path.name}" for path in raw.iterdir()}


def test_download_of_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "hiv.zip", "w") as archive:
        archive.writestr("hiv/raw/edge.csv.gz", "x")
    (tmp_path / "into").mkdir()
    download_zip((tmp_path / "hiv.zip").as_uri(), "hiv", "ogbg_molhiv")(tmp_path / "into")
    assert [str(p.relative_to(tmp_path / "into")) for p in (tmp_path / "into").rglob("*") if p.is_file()] == [
        "ogbg_molhiv/raw/edge.csv.gz"
    ]


def test_checksums_name_the_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"right")
    (tmp_path / "b").write_bytes(b"not listed")
    right = hashlib.sha256(b"right").hexdigest()
    assert digests(tmp_path, ["a"]) == {"a": right}
    (tmp_path / "SHA256SUMS").write_text(f"{right}  ./a\n")
    assert set(digests(tmp_path, ["a", "b"])) == {"a", "b"}
    (tmp_path / "a").write_bytes(b"wrong")
    with pytest.raises(FileError, match=r"a: damaged or replaced, .*SHA256SUMS says"):
        digests(tmp_path, ["a", "b"])
