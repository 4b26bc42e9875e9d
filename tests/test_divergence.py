"""A client whose numbers stop being finite ends the run: named with its round, the log kept."""

import re
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import FedAvg
from fedsim.algorithms.local_steps import local_steps
from fedsim.core.ports import Array, Client
from fedsim.problems.evaluators.serial import finite
from fedsim.results.record.read import read_run
from fedsim.wire import PACKERS
from tests.algorithms.packing import COMPRESSORS, link
from tests.tiers import every

CLIENT, ROUND, WILD = 2, 3, 1e300
LOGISTIC: dict[str, Any] = {
    "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus", "scale": "mean"},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
}
NETWORK: dict[str, Any] = {
    "loss": {"kind": "torch", "model": {"kind": "mlp", "hidden": [4]}, "l2": 0.1},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
}


class Slips(FedAvg):
    """Federated averaging in which one client takes wild steps in one round."""

    kind: Literal["slips"] = "slips"  # type: ignore[assignment]

    async def descend(self, client: Client, start: Array) -> Array:
        """Compute where the local steps lead."""
        slips = client.id == CLIENT and client.round == ROUND
        eta = WILD if slips else self.eta
        return await local_steps(client, start, eta, self.local_steps, self.batch)


def run(out: Path, problem: dict[str, Any], wire: dict[str, Any]) -> fedsim.Result:
    scenario = {
        "problem": {**problem, "optimum": "unknown"},
        "algorithm": {"kind": "slips", "step_size": 0.01, "local_steps": 3, "batch": 10},
        "wire": wire,
        "fleet": [{"count": 4, "device": "pi-4", "radio": "wifi"}],
        "observe": {"every": 50},
        "stop": {"rounds": 60},
    }
    return fedsim.run(scenario, blocks=[Slips], out=out)


def assert_named(result: fedsim.Result, out: Path) -> None:
    """The verdict names client and round; rounds and log before are kept, and audited."""
    (summary,) = result.summary.to_dict("records")
    assert summary["status"] == "diverged"
    assert re.match(
        rf"diverged in round {ROUND}: client {CLIENT} has computed a vector that is not finite; "
        rf"round {ROUND - 1} was the last finite one, with the objective [\d.]+; "
        r"step_size is 0.01, ",
        summary["reason"],
    ), summary["reason"]
    assert len(result.rounds) - 1 == summary["rounds"] == ROUND - 1
    assert np.isfinite(result.rounds["objective"].iloc[-1])
    events = read_run(out / "base/seed-1", "events")
    (stop,) = events[events["event"] == "stop"].to_dict("records")
    assert stop["detail"] == summary["reason"]
    assert (events[events["event"] == "compute"]["round"].max()) == ROUND


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize(
    ("kind", "feedback"),
    [pair for pair in product(COMPRESSORS, PACKERS) if pair != ("threshold", "ef21")],
)
def test_under_every_compressor_the_client_and_the_round_are_named(
    kind: str, feedback: str, tmp_path: Path
) -> None:
    assert_named(run(tmp_path, LOGISTIC, {"up": link(kind, feedback)}), tmp_path)


@pytest.mark.needs("torch")
def test_so_it_is_with_a_network(tmp_path: Path) -> None:
    assert_named(run(tmp_path, NETWORK, {"up": link("qsgd", "ef")}), tmp_path)


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_so_it_is_among_peers(tmp_path: Path) -> None:
    squared = {**LOGISTIC, "loss": {"kind": "squared", "scale": "mean"}, "optimum": "unknown"}
    scenario = {
        "problem": squared,
        "algorithm": {"kind": "d-psgd", "step_size": 1e250},
        "wire": {"values": "float64"},
        "fleet": [{"count": 4, "device": "pi-4", "radio": "wifi"}],
        "network": {"peers": {"kind": "ring"}},
        "observe": {"every": 50},
        "stop": {"rounds": 60},
    }
    (reason,) = fedsim.run(scenario, out=tmp_path).summary["reason"]
    text = r"diverged in round 3: client \d has computed a vector that is not finite; "
    assert re.match(text, reason)


@every("values", [[1e308, -1e308], [0.0, 5e-324], [], [[1e200, 1.0]]])
def test_large_numbers_are_finite(values: list[float]) -> None:
    assert finite(np.array(values))
    for wrong in (np.nan, np.inf, -np.inf):
        assert not finite(np.append(np.array(values), wrong))
