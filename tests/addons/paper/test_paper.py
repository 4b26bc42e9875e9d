"""A paper's texts and tables say what the runs' files say; its folder overwrites no other one."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.addons.paper import write_paper
from fedsim.addons.paper.bibliography import bibtex, of_constants, reference_of, references_in
from fedsim.addons.paper.methods import _step, as_latex, digest, methods, references
from fedsim.addons.paper.settings import settings_table
from fedsim.algorithms import ALGORITHMS
from fedsim.cli import app
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios.presets import RADIOS
from fedsim.problems.data.preprocess import Step
from fedsim.results.analysis import Comparison, paper_tables
from fedsim.results.analysis.compare.pairwise import interval_level
from fedsim.results.analysis.latex import (
    PaperCell,
    PaperColumn,
    PaperTable,
    latex_text,
    result_text,
)
from fedsim.results.analysis.plots.canvas import axes_for, figure_of
from fedsim.results.analysis.saving import save
from fedsim.results.record.regimes import errors_of_models
from fedsim.results.report.page import messages_of
from fedsim.results.report.study import ReportedStudy
from fedsim.wire import COMPRESSORS
from fedsim.wire.feedback import PACKERS
from tests.runs import files, small

TOP_K = {"values": "float32", "up": {"compressor": {"kind": "top-k", "fraction": 0.5}}}
VARIANTS = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}, "top_k": {"wire": TOP_K}}
TARGET = "gap=2e4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("paper") / "out"
    fedsim.run(small(name="a & b_c", variants=VARIANTS, seeds=4, stop={"rounds": 15}), out=out)
    return out


@pytest.fixture(scope="module")
def study(folder: Path) -> ReportedStudy:
    return ReportedStudy(Comparison.of([folder], [TARGET]))


# References.


def test_every_method_and_compressor_has_its_publications() -> None:
    own = {**ALGORITHMS.own, **COMPRESSORS.own, "ef": PACKERS["ef"], "ef21": PACKERS["ef21"]}
    for name, model in own.items():
        found = references_in(model.source)
        assert found or model.source.startswith("fedsim:"), name
        for each in found:
            assert each.authors
            assert len(each.title) > 15, each
            assert re.fullmatch(r"[a-z]+(\d{4})?[a-z0-9]+", each.key), each


def test_a_key_is_of_one_publication() -> None:
    models = [*ALGORITHMS.own.values(), *COMPRESSORS.own.values(), *PACKERS.values()]
    found = [each for model in models for each in references_in(model.source)]
    presets = [*RADIOS.values(), *DEVICES.values()]
    found += [reference_of(doubt.source) for own in presets for doubt in own.doubts.values()]
    titles: dict[str, set[str]] = {}
    for each in found:
        titles.setdefault(each.key, set()).add(each.title)
    assert {key: own for key, own in titles.items() if len(own) > 1} == {}


def test_a_constant_that_the_user_gave_has_no_source_of_the_preset() -> None:
    values = {"kind": "lte", **RADIOS["lte"].values}
    assert [each.authors.split(",")[0] for each in of_constants(values, "radio")] == [
        "Huang",
        "IETF",
    ]
    own = {name: f"{value} " for name, value in values.items()} | {"kind": "lte"}
    assert of_constants(own, "radio") == []


# The paragraph.


def test_the_paragraph_has_the_numbers_of_scenarios_and_manifests(
    study: ReportedStudy, folder: Path
) -> None:
    text = methods(study)
    manifest = json.loads((folder / "base/seed-1/manifest.json").read_text())
    for said in (
        f"fedsim {manifest['versions']['fedsim']}",
        f"Python {manifest['python']}",
        f"numpy {manifest['versions']['numpy']}",
        "4 seeds (1 to 4)",
        "The fleet is 3 phone-mid",
        "2 pi-4",
        "lte (6 Mbit/s up, 13 Mbit/s down, latency 30 ms",
        "tail of 11.6 s",
        "442 samples",
        "float64 values",
        "a beacon",
        "; gd [@",
        "uploads compressed by top-k",
        f"cost to a gap below {float(TARGET[4:]):g}",
        "The 12 runs",
    ):
        assert said in text


def test_each_variant_s_own_settings_are_named_and_defaults_are_not(tmp_path: Path) -> None:
    slow = {"kind": "fedavg", "step_size": 0.001, "local_steps": 2}
    up = {"compressor": {"kind": "top-k", "fraction": "10 %"}, "error_feedback": "ef"}
    variants = {
        "one": {"algorithm": {"local_steps": 1}},
        "sparse": {"wire": {"up": up}},
        "hasty": {"participation": {"kind": "full", "deadline": "1 min"}},
        "hb": {"algorithm": {"kind": "hb", "step_size": "1/L"}},
    }
    fedsim.run(small(algorithm=slow, variants=variants, stop={"rounds": 2}), out=tmp_path)
    text = methods(ReportedStudy(Comparison.of([tmp_path])))
    assert "base runs fedavg [@mcmahan2017communication] with 2 local steps" in text
    assert "; one is base with 1 local step instead of 2;" in text
    assert "; sparse is base with uploads compressed by top-k (fraction 0.1) with error" in text
    assert "; hasty is base with participation deadline " in text
    assert re.search(r"; hb [^;]* with step size 1/L", text)
    assert ", not compressed, unless stated above." in text
    for trivial in ("False", "None", "none", "reset", "[]", "count"):
        assert not re.search(rf"\b{re.escape(trivial)}(?!\w)", text.partition("The model")[0]), text


def _leaves(block: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and value of all that is given in a scenario; a text for a block is its kind."""
    if isinstance(block, dict):
        for key, value in block.items():
            yield from _leaves(value, f"{path}.{key}".lstrip("."))
    elif isinstance(block, list):
        for number, value in enumerate(block):
            yield from _leaves(value, f"{path}.{number}")
    else:
        yield path, str(block)


