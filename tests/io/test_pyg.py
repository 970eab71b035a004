"""PyG files: everything that is data is read, nothing that is code is run."""

import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from rfp.errors import FileError, GraphError
from rfp.graph import Graph
from rfp.io.options import ReadOptions
from rfp.io.pyg import read_pyg

ARC = torch.tensor([[0], [1]])


def read(folder: Path, content: object, **options: object) -> Graph:
    torch.save(content, folder / "g.pt")
    return read_pyg(folder / "g.pt", ReadOptions(**options)).graph  # type: ignore[arg-type]


def test_data(tmp_path: Path) -> None:
    data = Data(x=torch.ones(3, 2), edge_index=ARC, edge_weight=torch.tensor([2.0]), y=torch.tensor([1]))
    graph = read(tmp_path, data)
    assert graph.num_nodes == 3
    assert graph.edge_index.tolist() == [[0], [1]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2]
    assert read(tmp_path, data, directed=False).num_edges == 2
    assert read(tmp_path, data, unweighted=True).edge_weight is None


def test_a_list_is_a_batch(tmp_path: Path) -> None:
    graph = read(tmp_path, [Data(edge_index=ARC, num_nodes=2), Data(edge_index=ARC, num_nodes=3)])
    assert graph.offsets.tolist() == [0, 2, 5]
    assert graph.edge_index.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("explicit", [True, False])
def test_a_processed_data_set_is_a_batch(tmp_path: Path, explicit: bool) -> None:
    graphs = [Data(edge_index=ARC, **({"num_nodes": n} if explicit else {"x": torch.ones(n, 1)})) for n in (2, 4)]
    data, slices = InMemoryDataset.collate(graphs)
    for content in ((data.to_dict(), slices, Data), (data, slices)):
        graph = read(tmp_path, content)
        assert graph.offsets.tolist() == [0, 2, 6]
        assert graph.edge_index.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("packed", [True, False])
def test_an_endless_name_of_a_class_is_refused_at_once(tmp_path: Path, packed: bool) -> None:
    """Torch would look for words in such a name in time of its square: minutes, for a file of 200 kB."""
    file = tmp_path / "g.pt"
    named = b"\x80\x02c" + b"a" * 200_000 + b"\nData\nq\x00."
    if packed:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", named)
            archive.writestr("archive/version", b"3\n")
    else:
        ahead = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
        file.write_bytes(b"".join(pickle.dumps(one, protocol=2) for one in ahead) + named)
    with pytest.raises(FileError) as refused:
        read_pyg(file, ReadOptions())
    assert str(refused.value.__cause__) == "the name of a class is endless"


def test_a_dict_of_tensors(tmp_path: Path) -> None:
    weight = torch.tensor([0.5])
    graph = read(tmp_path, {"edge_index": ARC, "num_nodes": 4, "edge_weight": weight})
    assert (graph.num_nodes, graph.edge_weight) == (4, weight)
    assert read(tmp_path, {"edge_index": ARC, "x": torch.ones(5, 1)}).num_nodes == 5
    with pytest.raises(GraphError, match="num_nodes is needed"):
        read(tmp_path, {"edge_index": ARC})
    with pytest.raises(GraphError, match="no tensor edge_index"):
        read(tmp_path, {"weight": ARC})


def test_the_weights_of_a_dataset(tmp_path: Path) -> None:
    graphs = [Data(edge_index=ARC, num_nodes=2, edge_weight=torch.tensor([weight])) for weight in (0.5, 2.0)]
    data, slices = InMemoryDataset.collate(graphs)
    graph = read(tmp_path, (data.to_dict(), slices, Data))
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [0.5, 2.0]


