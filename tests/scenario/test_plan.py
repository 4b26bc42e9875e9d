"""Plans: every way to give a scenario, defaults, variants, seeds, faults found later."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from fedsim.algorithms import CensoredHeavyBall, GradientDescent
from fedsim.core.errors import FrozenError
from fedsim.physics.devices import Device
from fedsim.physics.networks import StarNetwork
from fedsim.physics.radios import Radio
from fedsim.problems import Contiguous, Logistic
from fedsim.protocol.participation import FullParticipation
from fedsim.protocol.silence import BeaconSilence, DeadlineSilence
from fedsim.scenario import (
    Plan,
    Scenario,
    load,
)
from fedsim.wire import ValueFormat
from tests.scenario.examples import faults, least, made, written


def test_a_scenario_as_the_program_sees_it(tmp_path: Path) -> None:
    plan = load(written(tmp_path))
    base = plan.variants[0].scenario
    assert (plan.name, plan.folder) == ("good", tmp_path)
    assert (base.name, base.seed, base.seeds, base.clients) == ("good", 7, 2, 5)
    assert isinstance(base.problem.loss, Logistic)
    assert isinstance(base.algorithm, CensoredHeavyBall)
    assert base.algorithm.censor == 0.1
    assert base.wire.values is ValueFormat.FLOAT32
    phones, boards = base.fleet
    assert isinstance(phones.radio, Radio)
    assert isinstance(boards.radio, Radio)
    assert isinstance(phones.device, Device)
    assert isinstance(boards.device, Device)
    assert (phones.count, phones.device.speed, phones.radio.up) == (3, 1e10, 6e6)
    assert (boards.count, boards.device.speed, boards.device.idle) == (2, 1.2e10, 2.3)
    assert (boards.radio.up, boards.radio.down, boards.radio.latency) == (12e6, 30e6, 0.005)
    assert isinstance(base.network, StarNetwork)
    assert (base.network.server.downlink, base.network.server.latency) == (1e9, 0.005)
    assert (base.stop.rounds, base.stop.gap, base.stop.energy) == (60, 1e-5, 5000.0)
    assert (base.stop.time, base.stop.bits) == (None, None)


def test_the_defaults_of_a_scenario() -> None:
    scenario = made()
    assert (scenario.name, scenario.seed, scenario.seeds) == ("", 1, 1)
    assert isinstance(scenario.problem.split, Contiguous)
    assert scenario.wire.values is ValueFormat.FLOAT32
    assert scenario.silence == BeaconSilence()
    assert (scenario.fleet, scenario.clients) == ((), 0)
    assert scenario.participation == FullParticipation()
    assert isinstance(scenario.network, StarNetwork)
    assert (scenario.network.model.kind, scenario.network.broadcast) == ("fluid", "unicast")
    server = scenario.network.server
    assert (server.uplink, server.downlink, server.latency) == (float("inf"), float("inf"), 0.0)
    assert scenario.stop.model_dump(exclude_none=True) == {"rounds": 1000}


def test_a_group_is_one_ideal_client_by_default() -> None:
    (group,) = made(fleet=[{}]).fleet
    assert (group.count, group.device.kind, group.radio.kind) == (1, "ideal", "ideal")
    assert (group.battery, group.availability.kind) == (None, "always")


def test_a_late_reply_is_kept_by_default() -> None:
    silence = made(silence={"kind": "deadline", "after": "2 s"}).silence
    assert isinstance(silence, DeadlineSilence)
    assert (silence.after, silence.late) == (2.0, "keep")


def test_variants_share_what_they_do_not_change(tmp_path: Path) -> None:
    base, hb, gd = load(written(tmp_path)).variants
    assert [each.name for each in (base, hb, gd)] == ["base", "hb", "gd"]
    assert isinstance(hb.scenario.algorithm, CensoredHeavyBall)
    assert (hb.scenario.algorithm.censor, hb.scenario.algorithm.step_size) == (0, 1e-3)
    assert isinstance(gd.scenario.algorithm, GradientDescent)
    for each in (hb, gd):
        same = each.scenario.model_copy(update={"algorithm": base.scenario.algorithm})
        assert same == base.scenario


def test_seeds_count_from_the_seed(tmp_path: Path) -> None:
    changes = {26: "  hb: {seed: 40}"}
    plan = load(written(tmp_path, changes))
    assert [list(variant.seeds) for variant in plan.variants] == [[7, 8], [40, 41], [7, 8]]


def same(one: Plan, other: Plan) -> bool:
    """Say whether two plans differ in nothing but the comment that a file begins with."""
    return [(each.name, each.scenario) for each in one.variants] == [
        (each.name, each.scenario) for each in other.variants
    ]


def test_every_way_to_give_a_scenario_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    plan = load(path)
    assert load(str(path)) == plan
    assert load(path.name) == plan
    base, hb, gd = (each.scenario for each in plan.variants)
    as_mapping = base.model_dump(mode="json") | {
        "variants": {
            "hb": {"algorithm": {"censor": 0.0}},
            "gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
        }
    }
    assert same(load(as_mapping), plan)
    assert same(load(Scenario.model_validate(as_mapping)), plan)
    assert load(as_mapping).folder == tmp_path
    for scenario in (base, hb, gd):
        assert load(scenario).variants[0].scenario == scenario


def test_a_mapping_may_hold_what_python_has() -> None:
    plain = made(seed=3, fleet=[{"count": 2}])
    algorithm = GradientDescent(step_size=0.1)
    assert made(seed=3, fleet=({"count": 2},), algorithm=algorithm) == plain
    assert made(seed=3, fleet=plain.fleet, problem=plain.problem) == plain


def test_names_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(written(tmp_path, {2: "name: ''"})).name == "good"
    assert load(written(tmp_path, {2: "name: a study"})).name == "a study"
    monkeypatch.chdir(tmp_path)
    assert (load(least()).name, load(least()).folder) == ("scenario", tmp_path)
    assert load(Path("good.yaml")).folder == tmp_path


def test_overrides_come_before_variants(tmp_path: Path) -> None:
    plan = load(written(tmp_path), overrides=["algorithm.censor=0.7", "stop.rounds=9"])
    base, hb, gd = (each.scenario for each in plan.variants)
    assert isinstance(base.algorithm, CensoredHeavyBall)
    assert isinstance(hb.algorithm, CensoredHeavyBall)
    assert (base.algorithm.censor, hb.algorithm.censor) == (0.7, 0)
    assert {each.stop.rounds for each in (base, hb, gd)} == {9}


def test_overrides_reach_variants_and_scenarios(tmp_path: Path) -> None:
    path = written(tmp_path)
    plan = load(path, overrides=["variants.hb.seed=12"])
    assert [each.scenario.seed for each in plan.variants] == [7, 12, 7]
    base = load(path).variants[0].scenario
    assert load(base, overrides=["seed=12"]).variants[0].scenario.seed == 12
    assert base.seed == 7


def test_a_fault_found_later_has_the_line_of_its_key(tmp_path: Path) -> None:
    base, hb, gd = load(written(tmp_path)).variants
    where = f"{tmp_path / 'good.yaml'}"
    lines = {
        "problem.data.name": 6,
        "problem.data.path": 6,
        "problem.split.clients": 7,
        "algorithm.censor": 11,
        "algorithm.momentum": 8,
        "fleet.1.radio.down": 18,
        "fleet.9": 14,
        "nothing": 2,
    }
    for key, line in lines.items():
        fault = base.fault(key, "no")
        assert (fault.where, fault.key, fault.message) == (f"{where}:{line}", key, "no")
    assert str(hb.fault("algorithm.censor", "no")).endswith(":26: algorithm.censor: variant hb: no")
    assert gd.fault("algorithm.step_size", "no").where == f"{where}:28"
    assert gd.fault("problem.data", "no").where == f"{where}:6"
    assert load(least()).variants[0].fault("seed", "no").where == ""


def test_specs_are_frozen_and_closed() -> None:
    scenario = made()
    with pytest.raises(FrozenError, match="cannot be changed"):
        scenario.seed = 3
    with pytest.raises(ValidationError, match="not permitted"):
        Scenario.model_validate(least(sed=3))


def test_a_scenario_made_in_python_is_checked_as_well() -> None:
    with pytest.raises(ValidationError, match="add up to 4"):
        Scenario.model_validate(
            least(fleet=[{"count": 4}])
            | {"problem": {**least()["problem"], "split": {"kind": "iid", "clients": 3}}}
        )
    scenario = Scenario.model_validate(least(algorithm=GradientDescent(step_size=0.1)))
    assert scenario == made()


def test_wrong_variants_of_a_scenario_made_in_python() -> None:
    scenario = Scenario.model_validate(least(variants={"a": {"seed": -1}, "b/c": {}}))
    assert sorted(fault.key for fault in faults(scenario)) == ["seed", "variants.b/c"]
