"""The routes: what they send is what ``rfp.encode`` computes."""

from __future__ import annotations

import io

import numpy as np
import torch

import rfp
from rfp.explorer.server import karate_club
from tests.explorer.conftest import Page

CLUB = karate_club().graph


def test_values_are_those_of_encode(page: Page) -> None:
    settings = {
        "num_channels": 5,
        "num_steps": 7,
        "normalize_every": 2,
        "num_trajectories": 3,
        "operators": ["normalized_laplacian", "adjacency^2"],
        "normalization": "l2",
        "start": "orthonormal",
        "distribution": "rademacher",
        "seed": 11,
    }
    about = page.encode(**settings)
    assert about["status"] == "done"
    assert about["shape"] == {"trajectories": 3, "operators": 2, "steps": 8, "channels": 5}
    expected = rfp.encode(CLUB, **settings)
    assert about["backend"] == expected.report.backend
    for b, o, p, c in ((0, 0, 0, 0), (2, 1, 7, 4), (1, 0, 3, 2)):
        query = f"trajectory={b}&operator={o}&step={p}&channel={c}"
        got = np.frombuffer(page.get(f"encodings/{about['key']}/values?{query}").content, "<f4")
        np.testing.assert_array_equal(got, expected.states[b, :, p, 5 * o + c].numpy())
    array = np.load(io.BytesIO(page.get(f"encodings/{about['key']}/encoding.npy").content))
    np.testing.assert_array_equal(array, expected.node_first().numpy())


def test_graph_as_drawn(page: Page) -> None:
    facts = page.json(f"graphs/{page.graph}")
    assert (facts["num_nodes"], facts["num_edges"], facts["directed"]) == (34, 78, False)
    edges = np.frombuffer(page.get(f"graphs/{page.graph}/edges").content, "<u4").reshape(-1, 2)
    assert {tuple(pair) for pair in edges.tolist()} == {
        (int(u), int(v)) for u, v in CLUB.edge_index.T.tolist() if u < v
    }
    degrees = np.frombuffer(page.get(f"graphs/{page.graph}/degrees").content, "<f4")
    assert degrees[0] == 16
    assert degrees[33] == 17
    assert page.json(f"graphs/{page.graph}/ids") is None
    places = np.frombuffer(page.get(f"graphs/{page.graph}/positions").content, "<f4")
    assert places.shape == (68,)
    assert np.isfinite(places).all()


def test_analysis_of_the_states_on_the_screen(page: Page) -> None:
    about = page.encode(num_channels=3, num_steps=6)
    study = page.wait(f"encodings/{about['key']}/analysis?operator=0&trajectory=0")
    S = rfp.operators.from_name("normalized_adjacency", CLUB, torch.float64).to_dense().numpy()
    values, vectors = np.linalg.eigh(S)
    order = np.argsort(-abs(values))
    np.testing.assert_allclose(study["eigenvalues"], values[order[:3]], atol=1e-12)
    np.testing.assert_allclose(study["spectrum"], sorted(values, reverse=True), atol=1e-12)
    np.testing.assert_allclose(study["rate"], abs(values[order[3]] / values[order[2]]))
    states = rfp.encode(CLUB, num_channels=3, num_steps=6).states[0].double().numpy()
    for p in (0, 6):
        q = np.linalg.qr(states[:, p])[0]
        cosines = np.linalg.svd(vectors[:, order[:3]].T @ q, compute_uv=False)
        np.testing.assert_allclose(np.cos(study["angles"][p]), cosines, atol=1e-7)
        np.testing.assert_allclose(sorted(study["ritz"][p]), np.linalg.eigvalsh(q.T @ S @ q), atol=1e-6)


def test_where_angles_cannot_be_had_it_says_why(page: Page) -> None:
    about = page.encode(num_channels=3, num_steps=4, operators=["random_walk"])
    study = page.wait(f"encodings/{about['key']}/analysis")
    assert "not symmetric" in study["note"]
    assert len(study["step_angles"]) == 4
    blown_up = page.encode(num_channels=2, num_steps=90, operators=["adjacency"], normalization="none")
    assert blown_up["status"] == "failed"
    assert "is not finite" in blown_up["error"]


