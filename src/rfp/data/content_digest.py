"""A digest of what a data set holds, for data of one's own: its files may change under the same name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from rfp.data.loaded import LoadedTask


def content_digest(loaded: LoadedTask) -> str:
    """Sixteen hexadecimal digits of graphs, labels and splits: equal data have equal ones, whatever the file. O(m)."""
    graphs = loaded.graphs
    named: dict[str, Tensor] = {"edge_index": graphs.edge_index, "ptr": graphs.ptr, "y": loaded.y}
    parts: list[tuple[str, Mapping[str, Tensor]]] = [
        ("node ", graphs.nodes),
        ("edge ", graphs.edges),
        ("mask ", loaded.masks),
    ]
    if loaded.links is not None:
        named["pairs"] = loaded.links.pairs
        parts.append(("given ", loaded.links.given))
    for kind, tensors in parts:
        named |= {kind + name: value for name, value in tensors.items()}
    digest = hashlib.sha256()
    if loaded.links is not None:  # predictions are told by them
        digest.update(repr(loaded.links.names).encode())
    for name, value in sorted(named.items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(np.ascontiguousarray(value.cpu().numpy()).data)
    return digest.hexdigest()[:16]
