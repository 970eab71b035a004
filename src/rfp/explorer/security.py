"""Who may talk to the server: this machine's own page, opened with its token, and nobody else.

A page on any web site can send requests to 127.0.0.1. So every answer but the static files needs the token, which is
in the address that ``rfp explore`` opens; the ``Host`` must be ours (or a foreign name could be pointed at this
machine), an ``Origin`` that is given must be ours, and nothing but our own files is ever loaded by the page.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-rfp-token"
CONTENT_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Doorkeeper:
    """Middleware that answers those who may not come in.

    Args:
        app: What it guards.
        token: The secret of this run.
        hosts: What ``Host`` may be: ``name:port`` under which the server may be reached, and on port 80 ``name``.
    """

    app: ASGIApp
    token: str
    hosts: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        await (refused or self.app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self.hosts:
            return PlainTextResponse("This server answers to its own address only.\n", 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        if not scope["path"].startswith("/api/"):
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        given = headers.get(TOKEN_HEADER) or QueryParams(scope["query_string"]).get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return JSONResponse({"error": "wrong token; open the address that rfp explore printed"}, 401)
        return None
