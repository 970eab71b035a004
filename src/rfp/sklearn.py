"""The encoding as a scikit-learn transformer (extra ``sklearn``): adjacency in, one row for each node out."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rfp.conversion import as_graph
from rfp.edge_table.table_options import LoadedGraph
from rfp.encode import encode
from rfp.errors import MissingExtraError
from rfp.graph import Graph
from rfp.settings import Settings
from rfp.trajectory import Trajectory, kept_steps

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils import check_array, check_random_state
    from sklearn.utils._set_output import _get_output_config
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover - depends on the installation
    raise MissingExtraError("scikit-learn", "sklearn", "rfp.sklearn") from error


class RandomFeaturePropagation(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types in scikit-learn
    r"""Embed the nodes of a graph by random feature propagation.

    ``fit`` takes the graph: a square adjacency matrix (SciPy sparse, NumPy, or a pandas frame whose index and columns
    are the node ids), ``A[i, j]`` the weight of i -> j; or anything :func:`rfp.as_graph` and :func:`rfp.read_graph`
    give, such as a NetworkX graph. As scikit-learn sees it the input is *pairwise*, like a precomputed kernel: in
    ``GridSearchCV`` and ``cross_val_score`` a fold is fitted on ``A[train][:, train]``, the graph of its own nodes, and
    the others are encoded as new nodes by ``A[test][:, train]``.

    ``transform`` tells by the shape what it is given, with n fitted nodes:

    ================  ==============================================================================================
    the fitted graph  the rows that ``fit`` computed
    ``(m, n)``        m new nodes and their edges to the fitted ones; in an undirected graph they count both ways
    ``(m, n + m)``    the same, with edges among the new nodes in the last m columns
    ``(n + m,) * 2``  the whole enlarged graph, fitted nodes first; n + m rows, of which the first n are as fitted
    ================  ==============================================================================================

    New nodes are placed by the stored factor of each step (:func:`rfp.new_nodes.extend`): the fitted rows stay, and
    what was learned on them stays true. New nodes of one call share the degrees of one enlarged graph, and their random
    features are those of the nodes n, n + 1, ...: a row depends on the rows it comes with.

    Args:
        n_components: k, the columns for each operator and kept step (and trajectory).
        n_steps: P.
        operators: Names of :mod:`rfp.operators`, one or several.
        normalization: ``"qr"``, ``"l2"``, ``"inverse_gram"`` or ``"none"``.
        normalize_every: w.
        n_trajectories: B, side by side in the result.
        distribution: ``"normal"``, ``"rademacher"`` or ``"uniform"``.
        start: ``"drawn"``, ``"unit"`` or ``"orthonormal"``.
        keep: Which steps the result has: ``"last"``, ``"all"`` (the whole trajectory, as the paper's encoding), or a
            list of them.
        dtype: ``"float32"`` or ``"float64"``.
        backend: See :class:`rfp.Settings`.
        random_state: A seed; ``None`` or a ``RandomState`` draws one.

    Attributes:
        trajectory_: The :class:`rfp.Trajectory` of the fitted graph, all steps: ``save`` it to extend it elsewhere.
        node_ids_: The ids of the fitted nodes, or ``None`` where they are 0 to n - 1.
        undirected_: Whether the fitted matrix is symmetric.
        n_features_in_: n.

    Example:
        >>> import networkx as nx
        >>> A = nx.to_scipy_sparse_array(nx.karate_club_graph())
        >>> model = RandomFeaturePropagation(n_components=4, n_steps=8)
        >>> model.fit_transform(A).shape
        (34, 4)
        >>> model.transform(A[:2]).shape  # two new nodes with the neighbours of nodes 0 and 1
        (2, 4)
    """

    def __init__(
        self,
        n_components: int = 16,
        n_steps: int = 16,
        *,
        operators: str | Sequence[str] = "normalized_adjacency",
        normalization: str = "qr",
        normalize_every: int = 1,
        n_trajectories: int = 1,
        distribution: str = "normal",
        start: str = "drawn",
        keep: str | Sequence[int] = "last",
        dtype: str = "float32",
        backend: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.n_steps = n_steps
        self.operators = operators
        self.normalization = normalization
        self.normalize_every = normalize_every
        self.n_trajectories = n_trajectories
        self.distribution = distribution
        self.start = start
        self.keep = keep
        self.dtype = dtype
        self.backend = backend
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> RandomFeaturePropagation:
        """Encode a graph and keep what new nodes will need.

        Args:
            X: The graph.
            y: Not used.
        """
        settings = self._settings()
        kept_steps(self.keep, settings.num_steps)
        graph, self.node_ids_ = self._read(X)
        self.trajectory_ = encode(graph, settings)
        self.undirected_ = graph.is_undirected()
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """:meth:`fit`, and the rows of its nodes ``[n, columns]``."""
        self.fit(X, y, **fit_params)
        return self._rows(self.trajectory_, slice(None), self.node_ids_)

    def transform(self, X: Any) -> Any:
        """The rows of the fitted graph, or those of new nodes; see the class for what X may be.

        Args:
            X: A matrix of edges, or a graph.
        """
        check_is_fitted(self)
        fitted, n = self.trajectory_.graph, self.n_features_in_
        assert isinstance(fitted, Graph)
        if not _is_matrix(X):
            graph, ids = _graph_and_ids(X)
            matrix = graph.to_scipy()
            if matrix.shape[0] < n:
                raise ValueError(f"a graph of {n} nodes was fitted; got one of {matrix.shape[0]}, fit it first")
        else:
            matrix, ids = self._checked(X), getattr(X, "index", None)
        m, width = matrix.shape
        if (m, width) == (n, n) and _equal(matrix, fitted):
            return self._rows(self.trajectory_, slice(None), ids)
        if width in (n, n + m):
            return self._rows(self._extended(matrix, m), slice(n, None), ids)
        if m == width and m > n:
            if not _equal(matrix[:n, :n], fitted):
                raise ValueError(
                    f"the first {n} nodes are not the fitted graph: edges among them have changed; fit it anew"
                )
            return self._rows(self._extended(matrix, m - n, whole=True), slice(None), ids)
        raise ValueError(
            f"X has {width} features, but RandomFeaturePropagation is expecting {n} features as input, one for each "
            f"fitted node: edges of m new nodes to the fitted ones (m, {n}), with those among the new nodes "
            f"(m, {n} + m), or the whole enlarged graph; got shape {m, width}"
        )

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The name of each column: operator, step, channel, and the trajectory where there are several.

        Args:
            input_features: Not used; scikit-learn's interface has it.
        """
        check_is_fitted(self)
        settings: Settings = self.trajectory_.settings  # type: ignore[assignment]  # encode sets them
        steps = kept_steps(self.keep, settings.num_steps)
        several = settings.num_trajectories > 1
        names = [
            f"{operator}_step{step}_channel{channel}" + (f"_trajectory{b}" if several else "")
            for b in range(settings.num_trajectories)
            for operator in settings.operators
            for step in steps
            for channel in range(settings.num_channels)
        ]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _settings(self) -> Settings:
        operators = (self.operators,) if isinstance(self.operators, str) else tuple(self.operators)
        fixed = isinstance(self.random_state, Integral)
        seed = self.random_state if fixed else check_random_state(self.random_state).randint(2**31 - 1)
        return Settings(
            num_channels=self.n_components,
            num_steps=self.n_steps,
            operators=operators,
            normalization=self.normalization,
            normalize_every=self.normalize_every,
            num_trajectories=self.n_trajectories,
            distribution=self.distribution,
            start=self.start,
            seed=int(seed),
            dtype=self.dtype,  # type: ignore[arg-type]  # a name will do
            backend=self.backend,
        )

    def _read(self, X: Any) -> tuple[Graph, Any]:
        """The graph to fit and its node ids."""
        if not _is_matrix(X):
            graph, ids = _graph_and_ids(X)
            if graph.num_graphs != 1:
                raise ValueError(f"one graph is fitted, got a batch of {graph.num_graphs}")
            self.n_features_in_ = graph.num_nodes
            return graph, ids
        matrix = validate_data(self, X, accept_sparse=("csr", "coo"), dtype=(np.float64, np.float32))
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"the adjacency matrix must be square, got shape {matrix.shape}")
        return as_graph(sp.csr_array(matrix)), getattr(X, "index", None)

    def _checked(self, X: Any) -> Any:
        """A matrix of new nodes as CSR; a frame must name its columns as the fitted one did."""
        n = self.n_features_in_
        columns, known = getattr(X, "columns", None), self.node_ids_
        if columns is not None and known is not None and list(columns[:n]) != list(known):
            raise ValueError("the first columns of X must be the ids of the fitted nodes, in their order")
        array = check_array(X, accept_sparse=("csr", "coo"), dtype=(np.float64, np.float32), ensure_min_samples=0)
        return sp.csr_array(array)

    def _extended(self, matrix: Any, num_new: int, *, whole: bool = False) -> Trajectory:
        n = self.n_features_in_
        coo = sp.coo_array(matrix)
        source, target = coo.row.astype(np.int64), coo.col.astype(np.int64)
        if not whole:
            source = source + n
        new = (source >= n) | (target >= n)
        weight = torch.from_numpy(coo.data[new].astype(np.float64))
        trajectory: Trajectory = self.trajectory_.extend(
            np.stack([source[new], target[new]]),
            num_nodes=n + num_new,
            edge_weight=weight,
            directed=not self.undirected_,
        )
        return trajectory

    def _rows(self, trajectory: Trajectory, rows: slice, ids: Any) -> Any:
        values = trajectory.select(self.keep)[rows].flatten(1).numpy()
        if ids is not None and _get_output_config("transform", self)["dense"] == "pandas":
            import pandas as pd

            return pd.DataFrame(values, index=pd.Index(ids))  # scikit-learn names the columns and keeps the index
        return values


def _is_matrix(X: Any) -> bool:
    """Whether scikit-learn's own checks apply: an array, a sparse matrix, a frame, a list."""
    return sp.issparse(X) or isinstance(X, np.ndarray | list | tuple) or hasattr(X, "iloc") or hasattr(X, "__array__")


def _graph_and_ids(X: Any) -> tuple[Graph, Any]:
    if isinstance(X, LoadedGraph):
        return X.graph, X.node_ids
    return as_graph(X), list(X.nodes) if hasattr(X, "nodes") and hasattr(X, "is_directed") else None


def _equal(matrix: Any, graph: Graph) -> bool:
    return bool((sp.csr_array(matrix) != graph.to_scipy()).nnz == 0)
