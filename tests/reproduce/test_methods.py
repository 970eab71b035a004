"""Encodings as plain values that the model understands."""

from __future__ import annotations

from rfp.nn.model_config import RFPEncoding, read_encoding
from rfp.reproduce.methods import A, L, eigenvector_values, graph_rows, node_rows, rfp_values
from rfp.transforms import AddEigenvectorPE


def test_encodings_are_read_as_meant() -> None:
    read = read_encoding(rfp_values(L, A, k=3, P=2, normalization="l2"))
    assert read == RFPEncoding(3, 2, ("normalized_laplacian", "normalized_adjacency"), "l2")
    smallest, largest = read_encoding(eigenvector_values(L, 5)), read_encoding(eigenvector_values(A, 5))
    assert isinstance(smallest, AddEigenvectorPE)
    assert isinstance(largest, AddEigenvectorPE)
    assert (smallest.which, largest.which) == ("smallest", "largest_magnitude")
    assert smallest.attr_name != largest.attr_name


def test_dss_rows_have_trajectories_and_others_one() -> None:
    for rows in (node_rows(), graph_rows(backbone="gin", l2_channels=16)):
        for row in rows.values():
            several = {encoding.get("num_trajectories", 1) for encoding in row.model["encodings"]}
            is_dss = "dss" in row.id.split("-")
            assert several == {5} if is_dss else several <= {1}
            assert (row.model.get("trajectories") == "dss") == is_dss


def test_rows_with_as_many_channels_as_nodes_run_on_request_only() -> None:
    assert {row.id for row in node_rows().values() if row.on_request} == {"eigvecs-A-all", "rnf-all", "rfp-qr-A-kall"}
