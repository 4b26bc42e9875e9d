"""Whole methods over two ends that a link joins: it delivers at once, and nothing else runs."""

import numpy as np
import pytest

import fedsim
from fedsim.testing import run_linked
from tests import methods
from tests.tiers import every

ROUNDS = 6

SYNCHRONOUS = sorted(kind for kind in methods.METHODS if not methods.the_class(kind).asynchronous)
"""Those whose rounds close when all have answered, so that the order of arrival means nothing."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@every("kind", SYNCHRONOUS, few=[each for each in SYNCHRONOUS if each in methods.FAMILIES])
def test_a_method_over_the_link_is_the_simulated_one(kind: str) -> None:
    blocks = {"fleet": [{"count": 4}], "stop": {"rounds": ROUNDS}, "models": {"every": 1}}
    scenario = methods.scenario(kind) | blocks
    record = run_linked(scenario, ROUNDS)
    simulated = fedsim.run(scenario)
    models = [model.ravel() for model in simulated.models["model"]]
    assert np.array_equal(models, record.models)
    assert simulated.rounds["transmissions"].cumsum().tolist()[1:] == record.sent


def test_a_method_without_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="a method of rounds with a server; got 'fedasync'"):
        run_linked(methods.scenario("fedasync"))
    with pytest.raises(ValueError, match="got 'd-psgd'"):
        run_linked(methods.scenario("d-psgd"))
