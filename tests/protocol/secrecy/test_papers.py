"""The methods of the five papers under secure aggregation: the same models, for more bits."""

from typing import Any

import numpy as np
import pytest

import fedsim
from tests.conftest import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")

PAGE = ROOT / "docs/howto/secure-aggregation.md"

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


def test_the_page_has_what_a_paper_s_method_costs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for method in METHODS:
        both = run(method), run(method, kind="secagg", clip=1e3)
        costs = [
            [one.rounds["bits_up"].sum() / 1e3 for one in both],
            [one.rounds["t"].iloc[-1] for one in both],
            [one.rounds["joules"].sum() for one in both],
        ]
        forms = ["{:.1f}", "{:.2f}", "{:.1f}"]
        cells = [
            form.format(cost) for form, pair in zip(forms, costs, strict=True) for cost in pair
        ]
        assert f"| `{method}` | {' | '.join(cells)} |" in page
