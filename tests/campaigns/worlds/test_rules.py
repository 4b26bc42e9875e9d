"""The loops of `rules` can fail: a rule or an attack that computes something else is a finding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.protocol.aggregation import Aggregator, ClippedGossip, CoordinateMedian, Krum
from fedsim.protocol.attacks import InnerProductAttack, ReplayAttack

from .dice import Block
from .malicious import ALONE, OF_SERVERS, RULES
from .playing import play

CLIENTS = 8
SERVER: Block = {
    "problem": {
        "loss": {"kind": "squared", "l2": 0.1},
        "data": {"kind": "tong", "clients": CLIENTS, "rows": 6, "features": 3, "informative": 2},
        "split": {"kind": "groups"},
    },
    "algorithm": {"kind": "chb", "step_size": "0.1/L", "censor": 5},
    "stop": {"rounds": 12},
}
PEERS: Block = SERVER | {
    "algorithm": {"kind": "d-psgd", "step_size": "0.1/L_max"},
    "network": {"peers": {"kind": "complete"}},
}
NEEDED: dict[str, Block] = {"scaled": {"factor": -2.0}, "centred-clipping": {"radius": 1.0}}
COUNTED = ("trimmed-mean", "krum", "multi-krum", "bulyan", "mda")


def world(base: Block, rule: Block, attack: Block | None = None) -> Block:
    group = {"device": "phone-mid", "radio": "lte"}
    false = {"attack": attack} if attack else {}
    fleet = [{"count": CLIENTS - 1, **group}, {"count": 1, **group, **false}]
    return {**base, "fleet": fleet, "aggregation": rule}


@pytest.mark.parametrize("method", ["chb", "fedavg"])
@pytest.mark.parametrize("before", [[], ["nnm"], ["bucketing"]])
@pytest.mark.parametrize("kind", [kind for kind in RULES if kind != "mean"])
def test_every_rule_is_the_loop(kind: str, before: list[str], method: str, tmp_path: Path) -> None:
    rule = {"kind": kind, "before": before, **NEEDED.get(kind, {})}
    if kind in COUNTED or before:
        rule["byzantine"] = 1
    base = SERVER
    if method == "fedavg":
        base = SERVER | {"algorithm": {"kind": "fedavg", "step_size": 0.001, "local_steps": 2}}
    outcome = play(world(base, rule, {"kind": "ipm"}), tmp_path)
    few = "bucketing" in before and kind in {"krum", "multi-krum", "bulyan"}
    assert outcome.end == ("refused" if few else "done"), outcome.text


@pytest.mark.parametrize("kind", [*ALONE, *OF_SERVERS])
def test_every_attack_is_the_loop(kind: str, tmp_path: Path) -> None:
    attack = {"kind": kind, **NEEDED.get(kind, {})}
    outcome = play(world(SERVER, {"kind": "median"}, attack), tmp_path)
    assert outcome.end == "done", outcome.text


def _shifted(method: Any) -> Any:
    """Return a method whose results are off by a thousandth."""

    def again(self: Any, *args: Any) -> Array:
        return np.asarray(method(self, *args)) * 1.001

    return again


@pytest.mark.parametrize(
    ("owner", "name", "case"),
    [
        (CoordinateMedian, "choose", world(SERVER, {"kind": "median"})),
        (Krum, "choose", world(SERVER, {"kind": "krum", "byzantine": 1})),
        (ClippedGossip, "mix", world(PEERS, {"kind": "clipped-gossip", "radius": 0.1})),
        (InnerProductAttack, "collude", world(SERVER, {"kind": "mean"}, {"kind": "ipm"})),
        (ReplayAttack, "distort", world(SERVER, {"kind": "mean"}, {"kind": "replay"})),
        (Aggregator, "_combine", world(SERVER, {"kind": "geometric-median"})),
    ],
)
def test_what_computes_something_else_is_found(
    owner: type, name: str, case: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert play(case, tmp_path).end == "done"
    monkeypatch.setattr(owner, name, _shifted(getattr(owner, name)))
    outcome = play(case, tmp_path)
    assert outcome.end == "finding"
    assert "Otherwise" in outcome.text
