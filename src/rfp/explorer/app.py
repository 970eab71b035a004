"""The routes: JSON for facts, raw float32 for everything that has a number a node."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rfp._version import __version__
from rfp.errors import ArgumentError, RFPError
from rfp.explorer import choices
from rfp.explorer.analysis import study
from rfp.explorer.encodings import Asked, Encodings, settings_of
from rfp.explorer.graphs import OpenGraph, Shelf
from rfp.explorer.jobs import DONE, Job
from rfp.explorer.limits import Limits
from rfp.explorer.products import nearest, pair_products
from rfp.explorer.security import Doorkeeper
from rfp.explorer.snippets import Shown, as_command, as_python
from rfp.explorer.upload import read_upload, receive
from rfp.io.writers import EncodedNodes, write_npy

STATIC = Path(__file__).parent / "static"
_MAX_JSON = 1 << 16
_LONGEST_OWNER = 64
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Server:
    """What the routes share: the open graphs, the encodings, and the threads that compute."""

    shelf: Shelf
    encodings: Encodings
    pool: ThreadPoolExecutor
    limits: Limits

    def graph(self, request: Request) -> OpenGraph:
        found = self.shelf.get(request.path_params["graph"])
        if found is None:
            raise HTTPException(404, "this graph is not open any more; drop the file again")
        return found

    def encoding(self, request: Request, *, done: bool = True) -> Asked:
        found = self.encodings.get(request.path_params["encoding"])
        if found is None or (done and found.job.status != DONE):
            raise HTTPException(404, "this encoding is not there any more; ask for it again")
        return found

    async def hello(self, request: Request) -> Response:
        offered = choices.describe()
        return as_json(
            {
                "version": __version__,
                "graph": self.shelf.first_key,
                "choices": offered,
                "initial": {**offered["defaults"], **self.shelf.first.initial},
                "limits": {field.name: getattr(self.limits, field.name) for field in fields(self.limits)},
            }
        )

    async def describe_graph(self, request: Request) -> Response:
        return as_json({"key": request.path_params["graph"], **self.graph(request).describe()})

    async def positions(self, request: Request) -> Response:
        graph = self.graph(request)
        version, placed = graph.version, graph.positions
        return Response(placed.tobytes(), media_type="application/octet-stream", headers={"X-Version": str(version)})

    async def edges(self, request: Request) -> Response:
        return binary(await in_thread(self.graph(request).drawn_edges, self.limits))

    async def degrees(self, request: Request) -> Response:
        return binary(await in_thread(self.graph(request).degrees))

    async def ids(self, request: Request) -> Response:
        return as_json(await in_thread(self.graph(request).ids))

    async def upload(self, request: Request) -> Response:
        body = await receive(request.stream(), self.limits)
        graph = await in_thread(read_upload, body, request.query_params.get("name", ""), self.limits)
        return as_json({"key": await in_thread(self.shelf.add, graph)})

    async def ask(self, request: Request) -> Response:
        asked = await read_json(request)
        graph = self.shelf.get(str(asked.get("graph")))
        if graph is None:
            raise HTTPException(404, "this graph is not open any more; drop the file again")
        wanted = asked.get("settings")
        if not isinstance(wanted, dict):
            raise ArgumentError("settings must be an object")
        settings = settings_of(wanted, graph, self.limits)
        owner = str(asked.get("owner", ""))[:_LONGEST_OWNER]
        return as_json(self.encodings.ask(str(asked["graph"]), graph, settings, owner).describe())

    async def leave(self, request: Request) -> Response:
        for owner in request.query_params.getlist("owner")[:8]:
            self.encodings.leave(owner[:_LONGEST_OWNER])
        return as_json({})

    async def describe_encoding(self, request: Request) -> Response:
        return as_json(await in_thread(self.encoding(request, done=False).describe))

    async def values(self, request: Request) -> Response:
        shown = shown_of(request)
        return binary(
            self.encoding(request).values(
                trajectory=shown.trajectory, operator=shown.operator, step=shown.step, channel=shown.channel
            )
        )

    async def analysis(self, request: Request) -> Response:
        asked, shown = self.encoding(request), shown_of(request)
        asked.values(trajectory=shown.trajectory, operator=shown.operator, step=0, channel=0)  # checks the indices
        key = ("analysis", shown.operator, shown.trajectory)
        job = asked.studies.get(key)
        if job is None or job.status == "cancelled":
            job = Job(partial(study, asked, shown.operator, shown.trajectory)).start(self.pool)
            asked.studies[key] = job
        return as_json({**job.describe(), **(job.result or {})})

    async def products(self, request: Request) -> Response:
        asked, node = self.encoding(request), number(request, "node")
        other = number(request, "other", node)
        operator = number(request, "operator", 0)
        asked.values(trajectory=0, operator=operator, step=0, channel=0)  # checks the index
        return as_json(await in_thread(partial(pair_products, asked, operator=operator, node=node, other=other)))

    async def nearest(self, request: Request) -> Response:
        found = await in_thread(nearest, self.encoding(request), number(request, "node"))
        return as_json([{"node": node, "distance": distance} for node, distance in found])

    async def snippet(self, request: Request) -> Response:
        asked, shown = self.encoding(request, done=False), shown_of(request)
        asked.check_place(**asdict(shown))
        return as_json(
            {
                "python": as_python(asked.graph, asked.settings, shown),
                "command": as_command(asked.graph, asked.settings, shown),
            }
        )

    async def npy(self, request: Request) -> Response:
        asked, file = self.encoding(request), io.BytesIO()
        await in_thread(write_npy, file, EncodedNodes(asked.trajectory.node_first(), None, None, ""))
        headers = {"Content-Disposition": 'attachment; filename="encoding.npy"'}
        return Response(file.getvalue(), media_type="application/octet-stream", headers=headers)


def create_app(graph: OpenGraph, *, token: str, hosts: list[str], limits: Limits | None = None) -> Starlette:
    """The application.

    Args:
        graph: What the page opens with.
        token: The secret every request must know.
        hosts: ``name:port`` under which it may be reached.
        limits: The sizes a page may ask for.
    """
    limits = limits or Limits()
    pool = ThreadPoolExecutor(4, thread_name_prefix="rfp-explore")
    server = Server(Shelf(graph, pool), Encodings(pool, limits), pool, limits)
    one_graph, one_encoding = "/api/graphs/{graph}", "/api/encodings/{encoding}"
    routes: list[Route | Mount] = [
        Route("/", page),
        Route("/api/hello", server.hello),
        Route("/api/graphs", answered(server.upload), methods=["POST"]),
        Route(one_graph, answered(server.describe_graph)),
        Route(f"{one_graph}/positions", answered(server.positions)),
        Route(f"{one_graph}/edges", answered(server.edges)),
        Route(f"{one_graph}/degrees", answered(server.degrees)),
        Route(f"{one_graph}/ids", answered(server.ids)),
        Route("/api/encodings", answered(server.ask), methods=["POST"]),
        Route("/api/leave", answered(server.leave), methods=["POST"]),
        Route(one_encoding, answered(server.describe_encoding)),
        Route(f"{one_encoding}/values", answered(server.values)),
        Route(f"{one_encoding}/analysis", answered(server.analysis)),
        Route(f"{one_encoding}/products", answered(server.products)),
        Route(f"{one_encoding}/nearest", answered(server.nearest)),
        Route(f"{one_encoding}/snippet", answered(server.snippet)),
        Route(f"{one_encoding}/encoding.npy", answered(server.npy)),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Doorkeeper, token=token, hosts=frozenset(hosts))])
    app.state.server = server
    return app


async def page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")


def answered(handler: Handler) -> Handler:
    """Expected failures as ``{"error": one clear line}``: the page shows it."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except RFPError as error:
            return as_json({"error": " ".join(str(error).split())}, 400)
        except HTTPException as error:
            return as_json({"error": error.detail}, error.status_code)

    return handle


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run what takes time beside the event loop, so that other requests are answered."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def as_json(content: Any, status: int = 200) -> Response:
    """JSON without NaN and infinity, which it does not know: they become ``null``."""
    return Response(json.dumps(_finite(content)), status, media_type="application/json")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def binary(array: Any) -> Response:
    """An array as its bytes, little-endian as every browser expects."""
    return Response(
        array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes(), media_type="application/octet-stream"
    )


async def read_json(request: Request) -> dict[str, Any]:
    """The object in the body of a request."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_JSON:
            raise ArgumentError(f"the request is longer than {_MAX_JSON} bytes")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArgumentError("the request is not JSON, or nested too deeply") from error
    if not isinstance(content, dict):
        raise ArgumentError("the request must be a JSON object")
    return content


def number(request: Request, name: str, default: int | None = None) -> int:
    """An integer of the query."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        raise ArgumentError(f"{name} must be an integer, got {text!r:.40}") from None


def shown_of(request: Request) -> Shown:
    """Which values are meant."""
    return Shown(**{field.name: number(request, field.name, 0) for field in fields(Shown)})
