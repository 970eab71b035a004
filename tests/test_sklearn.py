"""The scikit-learn face: shapes, new nodes, pipelines, searches, frames, and scikit-learn's own checks."""

from __future__ import annotations

import pickle
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import rfp
from rfp.sklearn import RandomFeaturePropagation

# Checks of scikit-learn that do not apply, and why.
NOT_APPLICABLE = {
    "check_methods_sample_order_invariance": "rows of X are edges to numbered nodes: another order is another graph",
    "check_methods_subset_invariance": "new nodes of one call share the degrees of one enlarged graph",
}


@pytest.fixture(scope="module")
def graph() -> nx.Graph:
    return nx.planted_partition_graph(3, 20, 0.6, 0.03, seed=1)


@pytest.fixture(scope="module")
def adjacency(graph: nx.Graph) -> Any:
    return nx.to_scipy_sparse_array(graph, dtype=float).tocsr()


def small(**arguments: Any) -> RandomFeaturePropagation:
    return RandomFeaturePropagation(**{"n_components": 4, "n_steps": 6, **arguments})


def test_scikit_learns_own_checks_pass_but_for_those_named() -> None:
    model = small(dtype="float64")
    found = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=NOT_APPLICABLE)
    status = {check["check_name"]: check["status"] for check in found}
    assert [name for name, value in status.items() if value == "failed"] == []
    assert {name for name, value in status.items() if value == "xfail"} == set(NOT_APPLICABLE)
    assert sum(check["status"] == "passed" for check in found) > 40


def test_the_result_is_that_of_encode(adjacency: Any) -> None:
    t = rfp.encode(adjacency, num_channels=4, num_steps=6, seed=3)
    assert np.array_equal(small(random_state=3).fit_transform(adjacency), t.last()[0])
    every_step = small(random_state=3, keep="all").fit_transform(adjacency)
    assert np.array_equal(every_step, t.flat()[0])
    some = small(random_state=3, keep=[0, -1]).fit_transform(adjacency)
    assert np.array_equal(some, torch.cat([t.storage[:, 0, 0, 0], t.storage[:, 0, 0, 6]], dim=1))


def test_the_fitted_graph_is_transformed_to_what_fit_gave(adjacency: Any) -> None:
    model = small()
    rows = model.fit_transform(adjacency)
    for same in (adjacency, adjacency.toarray(), sp.coo_matrix(adjacency)):
        assert np.array_equal(model.transform(same), rows)


def test_new_nodes_are_those_of_extend_in_every_form(adjacency: Any) -> None:
    n, m = 50, 10
    model = small().fit(adjacency[:n, :n])
    t = rfp.encode(adjacency[:n, :n], num_channels=4, num_steps=6)
    row, col = sp.coo_array(adjacency[n:, :n]).coords
    expected = t.extend(np.stack([row + n, col]), num_nodes=n + m).last()[0, n:]
    assert np.allclose(model.transform(adjacency[n:, :n]), expected, atol=1e-6)

    row, col = sp.coo_array(adjacency[n:]).coords
    expected = t.extend(np.stack([row + n, col]), num_nodes=n + m).last()[0]
    assert np.allclose(model.transform(adjacency[n:]), expected[n:], atol=1e-6)  # (m, n + m)
    whole = model.transform(adjacency)  # (n + m, n + m)
    assert np.allclose(whole, expected, atol=1e-6)
    assert np.array_equal(whole[:n], model.transform(adjacency[:n, :n]))


def test_directed_graphs_keep_their_direction(directed: rfp.Graph) -> None:
    A = directed.to_scipy().tocsr()
    model = small(n_components=2).fit(A)
    row = sp.csr_array(np.array([[0.0, 2.0, 0.0, 0.0, 1.0]]))
    t = rfp.encode(A, num_channels=2, num_steps=6)
    expected = t.extend([[5, 5], [1, 4]], edge_weight=[2.0, 1.0], directed=True)
    assert np.allclose(model.transform(row), expected.last()[0, 5:], atol=1e-6)


