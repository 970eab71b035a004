"""Mathematics as MathML, which browsers draw themselves: no script and no font from elsewhere.

Docutils translates the LaTeX; what it does not know is a warning, and so an error of the build.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# What Docutils does not know -> what means the same to it. Brackets grow by themselves in MathML.
SYNONYMS = {
    r"\\[bB]igg?[lrm]?(?![A-Za-z])": "",
    r"\\dots\b": r"\\ldots",
    r"\\tfrac(\d)(\d)": r"\\frac{\1}{\2}",
    r"\\tfrac": r"\\frac",
}


def translated(node: nodes.Element, *, as_block: bool) -> str:
    text = node.astext()
    for pattern, known in SYNONYMS.items():
        text = re.sub(pattern, known, text)
    try:
        return tex2mathml(text, as_block=as_block)
    except MathError as error:
        logger.warning("mathematics cannot be drawn: %s: %s", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def visit_math(self: Any, node: nodes.math) -> None:
    self.body.append(translated(node, as_block=False))
    raise nodes.SkipNode


def visit_displaymath(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math-block">{translated(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
