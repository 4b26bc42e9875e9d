"""A run is known by the files that its scenario names: an edited one is another scenario."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.results.record.manifest import INPUTS, read_manifest
from fedsim.scenario import load
from fedsim.scenario.building.inputs import Inputs
from tests.runs import small

Change = Callable[[Path], None]

GRAPH = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="r" for="edge" \
attr.name="rate" attr.type="string"/><graph edgedefault="undirected">{}</graph></graphml>'
EDGE = '<edge source="server" target="client-{}"><data key="r">{} kbit/s</data></edge>'


def rates(path: Path, mbits: float) -> None:
    path.write_text(f"seconds,mbit/s\n0,{mbits}\n", encoding="utf-8")


def power(path: Path, watts: float) -> None:
    path.write_text(f"seconds,watts\n0,{watts}\n", encoding="utf-8")


def presence(path: Path, until: float) -> None:
    path.write_text(f"client,start,end\n0,0,{until}\n1,0,1000\n", encoding="utf-8")


def graph(path: Path, rate: float) -> None:
    edges = "".join(EDGE.format(number, rate) for number in range(2))
    path.write_text(GRAPH.format(edges), encoding="utf-8")


def signals(path: Path, seed: float) -> None:
    np.savez(path, signals=np.random.default_rng(int(seed)).standard_normal((20, 10)))


DEVICE = {"kind": "custom", "speed": "1 Mflop/s", "active": "1 W", "idle": "0 W"}


def fleet(**changes: Any) -> dict[str, Any]:
    return {"fleet": [{"count": 2, "device": DEVICE, "radio": "wifi"} | changes]}


FILES: dict[str, tuple[Callable[[Path, float], None], tuple[float, float], dict[str, Any]]] = {
    "rates.csv": (
        rates,
        (1, 0.1),
        fleet(radio={"kind": "wifi", "up_trace": {"kind": "csv", "path": "rates.csv"}}),
    ),
    "presence.csv": (
        presence,
        (1000, 0.001),
        fleet(availability={"kind": "intervals", "path": "presence.csv"}),
    ),
    "power.csv": (
        power,
        (1, 2),
        fleet(
            battery={
                "capacity": "1 Wh",
                "charge": "50 %",
                "charging": {"kind": "harvest", "path": "power.csv"},
            },
        ),
    ),
    "graph.graphml": (
        graph,
        (10, 1),
        fleet() | {"network": {"topology": "graph", "path": "graph.graphml"}},
    ),
    "signals.npz": (
        signals,
        (1, 2),
        {
            "algorithm": {
                "kind": "fedgradmp",
                "sparsity": 2,
                "dictionary": {"kind": "k-svd", "columns": 10, "path": "signals.npz"},
            }
        },
    ),
}


def scenario(folder: Path, changes: dict[str, Any]) -> Path:

    path = folder / "one.yaml"
    path.write_text(json.dumps(small(**{"stop": {"rounds": 2}} | changes)), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_run_whose_file_was_edited_is_made_again(name: str, tmp_path: Path) -> None:
    write, (before, after), changes = FILES[name]
    write(tmp_path / name, before)
    source = scenario(tmp_path, changes)

    def made() -> tuple[int, dict[str, str], str]:
        run = fedsim.run(source, out=tmp_path / "out").runs[0]
        manifest = read_manifest(run)
        return run.joinpath("summary.json").stat().st_mtime_ns, manifest[INPUTS], manifest["seal"]

    first = made()
    assert list(first[1]) == [name]
    assert made() == first  # kept as it is
    write(tmp_path / name, after)
    again = made()
    assert again[1] != first[1]
    assert again[0] > first[0]


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_a_scenario_names_is_hashed_wherever_it_is_named(
    name: str, tmp_path: Path
) -> None:
    write, (before, _), changes = FILES[name]
    write(tmp_path / name, before)
    (variant,) = load(scenario(tmp_path, changes)).variants
    content = tmp_path.joinpath(name).read_bytes()
    hashes = Inputs(tmp_path).hashes(variant.scenario)
    assert hashes == {name: hashlib.sha256(content).hexdigest()}
