"""The paper for the Journal of Open Source Software: its limits, references and figures."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT

FOLDER = ROOT / "docs/paper"
PAPER = (FOLDER / "paper.md").read_text(encoding="utf-8")
HEAD, BODY = PAPER.removeprefix("---\n").split("\n---\n", 1)
BIBLIOGRAPHY = (FOLDER / "paper.bib").read_text(encoding="utf-8")
CITED = set(re.findall(r"@([\w-]+)", BODY))

REQUIRED = (
    *("Summary", "Statement of need", "State of the field", "Software design"),
    *("Research impact statement", "AI usage disclosure", "Acknowledgements"),
)
FEWEST, MOST = 750, 1750
"""Words that the journal accepts."""


def test_it_has_the_sections_and_the_length_that_the_journal_asks_for() -> None:
    assert tuple(re.findall(r"^# (.+)$", BODY, re.MULTILINE)) == REQUIRED
    text = re.sub(r"<!--.*?-->", "", BODY, flags=re.DOTALL)
    assert FEWEST <= len(re.findall(r"\w[\w.,'%-]*", text)) <= MOST
    assert all(text.partition(f"# {name}\n")[2].strip() for name in REQUIRED)


def test_its_head_has_what_the_journal_reads() -> None:
    head = YAML(typ="safe", pure=True).load(HEAD)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(head)
    known = {str(place["index"]) for place in head["affiliations"]}
    assert all(str(author["affiliation"]) in known for author in head["authors"])


def test_every_citation_is_in_the_bibliography_and_cited() -> None:
    entries = re.findall(r"^@(\w+)\{([\w-]+),", BIBLIOGRAPHY, re.MULTILINE)
    assert {name for _, name in entries} == CITED
    for block in re.split(r"^@", BIBLIOGRAPHY, flags=re.MULTILINE)[1:]:
        assert re.search(r"^  title +=", block, re.MULTILINE)
        assert re.search(r"^  author +=", block, re.MULTILINE)
        assert re.search(r"^  year +=", block, re.MULTILINE)
        kind = block.partition("{")[0]
        place = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}
        assert place.get(kind, "url") in block
    assert all(
        re.fullmatch(r"10\.\d{4,}/\S+", each)
        for each in re.findall(r"doi +=.*\{(.+)\}", BIBLIOGRAPHY)
    )


def test_its_figures_are_there_and_named_in_the_text() -> None:
    figures = re.findall(r"^!\[.*\\label\{(fig:\w+)\}\]\(([^)]+)\)", BODY, re.MULTILINE)
    assert len(figures) == 2
    for label, path in figures:
        assert (FOLDER / path).is_file()
        assert rf"\autoref{{{label}}}" in BODY


@pytest.mark.slow
def test_its_own_command_makes_it(tmp_path: Path) -> None:
    if shutil.which("pandoc") is None or shutil.which("pdflatex") is None:
        pytest.skip(
            "pandoc or pdflatex is not here: apt-get install pandoc texlive-latex-recommended"
        )
    (command,) = re.findall(r"^    (pandoc paper\.md .+)$", BODY, re.MULTILINE)
    words = command.replace("paper.pdf", str(tmp_path / "paper.pdf")).split()
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # a citation that is unknown is a warning
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