@pytest.mark.slow
def test_every_value_that_a_scenario_gives_is_in_the_paragraph_or_in_the_table(
    tmp_path: Path,
) -> None:
    given: dict[str, Any] = {
        "problem": {
            "loss": {"kind": "mlp", "hidden": 7},
            "data": {"kind": "sklearn", "name": "iris", "preprocess": ["standardise"]},
            "split": {"kind": "dirichlet", "alpha": 0.3},
            "test": {"fraction": 0.25},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "fedavg", "step_size": 0.3, "local_steps": 3, "batch": 8},
        "wire": {"values": "float64"},
        "fleet": [{"count": 4, "device": "pi-4", "radio": {"kind": "lte", "latency": "41 ms"}}],
        "network": {"server": {"uplink": "9 Mbit/s", "latency": "21 ms"}},
        "participation": {"kind": "uniform", "count": 3},
        "stop": {"rounds": 4, "test_accuracy": 0.999},
        "measures": ["test_accuracy"],
    }
    other = {"algorithm": {"local_steps": 1}, "network": {"server": {"uplink": "3 Mbit/s"}}}
    fedsim.run({**given, "variants": {"one": other}, "seeds": 2}, out=tmp_path)
    study = ReportedStudy(Comparison.of([tmp_path]))
    columns = (column.cells for column in settings_table(study).columns)
    rows = {(who.text, key.text): value.text for who, key, value in zip(*columns, strict=True)}
    for variant, tree in (("base", given), ("one", other)):
        for key, value in _leaves(tree, ""):
            shown = [
                text
                for (who, name), text in rows.items()
                if who in {variant, "all"} and name in {key, f"{key}.kind"}
            ]
            assert shown == [value], key
    # What is left at its default is in no row.
    assert not any(key.startswith(("silence", "problem.penalty", "models")) for _, key in rows)
    assert not any(key.startswith("fleet.0.radio.tail") for _, key in rows)
    text = methods(study)
    for said in (
        "a network with one hidden layer of 7 units",
        "Before training, each feature is scaled to mean 0 and variance 1.",
        "25 % are held out",
        "dirichlet split (alpha 0.3)",
        "3 local steps, batches of 8 and step size 0.3",
        "uniform (count 3)",
        "2 seeds (1 to 2)",
        "rounds 4, test accuracy 0.999",
        "With fewer than 6 seeds",
    ):
        assert said in text


