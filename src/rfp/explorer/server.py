"""Starts the server and opens the page."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress

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
_WEB_PORT = 80


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
    hosts = hosts_of(host, port)
    app = create_app(graph, token=token, hosts=hosts, limits=limits)
    address = f"http://{hosts[0]}/?token={token}"
    say(f"Exploring {graph.name}: {address}")
    say("Ctrl-C stops it.")
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def hosts_of(host: str, port: int) -> list[str]:
    """What a browser may send as ``Host`` to a server that listens there; the first is that of its address.

    >>> hosts_of("127.0.0.1", 8000), hosts_of("::1", 8000)
    (['127.0.0.1:8000', 'localhost:8000'], ['[::1]:8000'])
    >>> hosts_of("example.com", 80)
    ['example.com:80', 'example.com']
    """
    names = [host] if host not in (LOCAL, "0.0.0.0", "::") else [LOCAL, "localhost"]
    if host in ("0.0.0.0", "::"):
        names += [socket.gethostname(), *_own_addresses()]
    names = [_in_address(name) for name in names]
    # The port of all plain web servers is left out by browsers.
    return [f"{name}:{port}" for name in names] + (names if port == _WEB_PORT else [])


def _in_address(name: str) -> str:
    """A name as browsers write it: lower case, and what has colons of its own, an IPv6 address, in brackets."""
    if ":" not in name:
        return name.lower()
    with suppress(ValueError):  # listening says what is wrong with it
        name = ipaddress.IPv6Address(name).compressed
    return f"[{name.lower()}]"


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # from now on a browser may come; it waits until the server is ready
    except OSError as error:
        listener.close()
        raise ArgumentError(
            f"cannot listen on {_in_address(host)}:{port} ({error.strerror or error}); try --port 0"
        ) from error
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
