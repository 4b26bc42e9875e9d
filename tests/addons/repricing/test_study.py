"""The study of the best method by radio, in a reduced form."""

import pandas as pd
import pytest

import fedsim
from fedsim.results.analysis import cost_to_target
from tests.test_studies import study

# Censoring in the study goes beyond what is known to converge.
pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")

radios = study("best-by-radio")
TWO = {"lte": "LTE", "nb-iot": "NB-IoT"}


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radios, "RADIOS", TWO)
        out = tmp_path_factory.mktemp("study")
        found: pd.DataFrame = radios.priced(out, ["seeds=1", "stop.gap=1"])
    return found


@pytest.mark.slow
def test_what_is_priced_is_what_a_run_on_that_radio_costs(costs: pd.DataFrame) -> None:
    result = fedsim.run(
        radios.SCENARIO,
        overrides=["seeds=1", "stop.gap=1", "variants={}", "fleet.0.radio=nb-iot"],
    )
    fresh = cost_to_target(result.rounds, 1.0).iloc[0]
    priced = costs[(costs["radio"] == "nb-iot") & (costs["variant"] == "base")].iloc[0]
    assert (priced[["round", "t", "joules"]] == fresh[["round", "t", "joules"]]).all()


@pytest.mark.slow
def test_the_best_is_one_and_nobody_is_better(
    costs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(radios, "RADIOS", TWO)
    for column in radios.COSTS:
        shares = radios.shares(costs, column)
        assert shares.shape == (len(radios.METHODS), 2)
        assert (shares.min() == 1.0).all()  # one seed: the best is the least
        for radio, name in radios.best(costs, column).items():
            assert shares[radio][name] == 1.0
    assert "The best method depends on the radio" in radios.finding(costs)
    upper, lower = radios.draw(costs).axes
    assert [label.get_text() for label in lower.get_xticklabels()] == list(TWO.values())
    assert len(upper.texts) == len(lower.texts)
    assert len(lower.texts) == 2 * len(radios.METHODS)