def test_the_digest_is_of_the_logs_in_the_manifests(study: ReportedStudy, folder: Path) -> None:
    lines = ""
    for variant in ("base", "gd", "top_k"):
        for seed in range(1, 5):
            path = folder / variant / f"seed-{seed}" / "manifest.json"
            lines += f"{variant}/seed-{seed} {json.loads(path.read_text())['events']['sha256']}\n"
    own = hashlib.sha256(lines.encode()).hexdigest()
    assert digest(study) == own
    assert own[:16] in methods(study)


def test_what_is_cited_is_in_the_references(study: ReportedStudy) -> None:
    places = re.findall(r"\\cite\{([^}]*)\}", as_latex(methods(study)))
    cited = {key for place in places for key in place.split(",")}
    entries = set(re.findall(r"@\w+\{([^,]+),", bibtex(references(study))))
    assert cited <= entries
    assert {"fedsim", "huang2012close", "chenheavy"} <= cited
    assert "aji2017sparse" in entries  # of a variant's compressor


# Tables.


def costs(study: ReportedStudy) -> PaperTable:
    return next(each for each in paper_tables(study.comparison) if each.name == "costs")


def test_numbers_of_a_table_are_means_and_intervals_in_the_unit_of_their_head(
    study: ReportedStudy,
) -> None:
    table = study.comparison.cases[0].table
    for column in costs(study).columns[1:]:
        name, prefix = re.fullmatch(r"(\w+)(?: \((\W|[kMm]?)(?:bit|s|J)\))?", column.head).groups()  # type: ignore[union-attr]
        cost = {"Rounds": "round", "Bits": "bits", "Time": "t", "Energy": "joules"}[name]
        factor = {"k": 1e3, "M": 1e6, "m": 1e-3}.get(prefix or "", 1.0)
        for cell, row in zip(column.cells, table.to_dict("records"), strict=True):
            digits = 0.6 * 10.0 ** -len(cell.text.partition(".")[2])
            assert float(cell.text) == pytest.approx(row[cost] / factor, abs=digits)
            ends = row[f"{cost}_low"] / factor, row[f"{cost}_high"] / factor
            if ends[0] < ends[1]:
                shown = tuple(map(float, re.findall(r"[\d.]+", cell.under)))
                assert shown == pytest.approx(ends, abs=digits)
            else:
                assert cell.under == ""


def test_the_lowest_cost_is_bold_and_so_are_its_ties(study: ReportedStudy) -> None:
    case = study.comparison.cases[0]
    column = next(each for each in costs(study).columns if each.head.startswith("Bits"))
    names = case.table["variant"].tolist()
    first = case.decisions.rank("bits")[0]
    for name, cell in zip(names, column.cells, strict=True):
        tied = name == first or case.decisions.pair(name, first, "bits").order <= 0
        assert cell.best is tied
    bold = sum(cell.best for own in costs(study).columns for cell in own.cells)
    assert costs(study).latex().count(r"\bfseries") == bold


def test_every_row_has_as_many_cells_as_there_are_columns(study: ReportedStudy) -> None:
    for table in paper_tables(study.comparison, columns=2):
        body = table.latex().partition(r"\midrule")[2].partition(r"\bottomrule")[0]
        for row in body.strip().splitlines():
            assert len(re.findall(r"(?<!\\)&", row)) == len(table.columns) - 1
        for line in table.markdown().splitlines()[2:]:
            assert len(re.findall(r"(?<!\\)\|", line)) == len(table.columns) + 1


