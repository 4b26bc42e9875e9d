"""The methods of the five papers under secure aggregation: the same models, for more bits."""

from typing import Any

import numpy as np
import pytest

import fedsim

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")

LINEAR: dict[str, Any] = {
    "loss": {"kind": "squared", "scale": "mean"},
    "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
    "split": {"kind": "iid"},
    "optimum": "unknown",
}
CLASSES: dict[str, Any] = {
    "loss": {"kind": "neyman-pearson"},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
    "split": {"kind": "iid", "stratify": True},
    "optimum": "unknown",
}
SPARSE: dict[str, Any] = {"sparsity": 5, "sends": "differences"}

METHODS: dict[str, dict[str, Any]] = {
    "fed-ht": {"algorithm": {"kind": "fed-ht", "step_size": 0.05, **SPARSE}},
    "fedgradmp": {"algorithm": {"kind": "fedgradmp", "local_steps": 3, **SPARSE}},
    "fast-fedda": {
        "problem": LINEAR | {"penalty": {"kind": "l1", "weight": 0.1}},
        "algorithm": {"kind": "fast-fedda", "mu": 0.1, "gamma": 50, "local_steps": 3},
    },
    "chb": {"algorithm": {"kind": "chb", "step_size": "1/L"}},
    "fedsgm": {
        "problem": CLASSES,
        "algorithm": {"kind": "fedsgm", "step_size": 0.3, "local_steps": 5, "tolerance": 0.1},
    },
}


def run(method: str, **secrecy: Any) -> Any:
    scenario = {
        "problem": LINEAR,
        "wire": {"values": "float64"},
        "fleet": [{"count": 5, "device": "phone-mid", "radio": "lte"}],
        "stop": {"rounds": 6},
        **METHODS[method],
    }
    return fedsim.run(scenario | ({"secrecy": secrecy} if secrecy else {}), check=False)


@pytest.mark.parametrize("method", METHODS)
def test_a_paper_s_method_computes_the_same_and_sends_more(method: str) -> None:
    """With 24 bits the rounding is below a ten thousandth of the model; nothing is clipped."""
    plain, secret = run(method), run(method, kind="secagg", bits=24, clip=1e3)
    assert secret.summary["status"].tolist() == plain.summary["status"].tolist() == ["done"]
    wanted = plain.model()
    assert np.abs(secret.model() - wanted).max() < 1e-4 * np.abs(wanted).max()
    for cost in ("bits_up", "bits_down", "joules"):
        assert secret.rounds[cost].sum() > plain.rounds[cost].sum()
