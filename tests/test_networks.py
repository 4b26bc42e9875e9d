"""Runs of networks: the same twice, and made again where PyTorch is another one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fedsim

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
    return json.loads(next(out.rglob("manifest.json")).read_text())


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