class Trap:
    """Would write a file if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


def test_no_code_of_the_file_runs(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="without running code"):
        read(tmp_path, Trap(tmp_path / "sprung"))
    assert not (tmp_path / "sprung").exists()
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung"), protocol=2))
    with pytest.raises(FileError, match="without running code"):
        read_pyg(tmp_path / "plain.pt", ReadOptions())
    assert not (tmp_path / "sprung").exists()


def test_a_batch_object_says_how_to_save_it(tmp_path: Path) -> None:
    batch = Batch.from_data_list([Data(edge_index=ARC, num_nodes=2)])
    with pytest.raises(FileError, match=r"a Batch as batch.to_data_list\(\)"):
        read(tmp_path, batch)


def test_other_content(tmp_path: Path) -> None:
    hetero = HeteroData()
    hetero["a"].x = torch.ones(2, 1)
    with pytest.raises(FileError, match=r"g.pt"):
        read(tmp_path, hetero)
    with pytest.raises(GraphError, match=r"g.pt holds a Tensor"):
        read(tmp_path, ARC)
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(FileError, match=r"text.pt"):
        read_pyg(tmp_path / "text.pt", ReadOptions())


def test_bad_graphs_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"g.pt: edge_index holds node 1"):
        read(tmp_path, Data(edge_index=ARC, num_nodes=1))
    with pytest.raises(GraphError, match=r"g.pt: edge_weight must be finite"):
        read(tmp_path, Data(edge_index=ARC, num_nodes=2, edge_weight=torch.tensor([float("nan")])))
    with pytest.raises(GraphError, match="has 2 nodes, but --num-nodes is 3"):
        read(tmp_path, Data(edge_index=ARC, num_nodes=2), num_nodes=3)


def test_what_pyg_registered_as_safe_stays_registered(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    read(tmp_path, Data(edge_index=ARC, num_nodes=2))
    assert set(torch.serialization.get_safe_globals()) == before


PAIR = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_nodes", "many", "num_nodes must be"),
        ("num_nodes", 2.5, "num_nodes must be"),
        ("num_nodes", True, "num_nodes must be"),
        ("num_nodes", [2, 3], "num_nodes must be one integer"),
        ("num_nodes", torch.tensor([2.0]), "num_nodes must be"),
        ("num_nodes", -2, "num_nodes must be at least 0"),
        ("num_nodes", 2**70, "num_nodes must be"),
        ("edge_weight", [1.0, 2.0], "edge_weight must be a plain tensor"),
        ("edge_weight", "heavy", "edge_weight must be a plain tensor"),
        ("edge_weight", torch.tensor([1j, 2j]), "edge_weight must be a plain tensor"),
        ("edge_weight", torch.eye(2).to_sparse(), "edge_weight must be a plain tensor"),
        ("edge_weight", torch.ones(3), "one value for each"),
        ("edge_index", PAIR.float(), "edge_index must be a plain tensor of integers"),
        ("edge_index", PAIR.bool(), "edge_index must be a plain tensor of integers"),
        ("edge_index", PAIR.to_sparse(), "edge_index must be a plain tensor of integers"),
        ("edge_index", PAIR[0], "shape"),
        ("edge_index", PAIR.tolist(), "no tensor edge_index"),
        ("ptr", "abc", "ptr must be"),
        ("ptr", torch.tensor([0.0, 2.0]), "ptr must be"),
        ("ptr", torch.tensor([[0, 2]]), "ptr must"),
    ],
)
def test_values_of_a_wrong_type_are_named(tmp_path: Path, name: str, value: object, message: str) -> None:
    values = {"edge_index": PAIR, "num_nodes": 2, name: value}
    with pytest.raises(GraphError, match=rf"g\.pt.*{message}"):
        read(tmp_path, values)
    if name in ("edge_weight", "edge_index"):
        with pytest.raises(GraphError, match=r"g\.pt"):
            read(tmp_path, Data(**values))


@pytest.mark.parametrize(
    ("values", "slices"),
    [
        ({}, {}),
        ({"_num_nodes": "ab"}, {}),
        ({"_num_nodes": [2, -2]}, {}),
        ({"_num_nodes": [2, 2]}, {"edge_index": None}),
        ({"_num_nodes": [2, 2]}, {"edge_index": "abc"}),
        ({"_num_nodes": [2, 2]}, {"edge_index": torch.tensor([0, 1])}),
        ({"_num_nodes": [2, 2]}, {"edge_index": torch.tensor([0, 9, 2])}),
        ({"_num_nodes": [2, 2]}, {"edge_index": torch.tensor([0, 2, 1])}),
        ({"_num_nodes": [2, 2], "edge_index": None}, {}),
        ({}, {"x": torch.tensor([0.5, 2.0])}),
        ({}, {"x": [0, "a"]}),
    ],
)
def test_wrong_slices_are_named(tmp_path: Path, values: dict[str, object], slices: dict[str, object]) -> None:
    joined, cuts = {"edge_index": PAIR, **values}, {"edge_index": torch.tensor([0, 1, 2]), **slices}
    with pytest.raises(GraphError, match=r"g\.pt"):
        read(tmp_path, (joined, cuts))


def test_a_data_that_cannot_be_sized_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"g\.pt.*num_nodes"):
        read(tmp_path, Data(edge_index=PAIR, num_nodes="many", x=3))
    with pytest.raises(GraphError, match=r"g\.pt"):
        read(tmp_path, [Data(edge_index=PAIR, num_nodes=2), 7])


def test_a_damaged_archive_is_refused_wherever_the_damage_is(tmp_path: Path) -> None:
    """torch does not look at the checksum of every part."""
    torch.save(Data(edge_index=ARC, num_nodes=2), tmp_path / "g.pt")
    content = bytearray((tmp_path / "g.pt").read_bytes())
    place = content.index(b"num_nodes")
    content[place : place + 3] = b"nux"
    (tmp_path / "g.pt").write_bytes(content)
    with pytest.raises(FileError, match="not a Data"):
        read_pyg(tmp_path / "g.pt", ReadOptions())
