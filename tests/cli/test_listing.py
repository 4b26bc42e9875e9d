"""What `fedsim list` shows: an overview, a table, one block with an example that can be read."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import TypeAdapter
from rich.text import Text
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from fedsim.cli import app, describe
from fedsim.cli.describe import as_written, example
from fedsim.core.blocks.catalogue import NOTHING_GIVEN
from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.spec import KindFirst
from fedsim.core.tables import as_text
from fedsim.scenario import Scenario
from fedsim.scenario.registries import REGISTRIES
from tests.conftest import ROOT
from tests.tiers import every

BLOCKS = [
    pytest.param(registry, model, name, id=f"{registry.name}-{name}")
    for registry in REGISTRIES
    for model in registry
    for name in registry.names_of(model)
]
TABLES = [title.replace(" ", "-") for title, _ in describe.listings()]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["list", *arguments])


def test_without_an_argument_there_is_an_overview_of_one_screen() -> None:
    result = invoke()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) <= 37
    assert max(map(len, lines)) <= 100
    named = {line.split()[0] for line in lines if line.strip()}
    assert named >= set(TABLES)
    assert "and 42 more" in result.stdout
    assert "fedsim list TABLE NAME" in result.stdout


@every(("registry", "model", "name"), BLOCKS)
def test_every_block_has_an_example_that_can_be_read(registry: Any, model: Any, name: str) -> None:
    block = YAML(typ="safe", pure=True).load(as_written(example(name, model, registry)))
    reader: TypeAdapter[Any] = TypeAdapter(Annotated[Any, OneOf(registry)])
    read = reader.validate_json(json.dumps(block), strict=True)
    assert type(read) is model
    assert getattr(read, registry.key) == name


def test_one_block_is_shown_with_source_parameters_and_an_example() -> None:
    result = invoke("algorithms", "scaffold")
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert words.startswith("scaffold: SCAFFOLD: local steps corrected by")
    assert "source: Karimireddy et al.: SCAFFOLD" in words
    for key in ("local_steps", "batch", "step_size", "server_rate"):
        assert key in words
    assert "step_size required the clients' step size" in words
    assert "server_rate 1 eta_g, the server's step size" in words
    assert words.endswith("in a scenario: algorithm: {kind: scaffold, step_size: 1/L}")
    assert max(map(len, result.stdout.splitlines())) <= 100


@every(
    ("table", "name", "words"),
    [
        ("radios", "wifi", "up 20 Mbit/s rate from the client"),
        ("devices", "pi-4", "source: "),
        ("device-kinds", "pi-4", "source: "),
        ("penalties", "l1", "in a scenario: problem: {penalty: {kind: l1"),
        ("packet-losses", "gilbert-elliott", "h 0 % share of packets delivered in the bad state"),
        ("silence", "beacon", "no parameters in a scenario: silence: beacon"),
        ("neighbours-of-peers", "random", "degree: 3"),
    ],
)
def test_blocks_of_any_table_are_shown(table: str, name: str, words: str) -> None:
    result = invoke(table, name)
    assert result.exit_code == 0, result.output
    assert words in " ".join(result.stdout.split())


@every(
    ("table", "words"),
    [
        ("radios", "energy_up 438.39 mW/(Mbit/s) 300 to 640 [meas] Huang et al. 2012"),
        ("radios", "ideal up unlimited down unlimited ble"),
        ("devices", "kappa 1e-28 3e-29 to 1e-27 [lit] Tran et al. 2019"),
        ("devices", "European Commission 2023 pi-5 speed 30 Gflop/s 23 to 38 [meas]"),
        ("citations", "Huang et al. 2012 Huang, Qian, Gerber, Mao, Sen, Spatscheck,"),
    ],
)
def test_a_preset_s_figures_have_an_interval_a_basis_and_a_source(table: str, words: str) -> None:
    result = invoke(table)
    assert result.exit_code == 0, result.output
    assert words in " ".join(result.stdout.split())


def test_a_preset_is_shown_with_what_is_known_of_its_figures() -> None:
    words = " ".join(invoke("radios", "lte").stdout.split())
    assert "tail_time 11.6 s 5 to 13 [meas] Huang et al. 2012" in words
    assert "doi 10.1145/2307636.2307658" in words
    assert "well known" not in " ".join(invoke("radios", "ideal").stdout.split())


@pytest.mark.slow
@every("table", ["devices", "radios"])
@every("width", [80, 120])
def test_a_narrow_terminal_names_every_row(table: str, width: int) -> None:
    lines = as_text(dict(describe.listings())[table], width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("energy_up" in line or "active" in line for line in lines) >= 5
    assert sum("Huang et al. 2012" in line or "Geerling 20" in line for line in lines) >= 5


def test_figures_are_listed_with_their_intervals_and_where_they_come_from() -> None:
    heads = ["preset", "figure", "value", "90 % interval", "basis", "source"]
    tables = dict(describe.listings())
    for table in ("devices", "radios", "countries", "infrastructure"):
        columns = tables[table].columns
        assert [column.header for column in columns] == heads
        bases = {str(cell).strip("\\[]") for cell in columns[heads.index("basis")].cells}
        assert bases <= {"meas", "lit", "est", ""}


@pytest.mark.slow
@every("registry", REGISTRIES)
def test_an_example_stands_below_a_key_of_a_scenario(registry: Any) -> None:
    table = registry.title or registry.several
    for name in (name for model in registry for name in registry.names_of(model)):
        *_, last = describe.block_lines(table, name, NOTHING_GIVEN)
        place, _, rest = str(last).removeprefix("in a scenario: ").partition(":")
        assert place in Scenario.model_fields
        assert name in rest


def test_keys_are_listed_with_the_kind_first_and_inherited_ones_last() -> None:
    class Base(KindFirst):
        shared: int = 1

    class Special(Base):
        own: int = 2
        kind: Literal["special"] = "special"

    assert [*Special.model_fields] == ["kind", "own", "shared"]
    assert Special(shared=3).model_dump() == {"kind": "special", "own": 2, "shared": 3}


def test_a_block_that_there_is_not_is_one_line_with_the_nearest() -> None:
    result = invoke("algorithms", "scafold")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean 'scaffold'?" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_class_without_a_docstring_is_listed_with_that_of_its_base(tmp_path: Path) -> None:
    lines = (
        "from typing import Literal",
        "from fedsim.problems import Squared",
        "class Mine(Squared):",
        "    kind: Literal['mine'] = 'mine'",
    )
    (tmp_path / "mine.py").write_text("\n".join(lines))
    result = invoke("losses", "--plugin", str(tmp_path / "mine.py"))
    assert result.exit_code == 0, result.output
    assert "mine" in result.stdout


@pytest.mark.slow
@every("title", ["devices", "radios", "countries", "citations"])
def test_the_page_of_the_models_has_every_figure_and_every_citation_that_is_listed(
    title: str,
) -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"<tr>(.*?)</tr>", page, flags=re.DOTALL)
    shown = {
        tuple(
            unescape(re.sub("<[^>]*>", "", cell))
            for cell in re.findall(r"<t[dh]>(.*?)</t[dh]>", row, flags=re.DOTALL)
        )
        for row in rows
    }
    listed = dict(describe.listings())[title]
    columns = [
        [str(column.header), *(Text.from_markup(str(cell)).plain for cell in column.cells)]
        for column in listed.columns
    ]
    lines = [*zip(*columns, strict=True)]
    assert len(lines) > 10
    assert [line for line in lines if line not in shown] == []