def test_what_others_wrote_is_no_command() -> None:
    strange = "\N{GREEK SMALL LETTER MU} \N{CJK UNIFIED IDEOGRAPH-4E2D}"
    text = latex_text(f"50 % of a_b & {{c}} \\d $x^2$ ~ # {strange}")
    assert re.search(r"(?<!\\)[%_&#$]", text) is None
    assert r"\texttt{U+4E2D}" in text


@pytest.mark.slow
def test_what_others_wrote_is_no_html_in_any_page(tmp_path: Path) -> None:
    out = tmp_path / "<b>\n<i> -->"
    strange = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    fedsim.run(small(name="a <img src=x> b", variants=strange, stop={"rounds": 2}), out=out)
    pages = [*write_paper(out, tmp_path / "paper", formats=["svg"]).rglob("*.md")]
    lines = [line for page in pages for line in page.read_text().splitlines()]
    assert any(r"a \<img src=x\> b" in line for line in lines)
    assert "; gd [@" in " ".join(lines)
    for line in lines:
        is_code = line.startswith("    ")  # of which nothing is markup
        assert is_code or not re.search(r"(?<!\\)<", re.sub(r"`[^`]*`", "", line)), line


# The folder.


@pytest.mark.slow
def test_the_same_call_writes_the_same_files_and_another_one_another_folder(folder: Path) -> None:
    first = write_paper(folder, formats=["svg"], targets=[TARGET])
    before = files(first)
    assert first.name == "paper"
    assert write_paper(folder, formats=["svg"], targets=[TARGET]) == first
    assert files(first) == before
    done = CliRunner().invoke(app, ["paper", str(folder), "--style", "acm", "--formats", "svg"])
    assert done.exit_code == 0, done.output
    assert "paper-2" in done.output.replace("\n", "")
    assert files(first) == before
    assert write_paper(folder, first, style="nature", formats=["svg"]).name == "paper-3"
    assert files(first) == before
    (first / "main.tex").write_text("edited")
    assert write_paper(folder, formats=["svg"], targets=[TARGET]).name == "paper-4"
    assert (first / "main.tex").read_text() == "edited"
    width = re.findall(r'width="([\d.]+)pt"', (first / "figures/curves-bits.svg").read_text())[0]
    assert float(width) == pytest.approx(3.5 * 72)


@pytest.mark.slow
def test_files_of_others_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "main.tex").write_text("mine")
    assert write_paper(folder, tmp_path / "mine", formats=["svg"]) == tmp_path / "mine-2"
    assert files(tmp_path / "mine") == {"main.tex": b"mine"}


def test_what_no_style_or_format_is_called_is_refused_before_anything_is_written(
    folder: Path,
) -> None:
    for options, text in (
        (["--style", "iee"], "did you mean 'ieee'?"),
        (["--formats", "pdf,bmp"], "got 'bmp'; expected one of the formats"),
        (["--target", "gapp=1"], "no run has evaluated 'gapp'"),
    ):
        done = CliRunner().invoke(app, ["paper", str(folder), "--out", str(folder / "x"), *options])
        assert done.exit_code == 2
        assert text in " ".join(done.output.split())
    assert not (folder / "x").exists()


