"""Runs of networks: the same twice, and made again where PyTorch is another one."""

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.scenario import ProblemSpec
from fedsim.scenario.building.evaluation import problem_of
from fedsim.wire import Dithered, Layered, ValueFormat
from tests.problems.test_torch import Noisy
from tests.tiers import some

DIGITS: dict[str, Any] = {
    "name": "digits",
    "problem": {
        "loss": {"kind": "torch", "model": {"kind": "cnn", "channels": [4, 8], "hidden": 16}},
        "data": {"kind": "sklearn", "name": "digits"},
        "split": {"kind": "dirichlet", "alpha": 1.0},
    },
    "algorithm": {"kind": "fedavg", "local_steps": 3, "batch": 8, "step_size": 0.1},
    "fleet": [{"count": 6, "device": "phone-mid", "radio": "lte"}],
    "participation": {"kind": "uniform", "count": 4},
    "stop": {"rounds": 2},
}


def manifest(out: Path) -> Any:
    return json.loads(next(out.glob("*/seed-*/manifest.json")).read_text())


def test_a_run_says_what_pytorch_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fedsim.run(DIGITS, out=tmp_path)
    made = manifest(tmp_path)
    assert made["computing"]["torch"] == torch.__version__
    assert made["computing"]["device"] == f"cpu, {torch.backends.cpu.get_cpu_capability()}"
    assert made["computing"]["numbers"] == "float32"
    log = next(tmp_path.rglob("events.parquet"))
    kept = log.stat().st_mtime_ns
    fedsim.run(DIGITS, out=tmp_path)
    assert log.stat().st_mtime_ns == kept
    monkeypatch.setattr(torch, "__version__", "2.0.0")
    fedsim.run(DIGITS, out=tmp_path)
    assert manifest(tmp_path)["computing"]["torch"] == "2.0.0"
    assert log.stat().st_mtime_ns != kept
    assert manifest(tmp_path)["events"] == made["events"]


def uploads(**up: Any) -> NDArray[np.int64]:
    """Return the bits of the payloads of a run whose clients send by a wire."""
    events = fedsim.run({**DIGITS, "wire": {"up": up}}).events
    sent = events[(events.event == "send") & (events.node != "server")]
    return np.asarray(sent.payload_bits, dtype=np.int64)


CNN_LAYERS = [(4, 1, 5, 5), (4,), (8, 4, 5, 5), (8,), (16, 32), (16,), (10, 16), (10,)]


def test_layers_travel_by_themselves() -> None:
    """Each has its kind, sizes, norm and code, and at most a byte a number; small ones go in full.

    By one norm, most levels of what is small are zero, and take fewer bits.
    """
    sizes = [prod(shape) for shape in CNN_LAYERS]
    dithered = {"kind": "dithered", "bits": 8}
    whole = uploads(compressor=dithered)
    assert whole.max() <= 8 * (1 + 2 + 1 + 4 + 1 + sum(sizes))
    each = uploads(compressor=dithered, by_layer=True)
    most = [min(1 + (1 + (d > 127)) + 1 + 4 + 1 + d, 2 + 4 + 4 * d) for d in sizes]
    assert each.max() <= 8 * (2 + sum(most))
    assert each.min() > whole.max() > whole.min()


def test_a_share_of_each_layer_travels_with_error_feedback() -> None:
    top = {"kind": "top-k", "fraction": 0.1}
    bits = uploads(compressor=top, by_layer=True, error_feedback="ef")
    kept = [max(1, round(0.1 * prod(shape))) for shape in CNN_LAYERS]
    assert bits.min() > 32 * sum(kept)
    assert bits.max() < 2 * 32 * sum(kept)


def test_a_scale_a_layer_bounds_the_error_of_each() -> None:
    """Of the gradient of a network, whose layers differ in scale: |error| <= norm/127 in each."""
    f = problem_of(ProblemSpec.model_validate(DIGITS["problem"]), 6, 1, Path(), "float64")
    assert f.layers == tuple(CNN_LAYERS)
    g = f.losses[0].gradient(f.initial(np.random.default_rng(1)))
    layered, draws = Layered(of=Dithered(bits=8), shapes=f.layers), np.random.default_rng(2)
    each, at_once = (
        compressor.compress(g, draws, ValueFormat.FLOAT32)
        for compressor in (layered, Dithered(bits=8))
    )
    error, whole = np.abs(each.values - g), np.abs(at_once.values - g)
    scales = [np.abs(g[place]).max() for place in layered.places]
    for place, scale in zip(layered.places, scales, strict=True):
        assert error[place].max() <= scale / 127 * (1 + 1e-6)
    assert whole.max() <= max(scales) / 127 * (1 + 1e-6)
    least = layered.places[int(np.argmin(scales))]
    assert np.square(whole[least]).sum() > 4 * np.square(error[least]).sum()


TOGETHER: dict[str, Any] = {**DIGITS, "evaluator": "vmap"}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", some([1, 2], 1))  # each process loads PyTorch
def test_clients_that_compute_as_one_have_the_same_log_twice(jobs: int, tmp_path: Path) -> None:
    """With 1 job or 2, and but for rounding what each computes by itself."""
    two = {**TOGETHER, "seeds": 2}
    logs = []
    for out, number in ((tmp_path / "1", 1), (tmp_path / "2", jobs)):
        found = fedsim.run(two, out=out, jobs=number)
        logs.append(
            [json.loads(path.read_text())["events"] for path in sorted(out.rglob("manifest.json"))]
        )
        last = found.summary.objective.tolist()
    assert logs[0] == logs[1]
    alone = fedsim.run({**DIGITS, "seeds": 2}).summary.objective.tolist()
    assert last == pytest.approx(alone, rel=1e-4)
    assert manifest(tmp_path / "2")["computing"]["evaluator"] == "vmap"


def test_groups_on_threads_give_the_same_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is in a group follows from the scenario: here from the least size, of a client each."""
    monkeypatch.setattr("fedsim.problems.evaluators.vmap.GROUP", 1.0)
    loss = {"kind": "torch", "model": {"kind": "mlp", "hidden": [16]}}
    problem = {**TOGETHER["problem"], "loss": loss}
    logs = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("FEDSIM_THREADS", threads)
        keys = {"problem": problem, "stop": {"rounds": 6}}
        fedsim.run({**TOGETHER, **keys}, out=tmp_path / threads)
        logs.append(manifest(tmp_path / threads)["events"])
    assert logs[0] == logs[1] == logs[2]


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        ("softmax", "got vmap, but the loss softmax is not computed by PyTorch"),
        ({"kind": "torch", "model": {"kind": "noisy"}}, "Sequential draws random numbers"),
    ],
)
def test_what_cannot_compute_as_one_is_refused(loss: Any, text: str) -> None:
    problem = {**DIGITS["problem"], "loss": loss}
    with pytest.raises(ScenarioError, match=text):
        fedsim.run({**TOGETHER, "problem": problem}, blocks=[Noisy])