def test_more_channels_than_nodes(page: Page) -> None:
    about = page.encode(num_channels=40, num_steps=2)
    study = page.wait(f"encodings/{about['key']}/analysis")
    assert len(study["ritz"][0]) == 34
    zero = np.array(about["zero_columns"])  # [O][P + 1][k]
    assert zero[0, 0].sum() == 0  # as drawn
    assert (zero[0, 1:, 34:] == 1).all()  # after QR there are at most n columns


def test_dependent_columns_are_reported(page: Page) -> None:
    star = b"\n".join(b"0 %d" % i for i in range(1, 8))
    key = page.upload("star.txt", star).json()["key"]
    about = page.encode(graph=key, num_channels=4, num_steps=3, operators=["adjacency"])
    assert np.array(about["zero_columns"]).shape == (1, 4, 4)
    # A has rank two: from the first step on two of the four columns are zero.
    assert [sum(step) for step in about["zero_columns"][0]] == [0, 2, 2, 2]
    assert (
        about["dependent_columns"]
        == rfp.encode(
            rfp.Graph(torch.tensor([[0] * 7, list(range(1, 8))]), 8).to_undirected(),
            num_channels=4,
            num_steps=3,
            operators=["adjacency"],
        ).report.dependent_columns
    )


def test_what_is_refused_is_one_clear_line(page: Page) -> None:
    for settings, part in (
        ({"num_channels": 0}, "num_channels"),
        ({"num_channels": 2.5}, "num_channels"),
        ({"operators": []}, "operators"),
        ({"operators": ["nonsense"]}, "operator"),
        ({"operators": [["adjacency"]]}, "operators"),
        ({"normalization": {"a": 1}}, "normalization"),
        ({"seed": 2**60}, "seed"),
        ({"backend": "reference"}, "unknown settings: backend"),
        ({"operators": None}, "operators must be a list of names, got None"),
        ({"operators": 5}, "operators must be a list of names, got 5"),
        ({"operators": "adjacency"}, "operators must be a list of names, got 'adjacency'"),
        ({"num_channels": 64, "num_steps": 64}, "k·P is at most 1024"),
        ({"num_channels": 64, "num_steps": 8, "operators": ["adjacency^1000000"]}, "k·P"),
        ({"num_trajectories": 5}, "B is at most 4"),
        ({"normalize_every": 2**70}, "w is at most 1024"),
        ({"operators": ["adjacency", "random_walk", "adjacency.T", "adjacency^2", "adjacency^3"]}, "at most 4"),
    ):
        answer = page.ask(**settings)
        assert answer.status_code == 400, settings
        assert part in answer.json()["error"], answer.json()
        assert "\n" not in answer.json()["error"]


def test_indices_out_of_range_and_unknown_keys(page: Page) -> None:
    key = page.encode(num_channels=2, num_steps=1)["key"]
    for query in ("step=2", "channel=2", "operator=1", "trajectory=1", "step=-1", "step=x"):
        assert page.get(f"encodings/{key}/values?{query}").status_code == 400, query
        assert page.get(f"encodings/{key}/snippet?{query}").status_code == 400, query
    assert page.get(f"encodings/{key}/products?node=34").status_code == 400
    assert page.get(f"encodings/{key}/nearest?node=-1").status_code == 400
    assert page.get("encodings/0123456789abcdef/values").status_code == 404
    assert page.get("graphs/nowhere").status_code == 404
    assert page.ask(graph="nowhere").status_code == 404


def test_requests_that_are_no_requests(page: Page) -> None:
    for body in (b"", b"[]", b"{", b"null", b"[" * 60_000, b'{"a":' * 10_000, b'{"graph": "%s"}' % page.graph.encode()):
        answer = page.client.post("/api/encodings", content=body, headers={"X-Rfp-Token": "a-token-for-tests"})
        assert answer.status_code in (400, 404), body
    long = b'{"graph": "' + b"x" * 100_000 + b'"}'
    answer = page.client.post("/api/encodings", content=long, headers={"X-Rfp-Token": "a-token-for-tests"})
    assert "longer than" in answer.json()["error"]
