"""Neither the files of a run nor its models hold a reply's value, whatever the protocol."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.ports import Array
from fedsim.protocol.secrecy.client import SecretClient
from tests.algorithms.local_loops import local, told
from tests.runs import small

pytestmark = pytest.mark.needs("secrecy")

PROTOCOLS: dict[str, dict[str, Any]] = {
    "secagg": {"kind": "secagg"},
    "checked": {"kind": "secagg", "consistency": True},
    "secagg+": {"kind": "secagg+", "neighbours": 4},
    "lightsecagg": {"kind": "lightsecagg"},
    "union": {"kind": "secagg", "supports": "union"},
    "grouped": {"kind": "secagg", "silence": "grouped", "group": 3},
    "masked": {"kind": "secagg+", "neighbours": 4, "silence": "mask"},
}


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[tuple[Array, Array]]]:
    """Return the vectors that clients pack in each exchange, before and after the rounding."""
    kept, pack = defaultdict[int, list[tuple[Array, Array]]](list), SecretClient.pack

    def keeping(client: Any, vector: Array, *args: Any, **options: Any) -> Any:
        packed = pack(client, vector, *args, **options)
        kept[client._run].append((np.array(vector), np.array(packed.values)))
        return packed

    monkeypatch.setattr(SecretClient, "pack", keeping)
    return kept


def numbers(folder: Path) -> set[float]:
    """Return all numbers in the tables of a run, also those in lists."""
    found: set[float] = set()
    for path in folder.rglob("*.parquet"):
        table = pd.read_parquet(path)
        for name in table:
            cells = table[name].dropna()
            if cells.map(np.ndim).any():
                found.update(np.concatenate(cells.tolist()).astype(float).tolist())
            elif pd.api.types.is_numeric_dtype(cells):
                found.update(cells.astype(float).tolist())
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_reply_can_be_had_from_the_files_or_the_models(
    protocol: str, replies: dict[int, list[tuple[Array, Array]]], tmp_path: Path
) -> None:
    """A step of the model is a sum of all replies, and no multiple of a single one."""
    scenario = small(
        algorithm={"kind": "chb", "step_size": "0.2/L", "momentum": 0.0},
        secrecy=PROTOCOLS[protocol] | {"values": "exact", "clip": 1e5, "bits": 24},
        fleet=[{"count": 9, "device": "phone-mid", "radio": "lte"}],
        models={"every": 1},
        stop={"rounds": 6},
    )
    result = fedsim.run(scenario, out=tmp_path, check=False)
    every = [part for sent in replies.values() for pair in sent for part in pair]
    values = {float(value) for vector in every for value in vector.ravel()} - {0.0}
    assert len(values) > 200
    assert not values & numbers(tmp_path)
    models = np.vstack([np.zeros(10), np.array(result.models["model"].tolist())])
    steps = np.diff(models, axis=0)
    for step in steps[np.abs(steps).max(axis=1) > 0]:
        for vector in every:
            cosine = step @ vector / np.linalg.norm(step) / np.linalg.norm(vector)
            assert abs(cosine) < 1 - 1e-9


@pytest.mark.parametrize("least", [1, 2, 3])
def test_only_coordinates_of_enough_contributors_are_sent(
    least: int, replies: dict[int, list[tuple[Array, Array]]], tmp_path: Path
) -> None:
    """A step is the weighted sum of the packed vectors, without coordinates of too few clients;
    a masked vector has the others, and its client's weight."""
    problem = local(tmp_path)
    seen = told(
        problem,
        {"kind": "fedavg", "step_size": 0.05, "local_steps": 3},
        tmp_path,
        secrecy={
            "kind": "secagg",
            "values": "exact",
            "clip": 4.0,
            "bits": 24,
            "supports": "union",
            "contributors": least,
        },
        wire={"values": "float64", "up": {"compressor": {"kind": "top-k", "count": 2}}},
    )
    sent = [row for row in seen.events if (row["event"], row["message"]) == ("send", "maskedinput")]
    masked = iter([row["payload_bits"] for row in sent])
    w, counts = np.zeros(problem.dimension), list[int]()
    for number, model in enumerate(seen.run.models, 1):
        packed = np.array([values for _, values in replies[number]])
        contributors = (packed != 0).sum(axis=0)
        step = problem.weights @ (packed * (contributors >= least))
        assert model - w == pytest.approx(step, abs=1e-6)
        w = model
        kept = int((contributors >= least).sum())
        assert {next(masked) for _ in packed} == {27 * (kept + 1)}  # 5 (2^24 - 1) + 1: 27 bits
        counts += contributors[contributors > 0].tolist()
    assert {1, 2, 3} <= set(counts)


@pytest.mark.parametrize("values", ["counted", "exact"])
def test_no_coordinate_with_enough_contributors_is_no_step(values: str) -> None:
    """No client has more than three of ten coordinates, and no coordinate is in all supports."""
    problem = small()["problem"] | {"weights": "equal"}
    scenario = small(
        problem=problem,
        algorithm={"kind": "fedavg", "step_size": 0.001},
        secrecy={"kind": "secagg", "supports": "union", "contributors": 6, "values": values},
        wire={"up": {"compressor": {"kind": "top-k", "count": 3}}},
        stop={"rounds": 3},
    )
    result = fedsim.run(scenario, check=False)
    assert not result.model().any()
    assert result.rounds["secrecy_dropouts"].iloc[-1] == 0
