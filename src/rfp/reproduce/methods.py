"""The methods of the tables as data: an id, a label, and the values of a model's config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rfp.backends.learned import LEARNED_MAX_CHANNELS
from rfp.nn.backbones import READ_EDGE_FEATURES
from rfp.reproduce import hyperparameters as at

COUNTS, L, A, WALK, S_LEARN = "adjacency", "normalized_laplacian", "normalized_adjacency", "random_walk", "learned"
EncodingValues = dict[str, Any]
# In the place of k: as many channels as the graph has nodes. Wide and slow, so such rows run only on request.
ALL_NODES = -1


@dataclass(frozen=True)
class Row:
    """A method of a table.

    Args:
        id: As in ``paper.csv``.
        label: For people.
        model: Values of the model's config, over those of the family.
        on_request: Trained only if ``--rows`` names it.
        search: Values to try beside the family's, by dotted key, where the family is searched by halving.
        printed_as: The id in ``paper.csv``, if another: a row of a sweep is printed as the main row.
        products_of: The row of the paper with the same operators, normalisation and architecture, if this one is that
            row with products of the trajectory as K_embed.
        of_sweep: Whether the row changes one value of the main row, whose other values it takes as they were chosen
            (:data:`rfp.reproduce.hyperparameters.CHOSEN_FOR_SWEEPS`); learning rate and weight decay are searched.
        also: The row's part of the combinations that are tried with the backbone of the rows without encodings
            (:data:`rfp.reproduce.hyperparameters.WITHOUT_ENCODING`): values of some of its keys, every value of those
            that are not named. ``None`` if the row has no such tries: it draws nothing, or a try is dear.
        with_gcnii: The same for the combinations with the GCNII that was chosen without an encoding
            (:data:`rfp.reproduce.hyperparameters.GCNII`), where one was.
    """

    id: str
    label: str
    model: Mapping[str, Any] = field(default_factory=dict)
    on_request: bool = False
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    printed_as: str = ""
    products_of: str = ""
    of_sweep: bool = False
    also: Mapping[str, Any] | None = None
    with_gcnii: Mapping[str, Any] | None = None

    @property
    def printed(self) -> str:
        """Its id in ``paper.csv``."""
        return self.printed_as or self.id


# How the features begin, how many there are, and what is made of them: searched by every row that draws.
_START = {"model.encodings.*.start": ("drawn", "unit")}
_EMBED = {"model.embed": ("linear", "products")}
_CHANNELS = {"model.encodings.0.num_channels": (at.NODE_CHANNELS, at.NODE_CHANNELS // 4)}
# GCNII is a stack of its own kind, deeper than the others: these in the place of the family's depths.
_GCNII = {
    "model.num_layers": (8, 4, 16),
    "model.initial_residual": (0.2, 0.1, 0.5),
    "model.identity_mapping": (0.5, 1.0, 1.5),
}
_OPERATOR_LR = {"training.operator_lr": (1.0, 0.1)}


def rfp_values(*operators: str, k: int, P: int = at.NUM_STEPS, **more: Any) -> EncodingValues:
    """An RFP encoding; what is left at its default is left out, so that equal encodings read alike."""
    return {"name": "rfp", "num_channels": k, "num_steps": P, "operators": list(operators), **more}


def rnf_values(k: int) -> EncodingValues:
    """Random features, normal as in Abboud et al."""
    return {"name": "rnf", "num_channels": k}


def eigenvector_values(operator: str, k: int) -> EncodingValues:
    """Smallest eigenvalues of L̂, largest in magnitude of Â (section A.1). Two in one model need two attributes."""
    which = "smallest" if operator == L else "largest_magnitude"
    return {
        "name": "eigenvectors",
        "num_eigenvectors": k,
        "operator": operator,
        "which": which,
        "attr_name": f"eigenvectors_{'L' if operator == L else 'A'}",
    }


def _row(
    row: str,
    label: str,
    *encodings: EncodingValues,
    on_request: bool = False,
    search: Mapping[str, tuple[Any, ...]] | None = None,
    printed_as: str = "",
    products_of: str = "",
    of_sweep: bool = False,
    also: Mapping[str, Any] | None = None,
    with_gcnii: Mapping[str, Any] | None = None,
    **model: Any,
) -> Row:
    values = {**model, "encodings": list(encodings)}
    return Row(row, label, values, on_request, search or {}, printed_as, products_of, of_sweep, also, with_gcnii)


def _dss(row: str, label: str, *encodings: EncodingValues, **more: Any) -> Row:
    several = [{**encoding, "num_trajectories": at.NUM_TRAJECTORIES} for encoding in encodings]
    return _row(row, label, *several, trajectories="dss", **more)


def _by_id(*rows: Row) -> dict[str, Row]:
    return {row.id: row for row in rows}


def node_rows() -> dict[str, Row]:
    """Methods of tables 2, 6 and 7. All stand beside the node features, before the same backbone."""
    k = at.NODE_CHANNELS
    # One head, formed: with a replica for each split the n x n scores of several heads would not fit in memory.
    learned = rfp_values(S_LEARN, k=at.LEARNED_CHANNELS, P=at.LEARNED_STEPS, learned_heads=1, learned_form="dense")
    first_start = {"model.encodings.0.start": _START["model.encodings.*.start"]}
    drawn = {**_START, **_CHANNELS, **_EMBED}
    with_learned = {**drawn, **_OPERATOR_LR}
    # Rows that encode are tried with GCNII too, with every value of what they draw; inside DSS, where a try is dear,
    # with few. The mean over trajectories in the place of their sum keeps its layers near the identity.
    encodes = partial(_row, with_gcnii={})
    few = {"model.dss_aggregation": "mean", "model.encodings.0.num_channels": k // 4}
    fewer = {**few, "model.encodings.*.start": "unit", "training.operator_lr": 1.0}
    rows = [
        _row("mlp", "MLP", backbone="mlp"),
        _row("gcn", "GCN", backbone="gcn"),
        _row("gcnii", "GCNII", backbone="gcnii", residual=False, search=_GCNII),
        encodes("eigvecs-L", "L̂ 64 eigenvectors", eigenvector_values(L, k)),
        encodes("eigvecs-A", "Â 64 eigenvectors", eigenvector_values(A, k)),
        encodes("rnf", "RNF", rnf_values(k), search={**_START, **_CHANNELS}, also={}),
        encodes(
            "rnf-eigvecs-A",
            "RNF & Â 64 eigenvectors",
            rnf_values(k),
            eigenvector_values(A, k),
            search=first_start | _CHANNELS,
            also={},
        ),
        encodes("sgc", "SGC", {"name": "sgc", "num_steps": 2}),
        encodes("sign", "SIGN", {"name": "sign", "num_steps": 3}),
        encodes("power-embed", "PowerEmbed", {"name": "power_embed", "num_steps": 10}),
        encodes("nfp-qr-A", "NFP-QR-Â", {"name": "nfp", "num_steps": at.NUM_STEPS}),
        encodes("rfp-l2-A", "RFP-ℓ2-Â", rfp_values(A, k=k, normalization="l2"), search=drawn, also={}),
        encodes("rfp-qr-A", "RFP-QR-Â", rfp_values(A, k=k), search=drawn, also={}),
        _dss("rfp-qr-A-dss", "RFP-QR-Â-DSS", rfp_values(A, k=k), search=drawn, also={}, with_gcnii=few),
        _dss(
            "rfp-qr-LAS-dss",
            "RFP-QR-L̂,Â,S^learn-DSS",
            rfp_values(L, A, k=k),
            learned,
            search=with_learned,
            with_gcnii=fewer,
        ),
    ]
    # Of the sweeps k and P are given, or what stands beside; K_embed is the paper's.
    sweep = partial(_row, search=_START, of_sweep=True)
    rows += [sweep(f"rfp-qr-A-P{P}", f"RFP-QR-Â, P={P}", rfp_values(A, k=k, P=P)) for P in (2, 4, 8, 32)]
    rows += [
        sweep(f"rfp-qr-A-k{other}", f"RFP-QR-Â, k={other}", rfp_values(A, k=other)) for other in (4, 8, 16, 32, 128)
    ]
    beside = {**_START, **_OPERATOR_LR}
    both = f"RFP-QR-Â, k={k}, P={at.NUM_STEPS}"
    rows += [
        sweep(f"rfp-qr-A-k{k}", both, rfp_values(A, k=k), printed_as="rfp-qr-A"),
        sweep("rfp-qr-LAS", "RFP-QR-L̂,Â,S^learn", rfp_values(L, A, k=k), learned, search=beside),
    ]
    rows += [
        _row("eigvecs-A-all", "Â all eigenvectors", eigenvector_values(A, ALL_NODES), on_request=True),
        _row("rnf-all", "RNF, k=|V|", rnf_values(ALL_NODES), on_request=True),
        _row("rfp-qr-A-kall", "RFP-QR-Â, k=|V|", rfp_values(A, k=ALL_NODES), on_request=True),
    ]
    return _by_id(*rows)


def graph_rows(*, backbone: str, l2_channels: int, **drawn: Any) -> dict[str, Row]:
    """Methods of tables 1, 3, 4 and 5.

    Args:
        backbone: Name of the row without any encoding.
        l2_channels: k of RFP-ℓ2: 64 in table 4, 16 in table 5.
        drawn: Further values of every RFP encoding, such as its distribution.
    """
    k = at.GRAPH_CHANNELS
    both, learned = rfp_values(L, A, k=k, **drawn), rfp_values(L, A, S_LEARN, k=k, **drawn)
    l2 = rfp_values(L, A, k=l2_channels, normalization="l2", **drawn)
    rows = [
        _row(backbone, backbone.upper()),
        _row("rnf", "RNF", rnf_values(k)),
        _row("eigvecs-L", "L̂ eigenvectors", eigenvector_values(L, k)),
        _row("eigvecs-A", "Â eigenvectors", eigenvector_values(A, k)),
        _row("eigvecs-LA", "L̂, Â eigenvectors", eigenvector_values(L, k), eigenvector_values(A, k)),
        _row(
            "rnf-eigvecs-LA",
            "RNF & L̂, Â eigenvectors",
            rnf_values(k),
            eigenvector_values(L, k),
            eigenvector_values(A, k),
        ),
        _row("rwpe", "RWPE", {"name": "random_walk", "walk_length": k}),
        _row("rfp-l2-LA", "RFP-ℓ2-L̂,Â", l2),
        _row("rfp-qr-LA-k4", "RFP-QR-L̂,Â, k=4", rfp_values(L, A, k=4, **drawn)),
        _row("rfp-qr-LA-k8", "RFP-QR-L̂,Â, k=8", rfp_values(L, A, k=8, **drawn)),
        _row("rfp-qr-LA", "RFP-QR-L̂,Â", both),
        _row("rfp-qr-LAS", "RFP-QR-L̂,Â,S^learn", learned),
        _dss("rfp-qr-LA-dss", "RFP-QR-L̂,Â-DSS", both),
        _dss("rfp-qr-LAS-dss", "RFP-QR-L̂,Â,S^learn-DSS", learned),
        _row("gps-rfp-l2-LA", "GraphGPS: RFP-ℓ2-L̂,Â", l2, backbone="gps"),
        _row("gps-rfp-qr-LA", "GraphGPS: RFP-QR-L̂,Â", both, backbone="gps"),
        _row("gsn-rfp-qr-LA", "RFP-QR-L̂,Â + GSN", both, {"name": "substructures", "cycles": [3, 4, 5, 6]}),
    ]
    return _by_id(*rows, *_product_rows(l2_channels, reads_edges=backbone in READ_EDGE_FEATURES, **drawn))


def _product_rows(l2_channels: int, *, reads_edges: bool, **drawn: Any) -> list[Row]:
    """Beyond the paper: K_embed of products of pairs of steps, which need blocks of steps without QR between them.

    Args:
        l2_channels: As in :func:`graph_rows`.
        reads_edges: Whether the backbone has a place for products of two neighbours.
        drawn: Further values of every encoding.
    """
    blocks: dict[str, Any] = {"normalize_every": 8, "start": "orthonormal", **drawn}
    of_l2: dict[str, Any] = {"embed": "products", **({"edge_products": True} if reads_edges else {})}
    of_qr = {**of_l2, "product_weights": True}
    k = at.PRODUCT_CHANNELS
    l2 = rfp_values(L, A, k=l2_channels, normalization="l2", **drawn)
    with_walk = rfp_values(L, A, WALK, k=l2_channels, normalization="l2", **drawn)
    # The kernel of learned operators takes 32 channels: with more a step takes ten times as long.
    both, learned = rfp_values(L, A, k=k, **blocks), rfp_values(L, A, S_LEARN, k=LEARNED_MAX_CHANNELS, **blocks)
    narrow = rfp_values(L, A, k=at.GRAPH_CHANNELS, **blocks)
    narrow_learned = rfp_values(L, A, S_LEARN, k=at.GRAPH_CHANNELS, **blocks)
    samples = rfp_values(L, A, k=4, num_trajectories=8, **blocks)
    # As many orthonormal channels as nodes: products are the diagonals of A^0 ... A^4, which nothing may scale.
    walks = rfp_values(COUNTS, k=at.COUNTING_CHANNELS, P=2, normalization="none", start="orthonormal", **drawn)
    exact: dict[str, Any] = {"embed": "products", "product_norm": "none", "embed_activation": False}
    return [
        _row("rfp-l2-LA-products", "RFP-ℓ2-L̂,Â with products", l2, products_of="rfp-l2-LA", **of_l2),
        _row("rfp-l2-LAW-products", "RFP-ℓ2-L̂,Â,RW with products", with_walk, **of_l2),
        _row("rfp-qr-LA-products", "RFP-QR-L̂,Â with products", both, products_of="rfp-qr-LA", **of_qr),
        _row("rfp-qr-LAS-products", "RFP-QR-L̂,Â,S^learn with products", learned, products_of="rfp-qr-LAS", **of_qr),
        _dss("rfp-qr-LA-dss-products", "RFP-QR-L̂,Â-DSS with products", narrow, products_of="rfp-qr-LA-dss", **of_qr),
        _dss(
            "rfp-qr-LAS-dss-products",
            "RFP-QR-L̂,Â,S^learn-DSS with products",
            narrow_learned,
            products_of="rfp-qr-LAS-dss",
            **of_qr,
        ),
        _row(
            "rfp-qr-LA-apart-products",
            "RFP-QR-L̂,Â with products, 8 trajectories apart",
            samples,
            trajectories="independent",
            **of_qr,
        ),
        _row("rfp-A-products", "RFP-A with exact products", walks, **exact),
    ]


def ablation_rows() -> dict[str, Row]:
    """Methods of table 8: products of the trajectory, with one value changed at a time, and others before one backbone.

    The ids begin with ``products``: results of another table's rows are never taken for theirs.
    """
    usual: dict[str, Any] = {"k": 32, "normalize_every": 8, "start": "orthonormal"}
    products: dict[str, Any] = {"embed": "products", "edge_products": True, "product_weights": True}

    def changed(name: str, label: str, *operators: str, backbone: str = "gine", **values: Any) -> Row:
        encoding = rfp_values(*(operators or (L, A)), **(usual | values))
        return _row(f"products-{name}", label, encoding, backbone=backbone, **products)

    def apart(name: str, label: str, **model: Any) -> Row:
        # As many channels in all as usual, in trajectories that the network sees one by one: eight times its work.
        several = rfp_values(L, A, **(usual | {"k": 4}), num_trajectories=8)
        return _row(f"products-{name}", label, several, trajectories="independent", **products, **model)

    k = at.GRAPH_CHANNELS
    return _by_id(
        changed("usual", "RFP-QR-L̂,Â with products, k=32, w=8, orthonormal start"),
        *(changed(f"k{k}", f"k={k}", k=k) for k in (8, 16, 64)),
        *(changed(f"w{w}", f"w={w}", normalize_every=w) for w in (1, 4, 16)),
        changed("drawn", "features as drawn", start="drawn"),
        changed("unit", "columns of unit length", start="unit"),
        changed("L", "L̂ alone", L),
        changed("A", "Â alone", A),
        changed("AW", "Â, RW", A, WALK),
        changed("LAW", "L̂, Â, RW", L, A, WALK),
        changed("gps", "GraphGPS in the place of GINE", backbone="gps"),
        apart("apart", "8 trajectories with k=4, apart to the end"),
        apart("pooled", "8 trajectories with k=4, apart in two layers, then pooled", trajectory_layers=2),
        _row("products-linear", "K_embed linear", rfp_values(L, A, **usual)),
        _row("products-none", "no encoding"),
        _row("products-rnf", "RNF", rnf_values(k)),
        _row("products-eigvecs", "L̂, Â eigenvectors", eigenvector_values(L, k), eigenvector_values(A, k)),
        _row("products-rwpe", "RWPE", {"name": "random_walk", "walk_length": k}),
    )
