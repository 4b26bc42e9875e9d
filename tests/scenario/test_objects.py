"""A scenario made of objects is the one that its file says; their constructors tell their keys."""

import inspect
import subprocess
import sys

import pytest
from pydantic import ValidationError

import fedsim
from fedsim import algorithms, problems, scenario, wire
from fedsim.algorithms import ALGORITHMS, CensoredHeavyBall, GradientDescent, HeavyBall
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.problems import Bundled, Contiguous, Logistic
from fedsim.scenario import Group, ProblemSpec, Scenario, ServerLink, StarNetwork, Stop, Wire
from fedsim.scenario.registries import REGISTRIES
from tests.conftest import ROOT
from tests.tiers import every

HB = HeavyBall(step_size="1/L", momentum=0.4)
GD = GradientDescent(step_size="1/L")
CENSORING = Scenario(
    name="censoring",
    problem=ProblemSpec(
        loss=Logistic(scale="sum", l2=1, labels="plus-minus"),
        data=Bundled(name="breast-cancer", preprocess=("standardise",)),
        split=Contiguous(remainder="spread"),
    ),
    algorithm=CensoredHeavyBall(step_size="1/L", momentum=0.4, censor=0.1),
    wire=Wire(values="float64"),
    fleet=(
        Group(count=6, device="phone-mid", radio="lte"),
        Group(count=4, device="pi-4", radio="wifi"),
    ),
    network=StarNetwork(
        server=ServerLink.in_si(uplink=100e6, downlink="100 Mbit/s", latency="5 ms")
    ),
    stop=Stop(rounds=5000, gap=1e-5),
    variants={"chb": {}, "hb": {"algorithm": HB}, "gd": {"algorithm": GD}},
)


def test_the_scenario_of_objects_is_that_of_the_file() -> None:
    written = fedsim.load(ROOT / "scenarios/censoring.yaml").variants
    made = fedsim.load(CENSORING).variants
    assert [each.name for each in made] == [each.name for each in written]
    assert [each.fingerprint for each in made] == [each.fingerprint for each in written]


def test_objects_stand_in_mappings_too() -> None:
    plain = CENSORING.model_dump(mode="json", exclude={"algorithm", "variants"})
    (one,) = fedsim.load(plain | {"algorithm": GD}).variants
    assert one.scenario.algorithm == GD


def test_a_wrong_key_is_told_where_it_is_given() -> None:
    with pytest.raises(ValidationError, match="momentun"):
        HeavyBall(step_size="1/L", momentun=0.4)  # type: ignore[call-arg]


@every("registry", REGISTRIES)
def test_a_constructor_tells_every_key(registry: Registry[Spec]) -> None:
    for model in registry:
        parameters = inspect.signature(model).parameters
        assert list(parameters) == list(model.model_fields), model
        for name, field in model.model_fields.items():
            missing = parameters[name].default is inspect.Parameter.empty
            assert missing == field.is_required(), (model, name)


FRESH = """
import inspect
from fedsim import Scenario
from fedsim.algorithms import FedAvg
print(*inspect.signature(Scenario).parameters, *inspect.signature(FedAvg).parameters)
"""


@pytest.mark.slow
def test_it_tells_them_before_anything_was_made() -> None:
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    assert {"problem", "fleet", "step_size", "local_steps"} <= set(done.stdout.split())
    assert "data" not in done.stdout.split()


def test_every_kind_of_block_can_be_imported_from_one_of_four_modules() -> None:
    missing = set()
    for registry in REGISTRIES:
        for model in registry:
            if not any(
                getattr(module, model.__name__, None) is model
                for module in (scenario, algorithms, problems, wire)
            ):
                missing.add(model.__name__)
    assert {name for name in missing if not name.startswith("No")} == set()
    assert len(ALGORITHMS) > 30