def test_what_does_not_fit_is_refused(adjacency: Any) -> None:
    model = small().fit(adjacency[:50, :50])
    changed = adjacency.copy().tolil()
    changed[0, 1] = 9.0
    for wrong, message in [
        (adjacency[:, :51], "expecting 50 features"),
        (changed.tocsr(), "edges among them have changed"),
        (nx.path_graph(3), "a graph of 50 nodes was fitted"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.transform(wrong)
    with pytest.raises(ValueError, match="square"):
        small().fit(adjacency[:10])
    with pytest.raises(ValueError, match="steps to keep"):
        small(keep=[7]).fit(adjacency)
    with pytest.raises(ValueError, match="normalization must be one of"):
        small(normalization="qrr").fit(adjacency)


def test_names_of_columns(adjacency: Any) -> None:
    model = small(n_components=2, operators=["adjacency", "random_walk"], keep=[0, 3], n_trajectories=2)
    rows = model.fit_transform(adjacency)
    names = list(model.get_feature_names_out())
    assert len(names) == rows.shape[1] == 16
    assert names[0] == "adjacency_step0_channel0_trajectory0"
    assert names[6] == "random_walk_step3_channel0_trajectory0"
    t = rfp.encode(adjacency, num_channels=2, num_steps=6, operators=["adjacency", "random_walk"], num_trajectories=2)
    assert np.array_equal(rows[:, names.index("random_walk_step3_channel1_trajectory1")], t.storage[:, 1, 1, 3, 1])


def test_frames_are_keyed_by_node_id(graph: nx.Graph, adjacency: Any) -> None:
    ids = [f"node {i}" for i in graph.nodes]
    frame = pd.DataFrame(adjacency.toarray(), index=ids, columns=ids)
    model = small().set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.index) == ids
    assert list(out.columns) == list(model.get_feature_names_out())
    assert np.array_equal(out.to_numpy(), small().fit_transform(adjacency))
    new = pd.DataFrame([frame.iloc[0]], index=["newcomer"])
    assert list(model.transform(new).index) == ["newcomer"]
    with pytest.raises(ValueError, match="ids of the fitted nodes"):
        model.transform(new[ids[::-1]])


def test_graphs_with_names_are_keyed_by_them() -> None:
    people = nx.Graph([("ann", "bob"), ("bob", "cy"), ("cy", "ann"), ("cy", "dan")])
    out = small(n_components=2).set_output(transform="pandas").fit_transform(people)
    assert list(out.index) == ["ann", "bob", "cy", "dan"]
    model = small(n_components=2).fit(people)
    people.add_edge("eve", "dan")
    assert model.transform(people).shape == (5, 2)
    assert model.set_output(transform="pandas").transform(people).index[-1] == "eve"


def test_in_a_pipeline_and_a_search(graph: nx.Graph, adjacency: Any) -> None:
    y = np.repeat([0, 1, 2], 20)
    pipe = make_pipeline(small(n_components=3, n_steps=12), LogisticRegression(C=1e3))
    assert pipe.fit(adjacency, y).score(adjacency, y) == 1.0  # transductive: all nodes in one graph
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    # Inductive: scikit-learn slices rows and columns, and the nodes that were left out arrive as new ones.
    assert cross_val_score(pipe, adjacency, y, cv=folds).min() >= 0.9
    grid = {"randomfeaturepropagation__n_steps": [0, 12]}
    search = GridSearchCV(pipe, grid, cv=folds).fit(adjacency, y)
    assert search.best_params_ == {"randomfeaturepropagation__n_steps": 12}  # random features alone know nothing


def test_cloned_and_pickled(adjacency: Any) -> None:
    model = small().fit(adjacency)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(adjacency[:3]), model.transform(adjacency[:3]))
    assert not hasattr(clone(model), "trajectory_")


def test_a_seed_may_be_drawn(adjacency: Any) -> None:
    one, same = (small(random_state=np.random.RandomState(0)).fit_transform(adjacency) for _ in range(2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, small(random_state=1).fit_transform(adjacency))
