"""Notebooks as pages of the site: nbconvert writes them as Markdown, which the theme shows.

A link to `tutorials/NAME.ipynb` leads to the page in the site, and to the notebook in a repository.
"""

import re
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter
from notebooks import INSTALL

_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.DOTALL)
_BADGE = re.compile(r"\[!\[([^]]*)\]\([^)]*\)\]")
_FRAME = re.compile(r'<div>\s*<table border="1" class="dataframe">')


class NotebookPage(File):
    """A notebook that MkDocs takes for a page."""

    def is_documentation_page(self) -> bool:
        """Return True: it becomes a page, and is not copied."""
        return True

    @cached_property
    def exported(self) -> tuple[str, dict[str, bytes]]:
        """The notebook as Markdown, and its figures by name."""
        notebook = nbformat.read(str(self.abs_src_path), as_version=4)  # type: ignore[no-untyped-call]
        notebook.cells = [cell for cell in notebook.cells if cell.get("id") != INSTALL]
        stem = Path(self.src_uri).stem
        names = {"output_files_dir": stem, "unique_key": stem}
        text, resources = _exporter().from_notebook_node(notebook, resources=names)
        return _tables(text), resources["outputs"]

    @property
    def content_string(self) -> str:
        """The Markdown of the page."""
        head, _, rest = self.exported[0].lstrip().partition("\n")
        # A page of the site loads nothing from elsewhere, so badges are words there.
        rest = _BADGE.sub(r"[\1]", rest).replace(")\n[Open", "),\n[Open")
        said = f"This page is a notebook: `docs/{self.src_uri}`."
        return f"{head}\n\n{said}\n{rest}"


def with_notebooks(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of a site, with notebooks as pages and their figures beside them."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            files.remove(file)
            page = NotebookPage(
                file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls
            )
            files.append(page)
            for name, content in page.exported[1].items():
                uri = (Path(file.src_uri).parent / name).as_posix()
                files.append(File.generated(config, uri, content=content))
    return files


def _exporter() -> Any:
    exporter = MarkdownExporter()
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    return exporter


def _tables(text: str) -> str:
    """Return Markdown whose tables look like those of other pages, and scroll."""
    return _FRAME.sub('<div class="frame">\n<table>', _STYLE.sub("", text))
