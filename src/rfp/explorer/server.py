"""Starts the server and opens the page."""

from __future__ import annotations

import os
import secrets
import socket
import webbrowser
from collections.abc import Callable

import torch

from rfp.errors import ArgumentError, MissingExtraError
from rfp.explorer.graphs import OpenGraph
from rfp.explorer.limits import Limits
from rfp.graph import Graph
from rfp.io import LoadedGraph

LOCAL = "127.0.0.1"
# A fixed token, for those who restart the server and want their open pages to go on.
TOKEN_VARIABLE = "RFP_EXPLORE_TOKEN"
_SHORTEST_TOKEN = 16


def karate_club() -> OpenGraph:
    """What is shown when no file is given: Zachary's karate club, without the weights of the data set."""
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("networkx", "explore", "the karate club") from error
    edges = torch.tensor(sorted(nx.karate_club_graph().edges)).T
    graph = Graph(edges, num_nodes=34).to_undirected()
    # Four channels find the four largest eigenvalues of this graph, which no tie blurs, within 32 steps.
    initial = {"num_channels": 4, "num_steps": 32}
    return OpenGraph(LoadedGraph(graph, directed=False), "Karate club", ("karate", ""), initial=initial)


def serve(
    graph: OpenGraph,
    *,
    host: str = LOCAL,
    port: int = 0,
    open_browser: bool = True,
    limits: Limits | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Serve the page until interrupted.

    Args:
        graph: What it opens with.
        host: The address to listen on; everything but 127.0.0.1 lets other machines in that know the token.
        port: 0 takes a free one.
        open_browser: Open the page in a browser.
        limits: The sizes a page may ask for.
        say: Called with lines for the person at the terminal.
    """
    try:
        import uvicorn

        from rfp.explorer.app import create_app
    except ImportError as error:
        raise MissingExtraError("starlette and uvicorn", "explore", "the explorer") from error
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    token = _token()
    names = [host] if host not in (LOCAL, "0.0.0.0", "::") else [LOCAL, "localhost"]
    if host in ("0.0.0.0", "::"):
        names += [socket.gethostname(), *_own_addresses()]
    app = create_app(graph, token=token, hosts=[f"{name}:{port}".lower() for name in names], limits=limits)
    address = f"http://{names[0]}:{port}/?token={token}"
    say(f"Exploring {graph.name}: {address}")
    say("Ctrl-C stops it.")
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # from now on a browser may come; it waits until the server is ready
    except OSError as error:
        listener.close()
        raise ArgumentError(f"cannot listen on {host}:{port} ({error.strerror or error}); try --port 0") from error
    return listener


def _own_addresses() -> list[str]:
    """Addresses by which other machines may know this one."""
    try:
        return sorted({str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)})
    except OSError:
        return []


def _token() -> str:
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return secrets.token_urlsafe(24)
    if len(given) < _SHORTEST_TOKEN or not given.replace("-", "").replace("_", "").isalnum():
        raise ArgumentError(
            f"{TOKEN_VARIABLE} must have at least {_SHORTEST_TOKEN} letters, digits, - or _, got {len(given)} of them"
        )
    return given
