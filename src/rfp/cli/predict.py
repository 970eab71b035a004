"""``rfp predict``: ask a trained model of links with whom a node should be linked."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rfp.cli.options import training as options
from rfp.cli.options.device import Device


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="best.ckpt of a link model, or the folder with it.")],
    node: Annotated[list[str], typer.Option("--node", metavar="ID", help="A node; may be given several times.")],
    top: Annotated[int, typer.Option(min=1, metavar="K", help="How many partners to list for each node.")] = 20,
    known: Annotated[
        bool, typer.Option("--known", help="Also list neighbours in the training graph, to see how they score.")
    ] = False,
    data_root: options.DataRoot = None,
    device: Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Score a node with all others and list its most likely links.

    The data is loaded as the model's config says, and the graph that is encoded has the training edges of its split.
    Columns: node, partner, probability (among as many links as non-links, as in training).

    Examples:

        rfp train examples/configs/links.yaml --split 0 --checkpoints runs

        rfp predict runs/*/seed0-split0 --node 0 --top 5
    """
    from rfp.environment import find_device
    from rfp.train.link_predictions import LinkPredictor

    predictor = LinkPredictor(model, data_root=data_root, device=find_device(device))
    rows = []
    for text in node:
        found = predictor.partners(predictor.find_node(text), top, known=known)
        for partner, probability in zip(found.partners.tolist(), found.probability.tolist(), strict=True):
            rows.append((found.name(found.node), found.name(partner), probability))
    if as_json:
        typer.echo(
            json.dumps([dict(zip(("node", "partner", "probability"), row, strict=True)) for row in rows], indent=2)
        )
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("node", "partner", "probability"))
    writer.writerows((name, partner, f"{probability:.6g}") for name, partner, probability in rows)
