"""How the documentation site is built: `make docs`. Nothing on its pages comes from another server."""

import sys
from pathlib import Path

import kcagc

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "kcagc"
author = "The kcagc developers"
copyright = "The kcagc developers, Apache-2.0"  # noqa: A001 - Sphinx's word
version = release = kcagc.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "from_code", "drawing"]
exclude_patterns = ["_build"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}  # a page without cells is an ordinary page
nb_merge_streams = True
nb_execution_mode = "off"  # the outputs of the notebook are stored in it; the tests run it and compare them

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "literal"  # `code` in a docstring

autodoc_typehints = "none"  # signatures carry them already
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
# Every estimator of scikit-learn has methods that route metadata.
_ROUTING = "get_metadata_routing, set_fit_request, set_predict_request, set_score_request, set_transform_request"
autodoc_default_options = {"members": True, "show-inheritance": True, "exclude-members": _ROUTING}
nitpicky = True
# Types in signatures are those of NumPy, SciPy and scikit-learn, whose sites are not looked up while building.
nitpick_ignore_regex = [(r"py:.*", r".*")]
suppress_warnings = ["ref.python"]  # a type such as "(n_nodes, k)" names no attribute

# Commands and code have a button that copies them; outputs have none.
copybutton_selector = ", ".join(f"div.highlight-{kind} pre" for kind in ("sh", "python", "toml", "ipython3"))

html_theme = "furo"
html_title = f"kcagc {release}"
html_static_path = ["_static"]
html_css_files = ["kcagc.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
highlight_language = "none"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d7a", "color-brand-content": "#0b5d7a"},
    "dark_css_variables": {"color-brand-primary": "#7cc7e0", "color-brand-content": "#7cc7e0"},
}
