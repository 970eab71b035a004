"""``rfp demo``: watch random channels turn into eigenvectors, on a graph that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

import rfp
from rfp.atomic import atomic_files
from rfp.errors import MissingExtraError
from rfp.operators import from_name
from rfp.theory.angles import principal_angles
from rfp.viz.demo_plot import DemoConvergence, draw_demo

_STEPS_PRINTED = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The picture.")] = Path("rfp-demo.png"),
    seed: Annotated[int, typer.Option(help="Another seed gives another random start and the same end.")] = 0,
) -> None:
    """Encode the karate club and watch its channels turn from noise into eigenvectors.

    Prints a table of angles, and of the cosine of each channel with its own eigenvector, and writes a picture.

    Example:

        rfp demo -o rfp-demo.png
    """
    if output.suffix.lower() != ".png":
        raise typer.BadParameter(f"-o {output}: the picture is a .png")
    with atomic_files([output]) as files:
        data = measure_demo(num_channels=4, num_steps=32, seed=seed)
        Console().print(_table(data))
        draw_demo(data, files[0])
    typer.echo(f"The picture is in {output}. Next: rfp encode examples/karate.csv -o karate.npy")


def measure_demo(*, num_channels: int, num_steps: int, seed: int) -> DemoConvergence:
    r"""Encode the (unweighted) karate club and compare every step with the eigenvectors of Â.

    For subspace iteration with a symmetric operator the largest principal angle obeys

    .. math:: \tan\theta_p \le |\lambda_{k+1} / \lambda_k|^p \tan\theta_0
    """
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("networkx", "cli", "the demo") from error
    club = nx.karate_club_graph()
    edges = torch.tensor(sorted(club.edges)).T  # [2, 78]; the weights of the data set are left out
    graph = rfp.Graph(edges, len(club)).to_undirected()
    trajectory = rfp.encode(graph, num_channels=num_channels, num_steps=num_steps, seed=seed, dtype=torch.float64)
    states = trajectory.states[0].transpose(0, 1)  # [P + 1, n, k]

    S = from_name("normalized_adjacency", graph, torch.float64) @ torch.eye(len(club), dtype=torch.float64)
    eigenvalues, eigenvectors = torch.linalg.eigh(S)
    order = eigenvalues.abs().argsort(descending=True)[: num_channels + 1]
    eigenvalues, eigenvectors = eigenvalues[order], eigenvectors[:, order[:num_channels]]

    angles = torch.stack([principal_angles(a, eigenvectors)[-1] for a in states])
    rate = float((eigenvalues[-1] / eigenvalues[-2]).abs())
    layout = nx.kamada_kawai_layout(club)
    return DemoConvergence(
        edges=edges,
        positions=torch.tensor([list(layout[node]) for node in sorted(club)]),
        states=states,
        eigenvectors=eigenvectors,
        eigenvalues=eigenvalues,
        angles=angles,
        bound=angles[0].tan() * rate ** torch.arange(num_steps + 1, dtype=torch.float64),
        cosines=((states * eigenvectors).sum(1) / states.norm(dim=1)).abs(),
    )


def _table(data: DemoConvergence) -> Table:
    k = data.cosines.size(1)
    values = ", ".join(f"{value:.3f}" for value in data.eigenvalues[:k].tolist())
    table = Table(
        title=f"Karate club, {len(data.positions)} nodes: {k} random channels under a = QR(Â a)",
        caption=f"angle: largest between the channels and the top {k} eigenvectors of Â; bound: what theory promises; "
        f"cos j: of channel j with eigenvector j. Eigenvalues {values}, next {float(data.eigenvalues[k]):.3f}",
    )
    for name in ("step", "angle", "bound", "", *(f"cos {j + 1}" for j in range(k))):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    degrees, bound = data.angles.rad2deg().tolist(), data.bound.atan().rad2deg().tolist()
    for p in _STEPS_PRINTED:
        bar = "█" * round(degrees[p] / 90 * 14) or "▏"
        cosines = [f"{c:.3f}" for c in data.cosines[p].tolist()]
        table.add_row(str(p), f"{degrees[p]:.3f}°", f"{bound[p]:.3f}°", bar, *cosines)
    return table
