"""How the site is built: ``make docs`` writes it to ``docs/_build/html``, to be opened from there without a server.

Nothing on a page comes from elsewhere: mathematics is MathML, fonts are the reader's, the search index is a file of the
site.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ.pop("MPLBACKEND", None)  # notebooks draw into their own pages
logging.getLogger("matplotlib").setLevel(logging.ERROR)

from rfp import __version__  # noqa: E402

project = "rfp"
author = "the rfp developers"
copyright = "the rfp developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "reference",
    "rendered",
    "commands",
]
exclude_patterns = ["_build", "_extensions", "_generated", "**/.*"]
suppress_warnings = ["ref.footnote"]  # a list of references is read, not only pointed at
smartquotes_action = "qe"  # "--" begins the options of the command: it is no dash
nitpicky = True
# Names of other projects, whose inventories would have to be fetched; a name that begins with rfp must exist.
nitpick_ignore_regex = [("py:.*", r"(?!rfp\b).*")]

# --- reference -------------------------------------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
autodoc_default_options = {"show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shapes"]
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 90
python_display_short_literal_types = True

# --- pages and notebooks ---------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "executed")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- looks -----------------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"rfp {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_search_summary = False  # summaries are fetched page by page, which a browser forbids on file://
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1b6ca8", "color-brand-content": "#1b6ca8"},
    "dark_css_variables": {"color-brand-primary": "#7cc0f2", "color-brand-content": "#7cc0f2"},
}
