"""Feedback fits what messages mean, and whatever a refusal recommends is accepted."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

from fedsim.core.errors import ScenarioError
from fedsim.scenario import Compression, Scenario, load
from fedsim.scenario.compatibility import compression
from tests import methods
from tests.algorithms.packing import COMPRESSORS
from tests.tiers import every

DIFFERENCES = {"chb", "hb", "lag", "gd", "lag-wk", "lag-ps", "chb-charge", "ef21", "scaffnew"}
UNBIASED = {"diana", "marina", "pp-marina", "fedcomgate"}
STATES = {"distributed-iht", "fed-ht", "fediter-ht", "fedgradmp", "fedasync"}
SIGNS = {"signsgd"}
IN_FULL = {*SIGNS, "streaming-diloco"}
"""The methods whose servers' messages are not compressed."""
CONTRACTING = ("top-k", "scaled-sign", "threshold", "low-rank", "e3m0")
BIASED = [kind for kind in COMPRESSORS if kind in CONTRACTING]
WORLDS: dict[str, dict[str, Any]] = {
    "all": {},
    "a sample": {"participation": {"kind": "uniform", "count": 2}},
    "no late replies": {"participation": {"kind": "full", "deadline": "3 s", "late": "drop"}},
    "losses": {
        "fleet": [
            {
                "count": 5,
                "device": "pi-4",
                "radio": {
                    "kind": "wifi",
                    "loss": {"kind": "independent", "rate": "1 %"},
                    "tries": 3,
                },
            }
        ],
        "participation": {"kind": "full", "deadline": "3 s"},
    },
}


def faults(scenario: dict[str, Any]) -> dict[str, str]:
    """Return what is said of a scenario, by key; nothing where it loads."""
    try:
        load(scenario)
    except ScenarioError as error:
        return {fault.key: fault.message for fault in error.faults}
    return {}


def scenario(
    method: str, way: str, kind: str, feedback: str, world: str = "all", **parameters: Any
) -> dict[str, Any]:
    blocks = methods.scenario(method) | WORLDS[world]
    blocks["algorithm"] = blocks["algorithm"] | parameters
    link = {"compressor": {"kind": kind} | COMPRESSORS[kind], "error_feedback": feedback}
    return blocks | {"wire": {way: link}}


@every("feedback", ["ef", "ef21"])
@every("method", methods.METHODS)
def test_up_it_is_accepted_where_errors_can_be_made_good(method: str, feedback: str) -> None:
    """EF for what is added up, EF21 also for what replaces; neither for what has it already."""
    said = faults(scenario(method, "up", "top-k", feedback)).get("wire.up.error_feedback", "")
    spoilt = DIFFERENCES | UNBIASED | SIGNS | (STATES if feedback == "ef" else set())
    assert bool(said) == (method in spoilt)
    assert ("sends models" in said) == (method in STATES and feedback == "ef")
    assert ("error feedback by itself" in said) == (method in DIFFERENCES)


@every("method", methods.METHODS)
def test_down_all_is_models_so_that_ef_is_refused(method: str) -> None:
    said = faults(scenario(method, "down", "top-k", "ef"))["wire.down.error_feedback"]
    assert ("are not compressed" in said) == (method in IN_FULL)
    assert ("the server of" in said) == ("sends models" in said or method in IN_FULL)


@every("method", sorted(STATES - {"fedasync"}))
def test_differences_take_all_feedback(method: str) -> None:
    for feedback in ("none", "ef", "ef21"):
        assert not faults(scenario(method, "up", "top-k", feedback, sends="differences"))


@every("feedback", ["ef", "ef21"])
@every("kind", BIASED)
def test_feedback_does_in_place_of_an_unbiased_compressor(kind: str, feedback: str) -> None:
    said = faults(scenario("fedcom", "up", kind, feedback))
    assert bool(said) == (kind == "threshold" and feedback == "ef21")
    assert (
        "error_feedback: ef"
        in faults(scenario("fedcom", "up", kind, "none"))["wire.up.compressor.kind"]
    )


REMEDY = re.compile(r"(?:algorithm\.(sends)|error_feedback): ([a-z0-9]+)")
UNLIKE = ("identity", "rand-k", "top-k", "threshold")
"""A compressor of every class."""


def with_link(one: Scenario, way: str, **changes: Any) -> Scenario:
    """Return a scenario whose link is another one."""
    old = getattr(one.wire, way)
    link = Compression.model_validate(old.model_dump() | changes)
    return one.model_copy(update={"wire": one.wire.model_copy(update={way: link})})


def followed(one: Scenario, way: str, key: str, text: str) -> Iterator[Scenario]:
    """Yield a scenario with each of the recommendations followed that a refusal makes."""
    recommended = text.rpartition("use " if key.endswith("feedback") else "an unbiased one")[2]
    for sends, value in REMEDY.findall(recommended):
        if sends:
            method = one.algorithm.model_copy(update={"sends": value})
            yield one.model_copy(update={"algorithm": method})
        else:
            yield with_link(one, way, error_feedback=value)
    for kind in COMPRESSORS if key.endswith("compressor.kind") else ():
        if re.search(rf"\b{kind}\b", recommended):
            yield with_link(one, way, compressor={"kind": kind} | COMPRESSORS[kind])


@every("way", ["up", "down"])
@every("method", methods.METHODS, few=methods.FAMILIES)
def test_what_a_refusal_recommends_is_accepted(method: str, way: str) -> None:
    """Of two faults, of which each has remedies of its own, any remedy of both is."""
    worlds = [one for one in WORLDS if not faults(scenario(method, way, "identity", "none", one))]
    assert "all" in worlds
    for world in worlds:
        base = load(scenario(method, way, "identity", "none", world)).variants[0].scenario
        for kind, feedback in product(UNLIKE, ("none", "ef", "ef21")):
            block = {"kind": kind} | COMPRESSORS[kind]
            check_remedies(with_link(base, way, compressor=block, error_feedback=feedback), way)


def check_remedies(one: Scenario, way: str) -> None:
    mended = [one]
    for key, text, _ in compression(one):
        mended = [better for each in mended for better in followed(each, way, key, text)]
        assert mended, text
    for each in mended:
        assert not list(compression(each))


def test_an_asynchronous_server_takes_what_is_recommended() -> None:
    blocks = scenario("fed-ht", "up", "identity", "none") | methods.ARRIVALS
    assert faults(blocks)["participation.kind"].endswith("use algorithm.sends: differences")
    blocks["algorithm"] = blocks["algorithm"] | {"sends": "differences"}
    assert not faults(blocks)
