"""Run the notebook of the documentation: `make notebook` stores its outputs, and a test compares them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "notebook.ipynb"


def executed(notebook: Any, folder: Path) -> Any:
    """Return a copy of a notebook with the outputs of a fresh run; files that it writes go to `folder`."""
    options = {"timeout": 250, "record_timing": False, "coalesce_streams": True}
    fresh = NotebookClient(copy.deepcopy(notebook), resources={"metadata": {"path": str(folder)}}, **options).execute()
    fresh.metadata["language_info"] = {"name": "python"}  # without the version of this machine
    return fresh


if __name__ == "__main__":
    nbformat.write(executed(nbformat.read(NOTEBOOK, as_version=4), NOTEBOOK.parent), NOTEBOOK)
