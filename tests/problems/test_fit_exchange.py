"""Preprocessing fitted by messages: the fit is scikit-learn's, and its messages are charged."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.problems.description import Feature
from fedsim.problems.tables import features
from fedsim.problems.tables.features import FeatureRecipe, Scale
from fedsim.problems.tables.fit_exchange import exchange_of, merge_fit

KINDS = {"fitrequest", "fitstatistics", "fitresult", "fitreceived"}


def raw(rng: np.random.Generator, rows: int = 90) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Three numbers, of which the second has gaps and the third only one client, and a category."""
    X = np.column_stack(
        [
            rng.normal(1e3, 2.0, rows),
            rng.integers(0, 9, rows).astype(float),
            rng.exponential(5.0, rows),
            rng.choice(4, rows, p=[0.6, 0.3, 0.08, 0.02]).astype(float),
        ]
    )
    X[rng.random(rows) < 0.2, 1] = np.nan
    X[rng.random(rows) < 0.1, 3] = np.nan
    X[:20, 2] = np.nan
    return X


@pytest.mark.parametrize("scale", ["standardise", "unit-range", "none"])
def test_the_fit_to_the_clients_messages_is_that_to_all_rows(scale: Scale) -> None:
    X = raw(np.random.default_rng(3))
    columns = tuple(Feature(name, "number") for name in "abc")
    recipe = FeatureRecipe((*columns, Feature("d", "category", ("p", "q", "r", "s"))), scale, 0.05)
    rows = [np.arange(20), np.arange(20, 55), np.arange(55, 90)]
    exchange = exchange_of(X, rows, recipe)
    fit = merge_fit(exchange.steps, recipe)
    numbers = np.where(np.isnan(X[:, :3]), fit.medians, X[:, :3])
    if scale != "none":
        numbers = (numbers - fit.origin) / fit.unit
    made = features.fit_all(X, recipe)(X)
    np.testing.assert_allclose(numbers, made[:, :3], rtol=1e-9, atol=1e-12)
    assert np.isnan(fit.medians).tolist() == [True, False, False]
    texts = X[:, 3].copy()
    texts[np.isnan(texts)] = 0.0
    assert fit.counts[0].tolist() == np.bincount(texts.astype(int), minlength=4).tolist()


def scenario(folder: Path, fit: str, **keys: Any) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    X = raw(rng)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["d"] = frame["d"].map({0.0: "p", 1.0: "q", 2.0: "r", 3.0: "s"})
    frame["class"] = np.where(rng.random(len(X)) < 0.5, "ill", "well")
    frame["ward"] = [f"ward {row % 3 + 1}" for row in range(len(X))]
    frame.to_csv(folder / "data.csv", index=False)
    data = {
        "kind": "table", "path": str(folder / "data.csv"), "label": "class", "client": "ward",
        "fit": fit,
    }  # fmt: skip
    return {
        "problem": {"loss": {"kind": "logistic", "l2": 0.01}, "data": data, "split": "groups"},
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": [{"count": "data", "device": "pi-4", "radio": "lte"}],
        "stop": {"rounds": 3},
        **keys,
    }


def test_messages_of_the_fit_are_charged_before_the_first_of_the_method(tmp_path: Path) -> None:
    fitted = fedsim.run(scenario(tmp_path, "exchange"), out=tmp_path / "exchange")
    free = fedsim.run(scenario(tmp_path, "all"), out=tmp_path / "all")
    rows, sent = fitted.rounds, fitted.events[fitted.events["event"] == "send"]
    own = sent[sent["message"].isin(KINDS)]
    assert set(own["message"]) == KINDS
    assert own.index.max() < sent.index[~sent["message"].isin(KINDS)].min()
    np.testing.assert_array_equal(rows["objective"], free.rounds["objective"])
    up = own[own["node"] != "server"]
    bits = up[["payload_bits", "header_bits", "transport_bits"]].sum(axis=1).sum()
    more = rows["bits_up"] - free.rounds["bits_up"]
    assert rows["round"].tolist() == [0, 1, 2, 3]
    assert more.tolist() == [0, bits, 0, 0]
    assert bits > 0
    assert rows["joules"].iloc[1] > free.rounds["joules"].iloc[1]


def test_no_report_of_a_policy_travels_with_them(tmp_path: Path) -> None:
    bits = []
    for kind in ("uniform", "oort"):
        keys = {"algorithm": {"kind": "fedavg", "step_size": 0.1, "batch": 8}}
        asked = {"participation": {"kind": kind, "count": 2}}
        events = fedsim.run(scenario(tmp_path, "exchange", **keys, **asked)).events
        own = events[(events["event"] == "send") & events["message"].isin(KINDS)]
        bits.append(own["payload_bits"].tolist())
    assert bits[0] == bits[1]


def test_a_run_with_these_messages_is_repriced_as_it_was_and_as_it_would_be(
    tmp_path: Path,
) -> None:
    fedsim.run(scenario(tmp_path, "exchange"), out=tmp_path / "run")
    again = fedsim.reprice(tmp_path / "run", ["fleet.0.radio=wifi"], tmp_path / "wifi")
    other = scenario(tmp_path, "exchange")
    other["fleet"][0]["radio"] = "wifi"
    direct = fedsim.run(other, out=tmp_path / "direct")
    np.testing.assert_allclose(again.rounds["joules"], direct.rounds["joules"], rtol=1e-12)
    np.testing.assert_allclose(again.rounds["t"], direct.rounds["t"], rtol=1e-12)
    assert (again.rounds["bits_up"] == direct.rounds["bits_up"]).all()


@pytest.mark.parametrize(
    ("keys", "data", "text"),
    [
        ({"algorithm": {"kind": "fedbuff", "step_size": 0.1}, "participation": "asynchronous"}, {},
         "no round waits for all clients"),
        ({}, {"preprocess": ["max-abs"]}, "would need an exchange of its own"),
    ],
)  # fmt: skip
def test_what_has_no_such_exchange_is_refused(
    tmp_path: Path, keys: dict[str, Any], data: dict[str, Any], text: str
) -> None:
    wrong = scenario(tmp_path, "exchange", **keys)
    wrong["problem"]["data"].update(data)
    with pytest.raises(ScenarioError, match=text):
        fedsim.run(wrong, out=tmp_path / "out")


def test_clients_that_lose_messages_are_asked_again(tmp_path: Path) -> None:
    lossy = scenario(tmp_path, "exchange", participation={"kind": "full", "deadline": "1 s"})
    loss = {"kind": "independent", "rate": "20 %"}
    lossy["fleet"][0]["radio"] = {"kind": "lte", "loss": loss, "tries": 1}
    events = fedsim.run(lossy, out=tmp_path / "out").events
    received = events[(events["event"] == "receive") & (events["node"] == "server")]
    results = received[received["message"] == "fitreceived"]
    lost = events[events["event"] == "lost"]
    assert set(lost["message"].dropna()) & KINDS
    assert set(results["peer"]) == {"client-0", "client-1", "client-2"}
