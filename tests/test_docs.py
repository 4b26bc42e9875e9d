"""The pages of the documentation: they build, leave nothing out, and their code runs."""

import json
import os
import re
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.cli import app
from fedsim.core.blocks.registry import kinds_of
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios import CELLULAR, LORA, NB_IOT, RADIOS
from fedsim.problems import LOSSES, SOURCES, SPLITS
from fedsim.results.record.rounds import COLUMNS
from fedsim.results.record.schema import ARROW_SCHEMA, EVENT_NAMES
from fedsim.scenario import load, schema
from fedsim.wire import COMPRESSORS
from tests.conftest import ROOT
from tests.locks import locked
from tests.test_readme import words

DOCS = ROOT / "docs"
SUMMARIES = ROOT / "fedsim/addons/bench/season"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "paper")


def _by_hand(page: Path) -> str:
    """Return a page without what is generated, which quotes the boxes of papers."""
    generated = r"^<!-- generated: .*?^<!-- generated until here -->$"
    return re.sub(generated, "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


EXTRAS = {
    "fedsim run privacy": "privacy",
    "import duckdb": "sql",
    "from flwr_datasets": "flwr-datasets",
    "--track mlflow": "mlflow",
    "--track tensorboard": "tensorboard",
    "--track wandb": "wandb",
}
"""What a block of code needs, by a text in it."""

BLOCKS = [
    pytest.param(
        head,
        body,
        printed,
        id=f"{page.relative_to(DOCS).with_suffix('')}-{number}-{head}",
        marks=[pytest.mark.needs(extra) for text, extra in EXTRAS.items() if text in body],
    )
    for page in PAGES
    for number, (head, body, printed) in enumerate(
        re.findall(
            r"^```(\S+)\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?",
            _by_hand(page),
            flags=re.DOTALL | re.MULTILINE,
        )
    )
]
"""Blocks of code; a block of text that follows commands is a part of what they print."""


CARDS = dict(
    re.findall(
        r"^-   \*\*(.+?)\*\*\n(.*?)(?=^-   |^</div>)",
        (DOCS / "index.md").read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
)
"""The questions of the first page, and the rest of each card."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages, once for all processes of a run; a warning fails the build."""
    temporary = tmp_path_factory.getbasetemp()
    home = temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary
    folder = home / "site"
    with locked(home / "site.lock"):
        if not folder.exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    hushed = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement, not a warning
    done = subprocess.run(
        command, cwd=ROOT, env=hushed, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr


def codes(site: Path, page: str) -> set[str]:
    """Return what stands as code on a built page and those below it, heading by heading."""
    texts = [each.read_text(encoding="utf-8") for each in (site / page).rglob("index.html")]
    return {unescape(code) for text in texts for code in re.findall(r"<code>([^<]*)</code>", text)}


@pytest.mark.slow
def test_what_is_generated_is_up_to_date() -> None:
    command = [sys.executable, str(DOCS / "write.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_formulas_are_set_and_none_is_left_as_tex(site: Path) -> None:
    """They are MathML, which takes no script; what the converter does not know stays TeX."""
    text = (site / "explanation/formulas/index.html").read_text(encoding="utf-8")
    written = (DOCS / "explanation/formulas.md").read_text(encoding="utf-8")
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') == len(
        re.findall(r"^\$\$\n.+?^\$\$$", written, re.DOTALL | re.MULTILINE)
    )
    assert not [each for each in re.findall(r"<math.*?</math>", text, re.DOTALL) if "\\" in each]


@pytest.mark.slow
def test_links_within_tables_lead_to_places_of_the_site(site: Path) -> None:
    """They are HTML, which MkDocs does not look into."""
    found = 0
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"<td>[^\n]*?<a href=\"?([^\s\">]+)", text):
            if "//" in target:
                continue
            place, _, anchor = target.partition("#")
            led = page.parent / place if place else page
            led = led / "index.html" if led.is_dir() else led
            assert led.exists(), f"{page}: {target}"
            assert not anchor or f'id="{anchor}"' in led.read_text(encoding="utf-8"), target
            found += 1
    assert found > len(schema()["properties"]) // 2


def test_every_kind_and_every_preset_has_its_place(site: Path) -> None:
    assert codes(site, "algorithms") >= {kind for each in ALGORITHMS for kind in kinds_of(each)}
    assert codes(site, "compressors") >= {kind for each in COMPRESSORS for kind in kinds_of(each)}
    models = (*LOSSES, *SOURCES, *SPLITS)
    wanted = {kind for each in models for kind in kinds_of(each)}
    assert codes(site, "models") >= wanted | {*DEVICES, *RADIOS, *LORA, *NB_IOT, *CELLULAR}


def test_every_key_of_the_schema_is_in_the_reference(site: Path) -> None:
    document = schema()
    shown = codes(site, "scenario") | codes(site, "compressors")
    assert shown >= set(document["properties"])
    definitions = document["$defs"]
    names = ("Group", "Battery", "ProblemSpec", "Wire", "Compression", "Stop")
    blocks = {name: definitions[name] for name in names}
    for name in ("device", "radio"):
        for number, block in enumerate(definitions["Group"]["properties"][name]["anyOf"]):
            if "enum" not in block:  # a name alone has no keys
                blocks[f"{name} {number}"] = block
    for name, block in blocks.items():
        parts = [block, *block.get("anyOf", [])]
        keys = {key for part in parts for key in part.get("properties", {})}
        assert keys
        assert shown >= keys, name


def test_every_parameter_of_every_method_is_in_the_reference(site: Path) -> None:
    shown = codes(site, "algorithms")
    for model in ALGORITHMS:
        assert shown >= set(model.model_fields) - {"kind"}, model


def test_every_method_has_its_box_and_its_source(site: Path) -> None:
    pages = sorted((site / "algorithms").glob("*/index.html"))
    text = " ".join(page.read_text(encoding="utf-8") for page in pages)
    words = " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())
    for model in ALGORITHMS:
        box = (sys.modules[model.__module__].__doc__ or "").partition("\n")[2]
        for line in filter(str.strip, box.replace("`", "").splitlines()):
            assert " ".join(line.split()) in words, model
        assert model.source.split("`")[0].strip() in words, model


def test_every_column_and_event_of_the_log_is_explained(site: Path) -> None:
    text = (site / "log/index.html").read_text(encoding="utf-8")
    cells = {unescape(cell) for cell in re.findall(r"<td>(?:<code>)?([^<]*)", text)}
    assert cells >= {*ARROW_SCHEMA.names, *EVENT_NAMES}


def test_every_column_of_the_other_tables_is_explained(site: Path, tmp_path: Path) -> None:
    stop = ["variants={}", "stop={rounds: 1}"]
    result = fedsim.run(ROOT / "scenarios/censoring.yaml", out=tmp_path, overrides=stop)
    shown = codes(site, "log")
    assert shown >= set(result.clients.columns)
    assert shown >= COLUMNS


def test_no_anchor_stands_twice(site: Path) -> None:
    for page in site.rglob("index.html"):
        anchors = re.findall(r'<h\d id="([^"]+)"', page.read_text(encoding="utf-8"))
        assert anchors
        assert len(anchors) == len(set(anchors)), page


def test_no_page_asks_the_network_for_anything(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"?([^\s\">]+)", text)
        loaded += re.findall(r"<link[^>]+stylesheet[^>]*href=\"?([^\s\">]+)", text)
        assert loaded
        assert not [each for each in loaded if "//" in each and not each.startswith("data:")], page


def test_links_of_the_sources_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_block_of_code_is_shown_as_one(site: Path) -> None:
    for page in PAGES:
        written = len(re.findall(r"^```\w+$", page.read_text(encoding="utf-8"), re.MULTILINE))
        folder = site / page.relative_to(DOCS).with_suffix("")
        folder = folder.parent if page.stem == "index" else folder
        text = (folder / "index.html").read_text(encoding="utf-8")
        assert len(re.findall(r'<div class="(?:language-\w+ )?highlight', text)) >= written, page
        assert "```" not in text, page


@pytest.mark.slow
@pytest.mark.parametrize(("head", "body", "printed"), BLOCKS)
def test_every_block_of_code_runs(
    head: str, body: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    match head:
        case "python":
            exec(compile(body, "docs", "exec"), {"__name__": "docs"})  # noqa: S102 - our own pages
        case "sh":
            assert_within(printed, commands(_without_grids(body) if printed else _short(body)))
        case "yaml":
            yaml = YAML(typ="safe", pure=True)
            whole, said = yaml.load(ROOT / "scenarios/censoring.yaml"), yaml.load(body)
            assert load(
                said if {"problem", "fleet"} <= set(said) else whole | {"variants": {}} | said
            ).variants
        case "bibtex":
            cited = YAML(typ="safe", pure=True).load(ROOT / "CITATION.cff")
            assert f"version = {{{cited['version']}}}" in body
            assert cited["version"] == fedsim.__version__
        case _:
            pytest.fail(f"nothing runs a block of {head}")


def commands(body: str) -> str:
    """Run commands of fedsim, and return what they print.

    What installs fedsim has to be what the README says, which CI runs.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if f"```sh run\n{body}```" in readme:
        return ""
    printed = ""
    for command in body.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "fedsim"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{command}\n{result.output}"
        printed += result.stdout
    return printed


def _without_grids(body: str) -> str:
    """Shorten sweeps over many seeds, of which no page shows what they print: they take minutes."""
    few = r"\1 seeds=2 --set stop.rounds=3 "
    return re.sub(r"^(.*sweep=.*) seeds=10 ", few, body, flags=re.MULTILINE)


def _short(body: str) -> str:
    """Let runs have three rounds, as those of cards, unless the page says when they end.

    `explore` and `reprice` need a target that a run has reached. An entry of the bench runs on one
    task, which is no whole summary: what is verified is the season's.
    """
    body = re.sub("^(fedsim bench run .*)$", r"\1 --tasks wine-softmax", body, flags=re.MULTILINE)
    body = body.replace("verify runs/bench/", f"verify --sample 1 {SUMMARIES}/")
    if re.search("^fedsim (explore|reprice) ", body, re.MULTILINE):
        return body
    brief = r"^(fedsim run (?!.*\bstop\b).*)$"
    return re.sub(brief, r"\1 --set stop.rounds=3", _without_grids(body), flags=re.MULTILINE)


def assert_within(shown: str, printed: str) -> None:
    """Compare a page's text with what was printed; a line of three dots stands for any lines."""
    lines = words(printed)
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        wanted = words(part)
        places = range(len(lines) - len(wanted) + 1)
        place = next((at for at in places if lines[at : at + len(wanted)] == wanted), None)
        assert place is not None, f"{part}\nis not in\n{printed}"
        lines = lines[place + len(wanted) :]


def test_no_folder_of_runs_is_given_to_two_scenarios() -> None:
    """Commands of README and of all pages can be run in turn: a folder belongs to one scenario."""
    makers: dict[str, set[tuple[str, str]]] = {}
    for page in (ROOT / "README.md", *PAGES):
        for verb, source, options in re.findall(
            r"^ *(?:\S.*&& )?fedsim (run|reprice|live) ([\w/.-]+)(.*)$",
            _by_hand(page),
            flags=re.MULTILINE,
        ):
            out = re.search(r"--out[= ](\S+)", options)
            usual = {"run": source, "live": f"{source}-live", "reprice": f"{source}/repriced"}
            folder = out[1] if out else f"runs/{usual[verb]}"
            makers.setdefault(folder, set()).add((verb, Path(source).stem))
    assert len(makers) > 20
    assert {folder: each for folder, each in makers.items() if len(each) > 1} == {}


def _commands_of(question: str) -> list[str]:
    """Return the commands of a card."""
    (block,) = re.findall(r"^    ```sh\n(.*?)^    ```$", CARDS[question], re.DOTALL | re.MULTILINE)
    return [line.strip() for line in block.splitlines()]


def test_every_card_of_the_first_page_asks_and_leads_on() -> None:
    assert len(CARDS) == 17
    for question, card in CARDS.items():
        assert question.endswith("?")
        assert 1 <= len(_commands_of(question)) <= 3, question
        assert re.fullmatch(r"    \[.+\]\(.+\)", card.rstrip().splitlines()[-1]), question


def _needed(card: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs(extra) for text, extra in EXTRAS.items() if text in card]


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", [pytest.param(name, marks=_needed(card)) for name, card in CARDS.items()]
)
def test_the_commands_of_every_card_run(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rounds of each, in a folder without any scenario."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for command in _commands_of(question):
        program, *arguments = shlex.split(command)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
        else:
            commands(f"{command} --set stop.rounds=3" if arguments[0] == "run" else command)


SOUGHT = (
    "slow device",
    "straggler",
    "deadline",
    "timeout",
    "dropout",
    "client dropout",
    "asynchronous",
    "over-selection",
    "learning rate",
    "client sampling",
    "non-IID",
    "latency",
    "bandwidth",
    "power",
    "energy",
    "privacy",
    "accuracy",
    "epochs",
    "quantization",
    "sparsification",
    "checkpoint",
    "early stopping",
    "GPU",
    "secure aggregation",
    "differential privacy",
    "Byzantine",
    "malicious client",
    "battery",
    "resume",
    "own data",
    "CSV",
    "hierarchical",
    "gossip",
    "carbon",
    "backdoor",
    "distillation",
    "concept drift",
    "cross-silo",
)
"""Words of the field that a reader types into the search."""


@pytest.mark.parametrize("word", SOUGHT)
def test_the_search_finds_the_words_of_the_field(site: Path, word: str) -> None:
    """A heading has the word: the search ranks headings above texts."""
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    found = [each["location"] for each in index["docs"] if word.lower() in each["title"].lower()]
    assert any(not place.startswith("reference/") for place in found), found


MISTAKES = {
    "algoritm.step_size=1": "unknown key 'algoritm'; did you mean 'algorithm'?",
    "fleet.0.radio=lte5": "got \"lte5\"; did you mean 'lte'?",
    "fleet.0.radio={kind: custom}": "missing, and has no default",
    "participation={kind: uniform, count: 20}": "got 20, but the fleet has 10 clients",
    "fleet.0.battery={charge: 0.1 %}": "would never start; give a charge above 20 %",
}
"""Overrides of `censoring`, and their errors as the page on troubleshooting quotes them."""


@pytest.mark.parametrize("override", MISTAKES)
def test_troubleshooting_quotes_errors_as_they_are(override: str) -> None:
    page = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert MISTAKES[override] in page
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.check("censoring", overrides=[override])
    assert MISTAKES[override] in str(caught.value)
