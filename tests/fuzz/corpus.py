"""Good files of every format, from which bad ones are made."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, InMemoryDataset


@dataclass(frozen=True)
class Seed:
    """A file that the command reads: its name tells the format."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        return self.name[self.name.index(".") :]


# Every dialect that docs/guides/reading.md speaks of.
_TEXTS = {
    "plain.txt": "0 1\n1 2\n2 0\n2 3\n10 3\n",
    "weights.csv": "source,target,weight\n0,1,0.5\n1,2,2\n2,0,1.25\n2,3,-4e-1\n",
    "names.csv": "ann,bob\nbob,cy\ncy,dan\ndan,ann\n",
    "header.csv": "user,friend\nann,bob\nbob,cy\nann,cy\n",
    "tabs.tsv": "src\tdst\tw\tnote\n5\t7\t1\tx\n7\t9\t2\ty\n9\t5\t3\tz\n",
    "semicolons.csv": "0;1;0,5\n1;2;1,5\n2;3;2,0\n",
    "snap.txt": "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n0\t2\n1\t2\n30\t1\n",
    "percent.edges": "% sym weighted\n% 4 5\n1 2 1.5\n2 3 2.5\n3 1 0.5\n",
    "quotes.csv": '"a, b",c\nc,"d ""e"""\n"d ""e""","a, b"\n',
    "pandas.csv": ",source,target\n0,10,11\n1,11,12\n2,12,10\n",
    "gephi.csv": "Source,Target,Type,Id,Weight\na,b,Directed,0,1.0\nb,c,Directed,1,2.0\n",
    "dictionaries.edgelist": "0 1 {'weight': 2}\n1 2 {'weight': 0.5}\n2 0 {'weight': 7}\n",
    "empty_dictionaries.edgelist": "a b {}\nb c {}\n",
    "zeros.el": "007 7\n7 8\n008 007\n",
    "unicode.csv": "\ufeffädam,βeta\nβeta,中\n中,ädam\n",
    "twice.dat": "0 1\n1 0\n1 2\n1 2\n2 1\n",
    "times.txt": "1 2 1082040961\n3 4 1082155839\n1 4 1082414391\n",
    "trailing.csv": "0,1,\n1,2,\n2,3,\n",
    "loops.txt": "0 0\n0 1\n1 1\n2 0\n",
    "mac.txt": "0 1\r1 2\r2 0\r",
    "windows.csv": "a,b,1\r\nb,c,2\r\nc,a,3\r\n",
    "large_graph_layout.ncol": "ann bob 1.0\nbob cy 0.25\ncy ann 3\n",
    "indented.tsv": "\ta\tb\n0\t10\t11\n1\t11\t12\n",
}

_GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"><default>1.5</default></key>
<key id="c" for="node" attr.name="colour" attr.type="string"/>
<graph edgedefault="undirected"><node id="a"><data key="c">red</data></node><node id="b"/><node id="c"/>
<edge source="a" target="b"><data key="w">2.5</data></edge><edge source="b" target="c"/></graph></graphml>
"""

_GEXF = """<?xml version="1.0" encoding="UTF-8"?>
<gexf xmlns="http://gexf.net/1.3" version="1.3"><graph defaultedgetype="directed">
<nodes><node id="a" label="Ann"/><node id="b" label="Bob"/><node id="c"/></nodes>
<edges><edge id="0" source="a" target="b" weight="2.5"/><edge id="1" source="b" target="c"/></edges></graph></gexf>
"""

_GML = """graph [
  directed 1
  node [ id 0 label "ann" ] node [ id 1 label "bob &amp; co" ] node [ id 2 label "cy" ]
  edge [ source 0 target 1 weight 0.5 ] edge [ source 1 target 2 value 3 ]
]
"""

_PAJEK = {
    "sections.paj": '*Network friends\n*Vertices 3\n1 "ann" 0.1 0.2\n2 "bob"\n3 cy\n*Arcs\n1 2 0.5\n*Edges\n2 3\n',
    "lists.net": "% made by hand\n*Vertices 4\n*Arcslist\n1 2 3\n*Edgeslist\n3 4\n",
    "matrix.pajek": "*Vertices 3\n*Matrix\n0 1 0\n1 0 2.5\n0 2.5 0\n",
}

_JSONS = {
    "edges.json": {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b"}]},
    "directed.json": {
        "directed": True,
        "multigraph": True,
        "graph": {},
        "nodes": [{"id": 5}, {"id": 7}, {"id": 9}],
        "links": [{"source": 5, "target": 7, "weight": 0.5}, {"source": 7, "target": 9, "key": 1}],
    },
}


def _graph() -> nx.Graph:
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 0.5), (1, 2, 2.0), (2, 0, 1.0), (2, 3, 4.0)])
    return graph


def _matrix() -> sp.csr_array:
    return sp.csr_array(nx.to_numpy_array(_graph()))


def _npz(kind: str, *, compressed: bool) -> bytes:
    file = io.BytesIO()
    sp.save_npz(file, _matrix().asformat(kind), compressed=compressed)
    return file.getvalue()


def _mtx(matrix: object, **more: object) -> bytes:
    file = io.BytesIO()
    scipy.io.mmwrite(file, matrix, **more)
    return file.getvalue()


def _parquet(table: pa.Table, **more: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **more)
    return file.getvalue()


def _parquets() -> dict[str, bytes]:
    numbers = pa.table({"source": [0, 1, 2, 2], "target": [1, 2, 0, 3], "weight": [0.5, 2.0, 1.0, 4.0]})
    texts = pa.table({"source": ["ann", "bob", "cy"], "target": ["bob", "cy", "ann"], "note": [1, 2, 3]})
    unsigned = pa.table({"u": pa.array([0, 2**63 + 5], pa.uint64()), "v": pa.array([1, 2], pa.uint64())})
    return {
        "numbers.parquet": _parquet(numbers),
        "texts.parquet": _parquet(texts, use_dictionary=True, compression="zstd"),
        "plain.parquet": _parquet(texts, use_dictionary=False, compression="none", data_page_version="2.0"),
        "unsigned.pq": _parquet(unsigned, compression="none"),
    }


def _saved(content: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def _pyg() -> dict[str, bytes]:
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    one = Data(edge_index=edges, num_nodes=5, edge_weight=torch.tensor([0.5, 1.0, 2.0, 4.0]))
    joined, slices = InMemoryDataset.collate([one, Data(edge_index=edges, num_nodes=4, edge_weight=torch.ones(4))])
    return {
        "data.pt": _saved(one),
        "list.pt": _saved([one, one]),
        "dict.pth": _saved({"edge_index": edges, "num_nodes": 4, "edge_weight": torch.ones(4)}),
        "dataset.pt": _saved((joined.to_dict(), slices)),
    }


def _through_networkx() -> dict[str, bytes]:
    """Formats that NetworkX writes."""
    files = {"links.json": json.dumps(nx.node_link_data(_graph(), edges="links")).encode()}
    for name, write in (
        ("graph.graphml", nx.write_graphml),
        ("graph.gexf", nx.write_gexf),
        ("graph.gml", nx.write_gml),
        ("graph.net", nx.write_pajek),
    ):
        file = io.BytesIO()
        write(_graph(), file)
        files[name] = file.getvalue()
    return files


def _compressed(seed: Seed) -> list[Seed]:
    packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
    return [Seed(seed.name + suffix, pack(seed.content)) for suffix, pack in packers.items()]


def zstd(content: bytes) -> bytes:
    """What the program ``zstd`` writes."""
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def unzstd(content: bytes) -> bytes:
    """And back."""
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return bytes(stream.read())


def seeds() -> list[Seed]:
    """All of them; a test finds the formats of the command that have none."""
    texts = _TEXTS | _PAJEK | {"declared.graphml": _GRAPHML, "declared.gexf": _GEXF, "directed.gml": _GML}
    texts |= {name: json.dumps(content) for name, content in _JSONS.items()}
    files = {name: text.encode() for name, text in texts.items()}
    files |= {
        "csr.npz": _npz("csr", compressed=True),
        "coo.npz": _npz("coo", compressed=False),
        "dia.npz": _npz("dia", compressed=False),
        "bsr.npz": _npz("bsr", compressed=True),
        "general.mtx": _mtx(_matrix()),
        "symmetric.mtx": _mtx(_matrix(), symmetry="symmetric"),
        "pattern.mtx": _mtx(_matrix(), field="pattern", symmetry="general"),
        "array.mtx": _mtx(np.round(_matrix().toarray(), 1)),
    }
    files |= _parquets() | _pyg() | _through_networkx()
    found = [Seed(name, content) for name, content in files.items()]
    packed = [seed for seed in found if seed.name in ("plain.txt", "weights.csv", "general.mtx", "declared.graphml")]
    return found + [small for seed in packed for small in _compressed(seed)]
