"""Small studies for the explorer, and their costs by a replay in the simulator."""

import json
import re
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from html import unescape
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.addons.explorer.page import SCRIPTS
from fedsim.core.errors import RunWarning, TheoryWarning
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.runs import gather
from tests.addons.repricing.prices import small

NARROW = {"server": {"uplink": "300 kbit/s", "downlink": "200 kbit/s", "latency": "20 ms"}}
BATTERY = {"capacity": "1 Wh"}
STUDIES: dict[str, dict[str, Any]] = {
    "shared": small(
        "chb", 5, network=NARROW, seeds=2, variants={"chb": {}, "gd": {"algorithm": "gd"}}
    ),
    "silent": small(
        "chb",
        12,
        seeds=2,
        variants={"chb": {"algorithm": {"censor": 10}}, "hb": {"algorithm": "hb"}},
    ),
    "sampled": small("fedavg", 8, participation={"kind": "uniform", "count": 2}),
    "batteries": small(
        "gd",
        5,
        fleet=[
            {"count": 3, "device": "phone-mid", "radio": "lte", "battery": {"charge": "90 %"}},
            {"count": 2, "device": "pi-4", "radio": "wifi", "battery": BATTERY},
        ],
    ),
    "states": small(
        "chb",
        4,
        network={"server": {"uplink": "7 Mbit/s"}},
        fleet=[
            {"count": 2, "device": "phone-mid", "radio": "wifi-6", "carbon": "DE"},
            {"count": 1, "device": "cortex-m4", "radio": "ble", "carbon": "FR"},
            {"count": 2, "device": "cortex-m4", "radio": "nb-iot", "carbon": "DE"},
        ],
    ),
    "two fleets": small(
        "gd",
        4,
        variants={"lte": {}, "wifi": {"fleet": [{"count": 5, "device": "pi-4", "radio": "wifi"}]}},
    ),
}


def run(name: str, folder: Path) -> Path:
    """Run a study in a folder."""
    with warnings.catch_warnings():  # a large threshold, by which clients are silent, is beyond it
        for category in (TheoryWarning, RunWarning):
            warnings.simplefilter("ignore", category)
        return fedsim.run(STUDIES[name], out=folder).folder


def replayed(folder: Path, overrides: Sequence[str], out: Path) -> dict[tuple[str, int], Any]:
    """Return the costs of each run to its target, re-priced by the simulator."""
    result = fedsim.reprice(folder, overrides, out)
    gathered = gather([result.folder])
    rows: list[dict[Any, Any]] = Target.usual(gathered).costs(gathered).to_dict("records")
    return {(row["variant"], row["seed"]): row for row in rows}


# The scripts of a page outside of a browser.

_DRIVER = """
const { readFileSync } = require("fs");
const { scripts, json, block, shares } = JSON.parse(readFileSync(0, "utf8"));
const body = `"use strict"; ${scripts}
  return openStudy(json, block).then((study) => shares.map((row) => {
    const values = study.sliders.map((slider, n) => valueOf(slider, Math.round(STEPS * row[n])));
    const overrides = study.fleets.map((_, fleet) => study.sliders.flatMap((slider, n) =>
      values[n] === slider.value ? [] : slider.keys[fleet].map(
        (key) => `${key}=${override(values[n], slider.unit)}`)));
    return { overrides, costs: evaluate(study, values).costs };
  }));`;
new Function("json", "block", "shares", body)(json, block, shares).then(
  (found) => process.stdout.write(JSON.stringify(found)));
""".replace(
    "`${key}=${override(values[n], slider.unit)}`", "key + '=' + override(values[n], slider.unit)"
)


def part(page: str, name: str) -> str:
    """Return the content of a script of a page that holds data."""
    found = re.search(rf'<script type="[^"]*" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found
    return unescape(found[1])


def data(page: Path) -> dict[str, Any]:
    """Return the data of a page."""
    found: dict[str, Any] = json.loads(part(page.read_text("utf-8"), "data"))
    return found


def priced(page: Path, shares: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """Return what the scripts of a page find at some positions of its sliders, from 0 to 1."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here; the slow tests run the page in a browser")
    folder = resources.files("fedsim.addons.explorer") / "templates"
    text = page.read_text("utf-8")
    given = {
        "scripts": "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS[:-1]),
        "json": part(text, "data"),
        "block": part(text, "block"),
        "shares": [list(row) for row in shares],
    }
    made = subprocess.run(
        [node, "-e", _DRIVER], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(made.stdout)
    return found
