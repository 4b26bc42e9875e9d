"""The page's radio against the law of stages, by a table of cases that Python writes."""

import json
import shutil
import subprocess
from importlib import resources
from math import inf
from typing import Any

import numpy as np
import pytest

from fedsim.physics.radios import RadioStage
from fedsim.physics.radios.stages import connect

CASES = 400

_DRIVER = """
const { readFileSync } = require("fs");
const { script, cases } = JSON.parse(readFileSync(0, "utf8"));
const body = `"use strict"; ${script}
  const size = cases.length;
  const scratch = scratchOf(size);
  const way = { rate: 1, perBit: 0, power: 0 };
  scratch.cohort = cases.map((row) => ({ ...row, up: { ...way, latency: row.latency } }));
  const ready = cases.map((row) => row.ready);
  const active = cases.map((row) => row.active === null ? -Infinity : row.active);
  const spent = new Float64Array(size);
  const fleet = { stateful: true, up: { contended: false } };
  const began = leg(fleet, "up", scratch, null, ready, active, spent);
  return [Array.from(began), Array.from(spent)];`;
process.stdout.write(JSON.stringify(new Function("cases", body)(cases)));
"""


def test_a_message_wakes_a_radio_of_the_page_as_the_law_says() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here; test_browser runs the page")
    rng = np.random.default_rng(1)
    names = "tailPower", "tailTime", "promotionPower", "promotionTime", "latency", "ready"
    # Few values, so that messages come at the very end of a tail, and tails last no time.
    drawn = rng.integers(0, 5, (CASES, len(names))).astype(float).tolist()
    cases: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in drawn]
    for case in cases:
        seen, before = rng.random() < 0.8, float(rng.integers(0, 8))
        case["active"] = case["ready"] - before if seen else None
    script = resources.files("fedsim.addons.explorer") / "templates/recursion.js"
    table = json.dumps({"script": script.read_text("utf-8"), "cases": cases})
    made = subprocess.run(
        [node, "-e", _DRIVER], input=table, capture_output=True, text=True, check=True
    )
    for case, began, spent in zip(cases, *json.loads(made.stdout), strict=True):
        stages = (
            RadioStage(case["tailPower"], case["tailTime"]),
            RadioStage(wake_time=case["promotionTime"], wake_power=case["promotionPower"]),
        )
        rests = case["active"] is None
        since = -inf if rests else case["active"]
        now, since, joules = connect(stages, int(rests), since, case["ready"], False)
        flows = now + case["latency"]
        assert began == flows, case
        assert spent == joules + case["tailPower"] * (flows - since), case
