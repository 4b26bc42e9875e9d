"""Every strategy of the installed Flower is tried: it runs, or one sentence says what it lacks."""

import re
from pathlib import Path
from typing import Any

import pytest
from flwr.server import strategy as older
from flwr.serverapp import strategy as newer

import fedsim
from fedsim.flower import app, method
from tests.addons.flower.scenes import ZEROS, client_app
from tests.addons.flower.test_strategies import own, towards, walker

CLIENTS = 6
PAGE = Path(__file__).parents[3] / "docs/howto/flower.md"

OPTIONS: dict[str, dict[str, Any]] = {
    "older.FedProx": {"proximal_mu": 0.1},
    "newer.QFedAvg": {"client_learning_rate": 0.1},
}

LACKING = {
    "newer.DifferentialPrivacyClientSideAdaptiveClipping": "norm_bit",
    "newer.FedXgbBagging": "exactly one Array",
    "newer.QFedAvg": "train_loss|loss",
    "older.Bulyan": "to_keep",
    "older.DPFedAvgAdaptive": "complex",
    "older.DifferentialPrivacyClientSideAdaptiveClipping": "norm_bit",
    "older.DifferentialPrivacyServerSideAdaptiveClipping": "ZeroDivisionError",
    "older.DifferentialPrivacyServerSideFixedClipping": "ZeroDivisionError",
    "older.FedAvgAndroid": "NumPy cannot read",
    "older.FedXgbBagging": "UnicodeDecodeError",
    "older.FedXgbCyclic": "1 arrays, where the model has",
    "older.FedXgbNnAvg": "not subscriptable",
    "older.QFedAvg": "loss",
}
"""What the error names, of those that need other clients than ones that send arrays, or fail."""

EVERY = [
    f"{name}.{each}"
    for name, module in (("newer", newer), ("older", older))
    for each in sorted(module.__all__)
    if each not in {"Strategy", "Result"}
]


def made(name: str) -> Any:
    """Return a strategy with as few options as it takes."""
    module, _, own_name = name.partition(".")
    interface: Any = newer if module == "newer" else older
    kind = getattr(interface, own_name)
    clipping: tuple[float, ...]
    if own_name.startswith("Differential"):
        clipping = (0.1,) if "Adaptive" in own_name else (0.1, 2.0)
        return kind(interface.FedAvg(), *clipping, CLIENTS)
    if own_name.startswith("DPFed"):
        clipping = () if "Adaptive" in own_name else (2.0, 0.1)
        return kind(interface.FedAvg(), CLIENTS, *clipping)
    options = OPTIONS.get(name, {})
    try:
        return kind(**options)
    except TypeError:
        return kind(initial_parameters=own(), **options)


def run(name: str) -> fedsim.Result:
    """Return two rounds of a strategy."""
    figures: dict[str, Any] = {"clients": CLIENTS, "cost": {"operations": 1}}
    loss = (
        app(client_app(towards), initial=ZEROS, evaluated_by="nobody", **figures)
        if name.startswith("newer")
        else app(walker, evaluated_by="nobody", **figures)
    )
    return fedsim.run(
        {
            "problem": {"loss": loss},
            "algorithm": method(made(name)),
            "wire": {"values": "float64"},
            "stop": {"rounds": 2},
        }
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of old strategies, by Flower
@pytest.mark.parametrize("name", EVERY)
def test_a_strategy_runs_or_one_sentence_says_what_it_lacks(name: str) -> None:
    if name in LACKING:
        with pytest.raises(fedsim.FedsimError, match=LACKING[name]):
            run(name)
    else:
        assert run(name).summary["rounds"][0] == 2


def test_the_page_has_the_table() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    said = {
        f"{module}.{name}": word.startswith("runs")
        for name, *words in rows
        for module, word in zip(("newer", "older"), words, strict=True)
        if word.strip() != "none"
    }
    assert said == {name: name not in LACKING for name in EVERY}
