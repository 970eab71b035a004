"""``rfp plot``: the figures of the explorer without a browser."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rfp.atomic import atomic_files
from rfp.cli.options.device import Device
from rfp.cli.options.encoding import EncodingOptions
from rfp.cli.options.output import Quiet, check_given
from rfp.cli.options.panels import panel
from rfp.cli.options.reading import GraphFiles, Reading
from rfp.cli.progress import progress_bar
from rfp.encode import encode
from rfp.environment import find_device
from rfp.io import read_files
from rfp.viz.node_positions import positions as lay_out
from rfp.viz.notebook import PICTURE_SUFFIXES, Picture
from rfp.viz.overview import overview
from rfp.viz.page import as_html

_drawing = panel("The picture")


def plot(
    graph: GraphFiles,
    *,
    settings: EncodingOptions,
    step: Annotated[
        list[int] | None, _drawing("--step", help="A step to draw the graph at; up to eight times. Default: a few.")
    ] = None,
    channel: Annotated[int, _drawing(min=0, help="The channel that colours the nodes.")] = 0,
    second: Annotated[
        int | None, _drawing(min=0, help="The other channel of the scatter plot. Default: the next.")
    ] = None,
    show_operator: Annotated[int, _drawing(min=0, help="Which of several operators, counted from 0.")] = 0,
    trajectory: Annotated[int, _drawing(min=0, help="Which of several trajectories, counted from 0.")] = 0,
    output: Annotated[Path, _drawing("-o", "--output", help="OUT.png, .svg, .pdf or .html.")] = Path("rfp.png"),
    force: Annotated[bool, _drawing("--force", help="Replace OUT if it exists.")] = False,
    options: Reading,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Draw a graph coloured by its encoding, two channels, and the angles to the eigenvectors.

    An .html file has a slider through the steps and needs nothing but a browser.

    Examples:

        rfp plot examples/karate.csv -k 4 -P 32 --channel 1 -o karate.png

        rfp plot examples/karate.csv -k 4 -P 32 --channel 1 --step 0 --step 4 --step 32 -o karate.html
    """
    if output.suffix.lower() not in PICTURE_SUFFIXES:
        raise typer.BadParameter(f"-o {output}: a picture ends in {', '.join(PICTURE_SUFFIXES)}")
    check_given(output, graph, force=force)
    for name, value, size in (
        ("--show-operator", show_operator, len(settings.operators)),
        ("--trajectory", trajectory, settings.num_trajectories),
        ("--channel", channel, settings.num_channels),
        ("--second", second or 0, settings.num_channels),
    ):
        if value >= size:
            raise typer.BadParameter(f"{name} must be from 0 to {size - 1}, got {value}")
    where = find_device(device)
    with progress_bar(quiet=quiet) as bar:
        bar.stage(f"reading {', '.join(graph)}")
        loaded = read_files(graph, options)
        if not quiet:
            typer.echo(loaded.summary(), err=True)
        read = loaded.graph.to(where)
        bar.stage("propagating", settings.num_steps * len(settings.operators))
        encoded = encode(read, settings, progress=bar.advance)
        bar.stage("laying out")
        placed = lay_out(read)
        bar.stage("drawing")
        which: dict[str, Any] = {"channel": channel, "index": trajectory, "positions": placed}
        title = "" if graph[0] == "-" else Path(graph[0]).name
        figure = overview(encoded, steps=step, second=second, operator=show_operator, title=title, **which)
        picture = Picture(figure)
        if output.suffix.lower() != ".html":
            picture.save(output)
        else:
            command = shlex.join(["rfp", *sys.argv[1:]])
            last = -1 if not step else step[-1]
            text = as_html(
                encoded,
                read,
                picture.to_bytes("png"),
                step=last,
                operator=show_operator,
                title=title or "graph",
                command=command,
                **which,
            )
            with atomic_files([output]) as files:
                files[0].write(text.encode())
    if not quiet:
        typer.echo(f"drawn to {output}", err=True)
