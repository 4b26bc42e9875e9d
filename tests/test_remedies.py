"""What a warning recommends is accepted where it is recommended, and stills the warning."""

import re
from typing import Any

from fedsim.problems import Problem
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from tests.methods import DUAL, METHODS, PENALISED, scenario
from tests.tiers import every

_GIVEN = re.compile(r"give `(\w+): ([^`]+)`")
_LONG = 1e3  # a step beyond every bound
_SWITCHING = {
    "switching": "soft",
    "sharpness": 7.0,
    "tolerance": 1e-3,
    "theory": {"diameter": 3.0, "lipschitz": 0.7, "rounds": 70},
}
_TIGHT: dict[str, dict[str, Any]] = {
    "fedsgm": _SWITCHING,
    "fedsgm-stale": _SWITCHING,
    "diana": {"shift_rate": 1.0},
    "fed-dual-avg": {"server_rate": 3.0},
    "fast-fedda": {"mu": 50.0},
    "c-fedda": {"mu": 50.0},
    "mc-fedda": {"mu": 50.0},
}
"""Values beside the step size that a theory does not cover."""

QSGD = {"wire": {"up": {"compressor": {"kind": "qsgd", "levels": 1}}}}
UNBIASED = {
    "dcgd",
    "diana",
    "marina",
    "pp-marina",
    "fedcom",
    "fedcomgate",
    "fedsgm",
    "fedsgm-stale",
}


def jobs(written: dict[str, Any], *overrides: str) -> list[Job]:
    problem = {**written["problem"], "split": {"kind": "iid", "clients": 4}, "optimum": "unknown"}
    return Builder(load({**written, "problem": problem}, overrides=overrides)).check()


def tried(kind: str) -> dict[str, Any]:
    """Return a scenario that the method's theory does not cover."""
    written = scenario(kind)
    algorithm = {**written["algorithm"], **_TIGHT.get(kind, {})}
    if "step_size" in algorithm:
        algorithm["step_size"] = _LONG
    world = QSGD if kind in UNBIASED else {}
    return {**written, **world, "algorithm": algorithm}


@every("kind", METHODS)
def test_what_a_concern_recommends_stills_it(kind: str) -> None:
    written = tried(kind)
    (job,) = jobs(written)
    remedies = [
        (concern.key, found[1], found[2])
        for concern in job.concerns
        for found in _GIVEN.finditer(concern.text)
    ]
    assert all(key == named for key, named, _ in remedies)
    silent = {concern.key for concern in job.concerns} - {key for key, _, _ in remedies}
    assert silent <= {"kind", "stages"}, "what can be mended by a value comes with one"
    (job,) = jobs(written, *[f"algorithm.{key}={value}" for key, _, value in remedies])
    assert not {concern.key for concern in job.concerns} & {key for key, _, _ in remedies}


def test_the_worlds_above_do_raise_concerns() -> None:
    """Lest silence be that of worlds in which nothing was said."""
    said = {
        kind for kind in METHODS if "step_size" in {c.key for c in jobs(tried(kind))[0].concerns}
    }
    assert said >= {"chb", "gd", "fedavg", "fedprox", "scaffold", "fedasync", "fed-dual-avg"}
    assert said >= UNBIASED | {"ef21"}


@every("kind", ["fedavg", "fednova", "scaffold", "fedadam", "fedbuff"])
def test_a_whole_step_of_a_local_method_is_without_concern(kind: str) -> None:
    written = scenario(kind)
    (job,) = jobs({**written, "algorithm": written["algorithm"] | {"step_size": "1/L_max"}})
    assert not job.concerns
    assert getattr(job.algorithm, "step_size") == 1 / job.problem.client_smoothness.max()  # noqa: B009


def test_the_two_constants_are_those_of_the_whole_and_of_the_steepest_client() -> None:
    steps = {}
    for written in ("2/L", "2/L_max"):
        block = scenario("fedavg") | {"algorithm": {"kind": "fedavg", "step_size": written}}
        (job,) = jobs(block)
        steps[written] = job.parameters["step_size"]
    problem: Problem = job.problem
    assert steps["2/L"] == 2 / problem.smoothness()
    assert steps["2/L_max"] == 2 / max(loss.smoothness for loss in problem.losses)
    assert steps["2/L_max"] < steps["2/L"], "the whole is smoother than its steepest part"


def test_the_weight_of_the_penalty_is_what_the_last_stage_says() -> None:
    """The one concern beside that of a kind that two keys may still: it names both figures."""
    written = {"problem": PENALISED, "algorithm": {"kind": "mc-fedda", **DUAL}}
    stages = [{"weight": weight, "radius": 100, "rounds": 3} for weight in (0.02, 0.015)]
    (job,) = jobs({**written, "algorithm": written["algorithm"] | {"stages": stages}})
    (concern,) = job.concerns
    assert concern.key == "stages"
    assert "0.015" in concern.text
    assert "0.01" in concern.text
