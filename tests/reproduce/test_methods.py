"""Encodings as plain values that the model understands."""

from __future__ import annotations

from rfp.nn.model_config import RFPEncoding, read_encoding
from rfp.reproduce.methods import A, L, ablation_rows, eigenvector_values, graph_rows, node_rows, rfp_values
from rfp.transforms import AddEigenvectorPE


def test_encodings_are_read_as_meant() -> None:
    read = read_encoding(rfp_values(L, A, k=3, P=2, normalization="l2"))
    assert read == RFPEncoding(3, 2, ("normalized_laplacian", "normalized_adjacency"), "l2")
    smallest, largest = read_encoding(eigenvector_values(L, 5)), read_encoding(eigenvector_values(A, 5))
    assert isinstance(smallest, AddEigenvectorPE)
    assert isinstance(largest, AddEigenvectorPE)
    assert (smallest.which, largest.which) == ("smallest", "largest_magnitude")
    assert smallest.attr_name != largest.attr_name


def test_rows_of_several_trajectories_say_so() -> None:
    kinds = {"dss": ("dss", {5}), "apart": ("independent", {8})}
    for rows in (node_rows(), graph_rows(backbone="gin", l2_channels=16)):
        for row in rows.values():
            several = {encoding.get("num_trajectories", 1) for encoding in row.model["encodings"]}
            named = [kinds[word] for word in row.id.split("-") if word in kinds]
            if named:
                assert (row.model["trajectories"], several) == named[0]
            else:
                assert "trajectories" not in row.model
                assert several <= {1}


def test_trajectories_apart_have_as_many_channels_in_all_as_the_row_that_they_are_held_against() -> None:
    rows = ablation_rows()
    (usual,), (apart,) = (rows[name].model["encodings"] for name in ("products-usual", "products-apart"))
    assert apart["num_channels"] * apart["num_trajectories"] == usual["num_channels"]
    assert {**apart, "num_channels": 0, "num_trajectories": 0} == {**usual, "num_channels": 0, "num_trajectories": 0}


def test_rows_with_as_many_channels_as_nodes_run_on_request_only() -> None:
    assert {row.id for row in node_rows().values() if row.on_request} == {"eigvecs-A-all", "rnf-all", "rfp-qr-A-kall"}
