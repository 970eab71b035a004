"""``rfp explore``: a graph and its encoding in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from rfp.cli.main import Interrupted
from rfp.cli.options.panels import panel
from rfp.cli.options.reading import Reading
from rfp.explorer.graphs import open_file
from rfp.explorer.server import LOCAL, karate_club, serve

GraphFile = Annotated[
    str | None,
    typer.Argument(metavar="[GRAPH]", help="Any file that rfp encode reads. Default: the karate club."),
]


_server = panel("The server")


def explore(
    graph: GraphFile = None,
    *,
    port: Annotated[int, _server(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    host: Annotated[str, _server(help="Address to listen on. Any other than 127.0.0.1 needs --i-know.")] = LOCAL,
    i_know: Annotated[
        bool,
        _server(
            "--i-know",
            help="Let other machines reach this server. Whoever has the address with its token, which travels "
            "unencrypted, sees the graph and can make this machine compute.",
        ),
    ] = False,
    browser: Annotated[bool, _server("--browser/--no-browser", help="Open the page.")] = True,
    options: Reading,
) -> None:
    """Watch random features turn into the geometry of a graph, in a browser.

    Serves one page on this machine, at an address with a random token. The page shows the graph coloured by a channel
    at each step, the scatter of two channels, principal angles, Ritz values, the spectrum and products. Every control
    recomputes at once, and you can copy what is on the screen as Python or as a command.

    Examples:

        rfp explore

        rfp explore examples/karate.csv --no-browser --port 8765
    """
    if host not in (LOCAL, "localhost") and not i_know:
        raise typer.BadParameter(
            f"--host {host} lets other machines reach this server, unencrypted: whoever has the address with its token "
            "sees the graph and can make this machine compute. Say that you want this with --i-know, or leave --host "
            "out and use an SSH tunnel"
        )
    shown = karate_club() if graph is None else open_file(graph, options)
    try:
        serve(
            shown,
            host=LOCAL if host == "localhost" else host,
            port=port,
            open_browser=browser,
            say=lambda line: typer.echo(line, err=True),
        )
    except Interrupted:  # Ctrl-C is how it ends
        typer.echo("Stopped.", err=True)