WRONG = re.compile(r"Warning|^!|Overfull|Underfull|badness 10000|undefined", re.MULTILINE)
PACKAGES = "texlive-latex-recommended, texlive-pictures, texlive-science"
HINT = f"there is no pdflatex here: install Debian's {PACKAGES}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "columns", "form"),
    [("ieee", 1, "pdf"), ("nature", 2, "pdf"), ("acm", 1, "png"), ("neurips", 1, "pgf")],
)
def test_it_is_typeset_without_a_warning(
    folder: Path, tmp_path: Path, style: str, columns: int, form: str
) -> None:
    """Typeset the preview; DejaVu, STIX and our own texts are all that it needs.

    No setting keeps TeX from reporting loose lines.
    """
    if shutil.which("pdflatex") is None:
        pytest.skip(HINT)
    facts: Any = {"style": style, "columns": columns, "formats": [form], "targets": [TARGET]}
    out = write_paper(folder, tmp_path / "paper", **facts)
    assert "badness" not in (out / "main.tex").read_text()
    for program in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        options = ["-interaction=nonstopmode", "-halt-on-error"] * (program == "pdflatex")
        called = [program, *options, "main"]
        done = subprocess.run(called, cwd=out, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
        if program == "bibtex":
            assert b"Warning" not in done.stdout
    log = (out / "main.log").read_text(encoding="latin-1")
    assert WRONG.findall(log) == []
    assert b"/Type3" not in (out / "main.pdf").read_bytes()


@pytest.mark.slow
def test_a_name_with_letters_that_tex_takes_for_commands_is_in_a_pgf_figure(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip(HINT)
    axis = axes_for(None, "ieee")
    axis.imshow([[0, 1]])
    axis.set_title("A & B #1 ~ a_b 5 %, $10^{-1}$")
    save(figure_of(axis), tmp_path / "map.pgf")
    lines = (
        r"\documentclass{article}",
        r"\usepackage{pgf}",
        r"\begin{document}",
        r"\input{map.pgf}",
    )
    (tmp_path / "main.tex").write_text("\n".join([*lines, r"\end{document}"]))
    called = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main"]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_a_table_wider_than_its_column_is_scaled_to_it() -> None:
    table = PaperTable("costs", "Below 1e-05.", [PaperColumn("Gap", [PaperCell("1")])])
    assert r"\ifdim\wd0>\linewidth\resizebox{\linewidth}" in table.latex()
    assert r"\caption{Below \ensuremath{10^{-5}}.}" in table.latex()


def test_small_results_keep_their_digits_and_a_column_that_aligns_them() -> None:
    cells = [PaperCell(result_text(value, 4, 1.2e-10)) for value in (2.679e-5, 1.236e-10, 0.5)]
    assert [cell.text for cell in cells] == ["2.68e-5", "1.24e-10", "5.00e-1"]
    table = PaperTable("results", "Results.", [PaperColumn("Gap", cells)])
    assert "S[table-format=1.2e-2]" in table.latex()
    assert "\n2.68e-5 \\\\\n1.24e-10 \\\\\n" in table.latex()


def test_every_step_of_preprocessing_has_a_sentence() -> None:
    words, *blocks = get_args(Step)
    numbers = {field: 3 for block in blocks for field in block.model_fields}
    for step in (*get_args(words), *({field: value} for field, value in numbers.items())):
        assert " " in _step(step)


# Levels of intervals, splits, and errors of models.


def test_an_interval_of_few_seeds_is_stated_at_its_own_level(study: ReportedStudy) -> None:
    """Table and paragraph have the level that the comparison computes for four seeds."""
    (pairs,) = [each for each in paper_tables(study.comparison) if each.name == "pairs"]
    level = f"{interval_level(study.comparison.confidence, 4):g} %"
    assert level != f"{100 * study.comparison.confidence:g} %"
    assert f"{level} intervals (as of fewer than 6 seeds)" in pairs.caption
    assert f"{100 * study.comparison.confidence:g} % interval" not in pairs.caption
    assert f"ratios with its {level} interval" in methods(study)


def test_the_paragraph_has_a_default_split_and_the_errors_that_check_states(tmp_path: Path) -> None:
    problem = {**small()["problem"], "split": {"kind": "dirichlet", "alpha": 0.5}}
    fedsim.run(small(problem=problem, stop={"rounds": 3}, seeds=2), out=tmp_path)
    study = ReportedStudy(Comparison.of([tmp_path]))
    text = methods(study)
    assert "by the dirichlet split (alpha 0.5)" in text
    first = study.first
    messages = messages_of(first.rows(study.rounds))
    world = first.scenario["network"], first.scenario["fleet"], messages
    stated = [
        error
        for _, said in errors_of_models(*world, brief=True)
        for error in re.findall(r"[\d.]+ %", said)
    ]
    (sentence,) = re.findall(r"Transfer times of the fluid model [^.]*\.[^.]*\.", text)
    assert re.findall(r"[\d.]+ %", sentence) == stated != []
