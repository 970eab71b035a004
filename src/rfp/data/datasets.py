"""The data sets by name, and the one function that loads any data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rfp.data import geom_gcn, ogb, planetoid, zinc
from rfp.data.cleaned_graphs import drop_features, normalize_features, remove_self_loops, symmetrize
from rfp.data.content_digest import content_digest
from rfp.data.counting import generate_counting, read_counting
from rfp.data.counting_generator import PUBLISHED_FILE, TARGETS
from rfp.data.data_config import DataConfig
from rfp.data.link_mat import read_mat
from rfp.data.link_task import DEFAULT_METRIC, link_task
from rfp.data.loaded import LoadedTask
from rfp.data.processed import content_key, load_or_read
from rfp.data.pyg_class import load_class
from rfp.data.pyg_file import load_file
from rfp.data.roots import cache_folder, data_roots, digests, download_with, download_zip, find_files
from rfp.data.table_folder import load_folder
from rfp.data.tasks import Task
from rfp.errors import ArgumentError, FileError
from rfp.nn.levels import GRAPH, LINK, NODE

_OGB_URL = "https://snap.stanford.edu/ogb/data"


@dataclass(frozen=True)
class DatasetSpec:
    """Where a data set is and how it is read.

    Args:
        task: What is predicted.
        files: Raw files below the data root.
        read: From the data root and the task to the data, edges as the usual class gives them.
        download: Fetches the files into a root; ``None`` if they cannot be fetched.
        sizes: Known numbers, checked after reading: of ``nodes``, ``edges``, ``features``, ``graphs``.
        directed: Whether the edges as loaded have a direction.
        fallback: Name of the data set taken where the files are missing.
    """

    task: Task
    files: tuple[str, ...]
    read: Callable[[Path, Task], LoadedTask]
    download: Callable[[Path], None] | None
    sizes: Mapping[str, int] = field(default_factory=dict)
    directed: bool = False
    fallback: str | None = None


def _pyg(name: str) -> Any:
    import torch_geometric.datasets

    return getattr(torch_geometric.datasets, name)


def _download_pyg(class_name: str, folder: str, **attributes: Any) -> Callable[[Path], None]:
    def download(root: Path) -> None:
        download_with(_pyg(class_name), folder, **attributes)(root)

    return download


def _nodes(name: str, classes: int) -> Task:
    return Task(name, NODE, "classification", "accuracy", classes)


def _planetoid(name: str, classes: int, nodes: int, edges: int, features: int) -> DatasetSpec:
    prefix = name.lower()
    raw = f"planetoid/{name}/geom-gcn/raw"
    return DatasetSpec(
        _nodes(prefix, classes),
        tuple(f"{raw}/{file}" for file in planetoid.planetoid_files(prefix)),
        partial(planetoid.read_planetoid, raw=raw, prefix=prefix),
        _download_pyg("Planetoid", "planetoid", name=name, split="geom-gcn"),
        {"nodes": nodes, "edges": edges, "features": features},
    )


def _geom_gcn(
    name: str, raw: str, class_name: str, arguments: dict[str, Any], nodes: int, edges: int, features: int
) -> DatasetSpec:
    # The attributes that download() of the class reads have the names of the constructor's arguments.
    return DatasetSpec(
        _nodes(name, 5),
        tuple(f"{raw}/{file}" for file in geom_gcn.geom_gcn_files(name)),
        partial(geom_gcn.read_geom_gcn, raw=raw, prefix=name, dataset=lambda root: _pyg(class_name)(root, **arguments)),
        _download_pyg(class_name, raw.split("/")[0], **arguments),
        {"nodes": nodes, "edges": edges, "features": features},
        directed=True,
    )


def _webkb(name: str, nodes: int, edges: int) -> DatasetSpec:
    return _geom_gcn(name, f"webkb/{name}/raw", "WebKB", {"name": name}, nodes, edges, 1703)


def _links(name: str, nodes: int, edges: int) -> DatasetSpec:
    file = f"links/{name}.mat"
    return DatasetSpec(
        Task(name.lower(), LINK, "link", "hits@50", 1),
        (file,),
        partial(read_mat, file=file),
        None,
        {"nodes": nodes, "edges": 2 * edges},
    )


def _wikipedia(name: str, nodes: int, edges: int, features: int) -> DatasetSpec:
    arguments = {"name": name, "geom_gcn_preprocess": True}
    return _geom_gcn(name, f"wikipedia/{name}/geom_gcn/raw", "WikipediaNetwork", arguments, nodes, edges, features)


DATASETS: dict[str, DatasetSpec] = {
    "cora": _planetoid("Cora", 7, 2708, 10556, 1433),
    "citeseer": _planetoid("CiteSeer", 6, 3327, 9104, 3703),
    "pubmed": _planetoid("PubMed", 3, 19717, 88648, 500),
    "cornell": _webkb("cornell", 183, 298),
    "texas": _webkb("texas", 183, 325),
    "wisconsin": _webkb("wisconsin", 251, 515),
    "chameleon": _wikipedia("chameleon", 2277, 36101, 2325),
    "squirrel": _wikipedia("squirrel", 5201, 217073, 2089),
    "film": _geom_gcn("film", "actor/raw", "Actor", {}, 7600, 30019, 932),
    "usair": _links("USAir", 332, 2126),
    "celegans": _links("Celegans", 297, 2148),
    "yeast": _links("Yeast", 2375, 11693),
    "zinc": DatasetSpec(
        Task("zinc", GRAPH, "regression", "mae", 1, categorical="zinc"),
        tuple(f"{zinc.RAW}/{file}" for file in zinc.RAW_NAMES),
        zinc.read_zinc,
        _download_pyg("ZINC", "ZINC", subset=True),
        {"graphs": 12000},
    ),
    "ogbg-molhiv": DatasetSpec(
        Task("ogbg-molhiv", GRAPH, "binary", "roc_auc", 1, categorical="ogb"),
        tuple(ogb.MOLHIV_FILES),
        ogb.read_molhiv,
        download_zip(f"{_OGB_URL}/graphproppred/csv_mol_download/hiv.zip", "hiv", "ogbg_molhiv"),
        {"graphs": 41127, "nodes": 1049163, "edges": 2259376},
    ),
    "ogbn-arxiv": DatasetSpec(
        _nodes("ogbn-arxiv", 40),
        tuple(ogb.ARXIV_FILES),
        ogb.read_arxiv,
        download_zip(f"{_OGB_URL}/nodeproppred/arxiv.zip", "arxiv", "ogbn_arxiv"),
        {"nodes": 169343, "edges": 1166243, "features": 128},
        directed=True,
    ),
    "counting": DatasetSpec(
        Task("counting", GRAPH, "regression", "mae", len(TARGETS), TARGETS),
        (PUBLISHED_FILE.as_posix(),),
        read_counting,
        None,
        {"graphs": 5000},
        fallback="counting-generated",
    ),
    "counting-generated": DatasetSpec(
        Task("counting-generated", GRAPH, "regression", "mae", len(TARGETS), TARGETS),
        (),
        lambda root, task: generate_counting(task),
        None,
        {"graphs": 5000},
    ),
}


def load(
    data: str | Path | Mapping[str, Any] | DataConfig,
    *,
    data_root: str | Path | None = None,
    cache: str | Path | None = None,
    download: bool = True,
) -> LoadedTask:
    """Load a data set: one of :data:`DATASETS`, or one's own.

    Raw files are looked for under the data root, then under ``raw`` of the cache; what is in neither is downloaded to
    the latter. Nothing is written under the data root: what was read once is kept under ``processed`` of the cache,
    by the content of the raw files.

    Args:
        data: A name; a path to a ``.pt`` file or a folder; or a :class:`DataConfig` (also as plain values), for
            anything beyond the defaults.
        data_root: By default the environment variable ``RFP_DATA``.
        cache: By default the environment variable ``RFP_CACHE``, else ``~/.cache/rfp``.
        download: ``False`` to stay offline.

    Raises:
        FileError: Raw files are missing (the message says what to put where) or damaged (it says which).
        ArgumentError: An unknown name or key; own data that does not tell its level, kind or split.

    Example:
        >>> club = load({"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25]})
        >>> club.graphs.num_nodes, len(club.rows("train")), club.task.num_outputs
        (34, 17, 4)
        >>> club.rows("train", split=1)
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: split 1 of 'KarateClub' does not exist; expected 0, the only one
    """
    config = _as_config(data)
    if config.name is not None:
        loaded = _load_named(config.name, data_root, cache, download)
        symmetric = not DATASETS[config.name].directed
    else:
        loaded = _load_own(config, cache)
        symmetric = False
    graphs = loaded.graphs
    if config.self_loops == "remove":
        graphs = remove_self_loops(graphs)
    if config.undirected and not symmetric:
        graphs = symmetrize(graphs)
    if config.normalize_features:
        graphs = normalize_features(graphs)
    if config.drop_features:
        graphs = drop_features(graphs)
    loaded = replace(loaded, graphs=graphs)
    if loaded.links is None and "link" in (config.level, loaded.task.level.name):
        known = loaded.task.metric if loaded.task.kind == "link" else DEFAULT_METRIC
        loaded = link_task(graphs, config, loaded.task.name, loaded.source, metric=known)
    else:
        if loaded.links is None and config.random_split is None:
            _check_own_splits(config, loaded)
        loaded = loaded if config.target is None else loaded.only_target(config.target)
    return loaded if config.path is None else replace(loaded, digest=content_digest(loaded))


def _check_own_splits(config: DataConfig, loaded: LoadedTask) -> None:
    for key, usual in (("num_splits", 1), ("split_seed", 0)):
        if getattr(config, key) != usual:
            have = "1 split" if loaded.num_splits == 1 else f"{loaded.num_splits} splits"
            raise ArgumentError(
                f"{key}={getattr(config, key)} is of random splits, and {loaded.task.name!r} has {have} of its own; "
                "leave it out, or ask for random ones of data of your own by random_split"
            )


def _as_config(data: str | Path | Mapping[str, Any] | DataConfig) -> DataConfig:
    if isinstance(data, Mapping):
        data = DataConfig.from_dict(data)
    if isinstance(data, str | Path):
        known = isinstance(data, str) and data in DATASETS
        data = DataConfig(name=str(data)) if known else DataConfig(path=str(data))
        if not known and not Path(str(data.path)).exists():
            raise ArgumentError(
                f"{data.path!r} is neither a data set ({', '.join(DATASETS)}) nor a file or folder that exists"
            )
    if data.name is not None and data.name not in DATASETS:
        raise ArgumentError(f"data set {data.name!r} is not known; expected one of {', '.join(DATASETS)}")
    return data


def _load_named(name: str, data_root: str | Path | None, cache: str | Path | None, download: bool) -> LoadedTask:
    spec = DATASETS[name]
    roots = data_roots(data_root, cache) if spec.files else [Path()]
    try:
        root = find_files(name, spec.files, roots, spec.download if download else None)
    except FileError:
        if spec.fallback is None:
            raise
        made = _load_named(spec.fallback, data_root, cache, download)
        note = f"{name}: the raw files were not found, so this is {spec.fallback!r}, not the published data"
        return replace(made, task=spec.task, notes=(*made.notes, note))
    key = content_key(name, digests(root, spec.files))
    path = cache_folder(cache) / "processed" / f"{name}-{key}.pt"
    loaded = load_or_read(path, spec.task, lambda: _checked(spec.read(root, spec.task), spec))
    if not spec.files:
        return loaded
    # The entry may have been made from the same files elsewhere.
    return replace(loaded, source=str((root / spec.files[0]).parent))


def _checked(loaded: LoadedTask, spec: DatasetSpec) -> LoadedTask:
    """Compare with what is known of the data set: a file cut at the end of a line reads without an error."""
    graphs = loaded.graphs
    got = {
        "graphs": graphs.num_graphs,
        "nodes": graphs.num_nodes,
        "edges": graphs.num_edges,
        "features": 0 if graphs.x is None else graphs.x.size(-1),
    }
    wrong = [f"{got[key]} {key} and not {size}" for key, size in spec.sizes.items() if got[key] != size]
    if wrong:
        raise FileError(
            f"{loaded.source}: {spec.task.name} should not have {', '.join(wrong)}; a raw file is cut or of another "
            "version, fetch them again"
        )
    return loaded


def _load_own(config: DataConfig, cache: str | Path | None) -> LoadedTask:
    if config.dataset_class is not None:
        return load_class(config, cache_folder(cache) / "raw")
    path = Path(str(config.path)).expanduser()
    if path.is_dir():
        return load_folder(path, config)
    if path.is_file():
        return load_file(path, config)
    raise FileError(f"{path}: no such file or folder; the current folder is {Path.cwd()}")
