"""Run the notebooks of docs/tutorials, and store the outputs of their cells.

    python docs/notebooks.py [NAME...]

A test runs them as well, and names those whose outputs differ from the file. Each begins with
badges that open it on Colab and Binder, and with a cell that installs fedsim where it is missing.
"""

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "tutorials"

INSTALL = "install"
"""The id of the cell that installs fedsim; the site leaves it out."""

_BADGES = """\
[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]\
(https://colab.research.google.com/github/{slug}/blob/main/docs/tutorials/{name}.ipynb)
[![Open in Binder](https://mybinder.org/badge_logo.svg)]\
(https://mybinder.org/v2/gh/{slug}/main?labpath=docs/tutorials/{name}.ipynb)"""
_INSTALL = """\
# Installs fedsim where it is missing, as on Colab
import importlib.util

if importlib.util.find_spec("fedsim") is None:
    %pip install -q "fedsim-network{extra} @ git+{address}\""""

_LIMIT = 600  # seconds of one cell; a machine may be busy
_SESSION = re.compile(r"(?:/[\w.-]+)*/fedsim-\w+/")
_CELL = re.compile(r"(?:/[\w.-]+)*/ipykernel_\d+/\d+\.py")  # as warnings name a cell
_GONE = {"text/plain": ""}
_IMAGE = re.compile(r"data:image/png;base64,[\w+/=]+")

Notebook = Any
"""A notebook as nbformat has it, which has no types."""


def notebooks() -> list[Path]:
    """Return the files of all notebooks."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Notebook:
    """Return a notebook as it is in its file."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # as it comes


def headed(path: Path) -> Notebook:
    """Return a notebook with its badges and its cell that installs fedsim."""
    notebook = read(path)
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    address = project["project"]["urls"]["Repository"]
    slug = address.removeprefix("https://github.com/")
    if notebook.cells[0].cell_type != "markdown":  # it has no title
        return notebook
    title, *rest = notebook.cells[0].source.split("\n\n")
    words = [each for each in rest if not each.startswith("[![")]
    notebook.cells[0].source = "\n\n".join(
        [title, _BADGES.format(slug=slug, name=path.stem), *words]
    )
    if notebook.cells[1].get("id") != INSTALL:
        cell = nbformat.v4.new_code_cell(id=INSTALL)  # type: ignore[no-untyped-call]
        notebook.cells.insert(1, cell)
    extra = "[torch]" if any("fedsim.torch" in cell.source for cell in notebook.cells) else ""
    notebook.cells[1].source = _INSTALL.format(extra=extra, address=address)
    return notebook


def executed(path: Path) -> Notebook:
    """Return a notebook with the outputs of its cells, run in a temporary folder."""
    notebook = headed(path)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=_LIMIT,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        if "outputs" in cell:  # a bar that is gone has left its place
            cell.outputs = [each for each in cell.outputs if each.get("data") != _GONE]
        for data in _shown(cell):
            for kind, value in data.items():
                if isinstance(value, str) and kind != "image/png":
                    steady = _SESSION.sub("/tmp/fedsim/", value)  # noqa: S108 - what is shown
                    data[kind] = _CELL.sub("cell", steady)
    return notebook


def write(notebook: Notebook, path: Path) -> None:
    """Write a notebook."""
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def shown(notebook: Notebook) -> list[list[dict[str, str]]]:
    """Return the outputs of every cell, except the pixels of figures, which depend on fonts."""
    return [
        [
            {
                kind: "" if kind == "image/png" else _IMAGE.sub("", text)
                for kind, text in data.items()
            }
            for data in _shown(cell)
        ]
        for cell in notebook.cells
    ]


def _shown(cell: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the outputs of a cell, by kind."""
    for output in cell.get("outputs", ()):
        yield output.get("data", output)


def main() -> None:
    """Run all notebooks, or those that are named."""
    names = sys.argv[1:]
    for path in notebooks():
        if not names or path.stem in names:
            write(executed(path), path)
            print(path.relative_to(FOLDER.parent))  # noqa: T201 - a script


if __name__ == "__main__":
    main()
