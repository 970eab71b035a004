"""Dropped files: good ones, bad ones, and those that are not what they claim."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch

from rfp.explorer.upload import shown_name
from tests.explorer.conftest import Page

RING = b"\n".join(b"n%d,n%d" % (i, (i + 1) % 10) for i in range(10))


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def matrix(write: object) -> bytes:
    file = io.BytesIO()
    write(file, sp.csr_array(np.eye(6, k=1) + np.eye(6, k=-1)))  # type: ignore[operator]
    return file.getvalue()


def test_good_files(page: Page, tmp_path: Path) -> None:
    graphml = b"""<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
        <node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>"""
    for name, body, nodes in (
        ("ring.csv", RING, 10),
        ("ring.csv.gz", gzip.compress(RING), 10),
        ("ring.csv.gz", gzip.compress(RING[:13]) + gzip.compress(RING[13:]), 10),
        (r"C:\data\ring.txt", RING.replace(b",", b" "), 10),
        ("path.npz", matrix(sp.save_npz), 6),
        ("path.mtx", matrix(scipy.io.mmwrite), 6),
        ("two.graphml", graphml, 2),
    ):
        answer = page.upload(name, body)
        assert answer.status_code == 200, answer.text
        facts = page.json(f"graphs/{answer.json()['key']}")
        assert facts["num_nodes"] == nodes, name
        assert page.encode(graph=facts["key"], num_channels=2, num_steps=2)["status"] == "done"
    ring = page.upload("ring.csv", RING).json()["key"]
    assert page.json(f"graphs/{ring}/ids")[:3] == ["n0", "n1", "n2"]
    assert page.upload("ring.csv", RING).json()["key"] == ring  # the same file is the same graph
    renamed = page.upload("ring.csv", RING.replace(b"n0", b"ann")).json()["key"]  # and one with another name is not
    assert page.json(f"graphs/{renamed}/ids")[:3] == ["ann", "n1", "n2"]
    # Nor is one with the same entries that says it is directed.
    both = graphml.replace(b"undirected", b"directed").replace(b"<edge", b'<edge source="b" target="a"/><edge')
    one, other = (page.upload("two.graphml", body).json()["key"] for body in (graphml, both))
    assert [page.json(f"graphs/{key}")["num_edges"] for key in (one, other)] == [1, 2]
    assert one != other


@pytest.mark.parametrize(
    ("name", "body", "part"),
    [
        ("empty.csv", b"", "empty"),
        ("one.csv", b"a\n", "one.csv"),
        ("graph.xyz", b"0 1\n", "suffix"),
        ("", b"0 1 2 3 4\n", "graph.txt"),
        ("a.npz", b"PK not a zip", "a.npz"),
        ("a.mtx", b"hello", "a.mtx"),
        ("a.graphml", b"<graphml", "a.graphml"),
        ("a.parquet", b"PAR1", "a.parquet"),
        ("a.csv.gz", b"\x1f\x8bnot gzip", "gzip"),
        # Without the time of compression, which would be part of the test's name and differ between processes.
        ("a.csv.gz", gzip.compress(b"0,1\n", mtime=0) + b"more", "gzip"),
        ("a.csv.gz", gzip.compress(b"0,1\n", mtime=0)[:-4], "gzip"),
        ("a.parquet", b"PAR1" + bytes(50) + b"PAR1", "not a readable Parquet file"),
        ("nan.csv", b"0,1,nan\n1,2,1\n", "nan.csv"),
    ],
)
def test_bad_files_are_one_clear_line(page: Page, name: str, body: bytes, part: str) -> None:
    answer = page.upload(name, body)
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]
    assert part in message
    assert "\n" not in message
    assert "/tmp" not in message  # where the bytes were put is nobody's business
    assert "dropped" not in message.replace("a dropped file", "")


def test_no_pickle(page: Page) -> None:
    file = io.BytesIO()
    torch.save({"edge_index": torch.tensor([[0], [1]]), "num_nodes": 2}, file)
    for name in ("graph.pt", "graph.PTH"):
        answer = page.upload(name, file.getvalue())
        assert answer.status_code == 400
        assert "pickle" in answer.json()["error"]
    objects = npz(data=np.array([{"a": 1}], dtype=object), format=np.array(b"csr"))
    assert page.upload("objects.npz", objects).status_code == 400


def test_limits_of_bytes_nodes_and_edges(page: Page) -> None:
    def error(name: str, body: bytes) -> str:
        answer = page.upload(name, body)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["error"])

    assert "command line" in error("long.csv", b"0 1\n" * 10_000)
    assert "MB" in error("bomb.csv.gz", gzip.compress(b"0 1\n" * 1_000_000))
    assert "nodes" in error("many.txt", b"\n".join(b"0 %d" % i for i in range(1, 1000)))
    dense = b"\n".join(b"%d %d" % (i, j) for i in range(60) for j in range(i))
    assert "edges" in error("dense.txt", dense)
    packed = npz(data=np.zeros(1_000_000), format=np.array(b"csr"))
    assert len(packed) < 20_000
    assert "MB" in error("packed.npz", packed)
    claims = b"%%MatrixMarket matrix coordinate real general\n% c\n1000000000000 1000000000000 1\n1 1 1\n"
    assert "nodes" in error("claims.mtx", claims)
    claims = b"%%MatrixMarket matrix coordinate real general\n3 3 100000000000\n1 1 1\n"
    assert "edges" in error("claims.mtx", claims)
    assert "nodes" in error("claims.net", b"*Vertices 1000000000000\n1 a\n*Edges\n1 1\n")
    assert "deep.json" in error("deep.json", b"[" * 15_000)
    entities = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><graphml>&a;</graphml>'
    assert "entities" in error("entities.graphml", entities)
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        for declared in ("", '<?xml version="1.0" encoding="utf-16"?>'):
            assert "save it in UTF-8" in error("e.graphml", (declared + entities.decode()).encode(encoding)), encoding


def test_a_zip_that_lies_about_its_size_is_refused_too(page: Page) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", b"\0" * 15_000)
    lying = file.getvalue().replace((15_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert page.upload("lying.npz", lying).status_code == 400


def test_names_are_never_paths() -> None:
    assert shown_name("../../etc/passwd") == "passwd"
    assert shown_name("..\\..\\a.csv") == "a.csv"
    assert shown_name("a\x00b\n.csv") == "ab.csv"
    assert shown_name("") == "graph.txt"
    assert len(shown_name("x" * 500 + ".csv")) == 120
