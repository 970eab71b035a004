"""The explorer: a local page on which random features are watched turning into the geometry of a graph.

``rfp explore`` starts it. The server (Starlette) computes with :func:`rfp.encode` and sends one float a node; the page
(``static/``, plain ES modules) draws them with WebGL2. Needs the extra ``explore``.
"""
