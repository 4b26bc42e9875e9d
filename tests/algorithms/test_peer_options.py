"""Every option beside every method of peers changes what is recorded, or is refused."""

from functools import cache
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from tests import methods

Block = dict[str, Any]

PROBLEM: Block = {
    "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
    "data": {"kind": "smoothness", "clients": 5, "rows": 4, "features": 5, "growth": 1.1},
    "split": {"kind": "groups"},
}
RADIO: Block = {"kind": "wifi", "up": "100 kbit/s", "down": "200 kbit/s"}
GROUP: Block = {"count": 5, "device": "pi-4", "radio": RADIO}
UNEVEN: Block = {"kind": "edges", "edges": [[0, 1], [1, 2], [1, 3], [3, 4]]}
"""A graph whose degrees differ, as do its mixing matrices."""
BASE: Block = {
    "problem": PROBLEM,
    "network": {"peers": UNEVEN},
    "fleet": [GROUP],
    "participation": {"kind": "full", "deadline": "1 h"},
    "stop": {"rounds": 3, "time": "500 ms"},
}
TOP_K: Block = {"kind": "top-k", "count": 2}


def closing(**keys: object) -> Block:
    """Return participation by these keys."""
    return {"participation": {"kind": "full", **keys}}


def member(**keys: object) -> Block:
    """Return a fleet whose nodes have these keys, too."""
    return {"fleet": [GROUP | keys]}


OPTIONS: dict[str, Block] = {
    "uplink compressor": {"wire": {"up": {"compressor": TOP_K}}},
    "uplink feedback": {
        "wire": {"up": {"compressor": TOP_K, "error_feedback": "ef21"}},
        "participation": {"kind": "full"},
    },
    "downlink compressor": {"wire": {"down": {"compressor": TOP_K}}},
    "format of values": {"wire": {"values": "float16"}},
    "a sample": {"participation": {"kind": "uniform", "count": 2}},
    "asynchronous server": {"participation": {"kind": "asynchronous", "buffer": 2}},
    "deadline": closing(deadline="1 ms"),
    "late replies": closing(deadline="1 h", late="drop"),
    "quorum": closing(deadline="1 h", quorum="50 %"),
    "timeout of a round": closing(give_up="1 h"),
    "least charge": closing(deadline="1 h", least_charge="10 %"),
    "departures noticed late": closing(deadline="1 h", noticed="deadline"),
    "deadline of silence": {"silence": {"kind": "deadline", "after": "1 ms"}, **closing()},
    "late after silence": {
        "silence": {"kind": "deadline", "after": "1 ms", "late": "drop"},
        **closing(),
    },
    "local optimizer": {"algorithm": {"optimizer": {"kind": "sgd", "momentum": 0.9}}},
    "server optimizer": {"algorithm": {"server_optimizer": {"kind": "sgd", "momentum": 0.9}}},
    "mixing": {"network": {"peers": UNEVEN, "mixing": {"kind": "maximum-degree"}}},
    "failures": {"network": {"peers": UNEVEN, "failures": {"probability": "50 %"}}},
    "medium": {"network": {"peers": UNEVEN, "medium": {"access": "csma"}}},
    "broadcast of a cell": {"network": {"peers": UNEVEN, "broadcast": "cell"}},
    "another model of links": {"network": {"peers": UNEVEN, "model": "lv08"}},
    "tiers": {"tiers": [{"count": 2}]},
    "availability": member(availability={"kind": "bernoulli", "probability": 0.5}),
    "battery": member(battery={"capacity": "0.000001 Wh"}),
    "losses": member(radio=RADIO | {"loss": {"kind": "independent", "rate": "50 %"}, "tries": 1}),
    "penalty": {"problem": PROBLEM | {"penalty": {"kind": "l1", "weight": 0.01}}},
    "weights of clients": {"problem": PROBLEM | {"weights": "sum"}},
}
"""By name: what is other than in BASE; the keys of `algorithm` are added."""


METHODS = methods.PEERS | {"cola": {"penalty": 0.5, "rho": 10.0}}
"""Methods that send something in every round: of silence no option can change anything."""


def recorded(kind: str, changes: Block) -> list[pd.DataFrame]:
    """Run a method; return its log and its rounds."""
    algorithm = {"kind": kind, **METHODS[kind], **changes.get("algorithm", {})}
    blocks = BASE | changes | {"algorithm": algorithm}
    if kind in ADDS_UP and "participation" not in changes:
        del blocks["participation"]
    result = fedsim.run(blocks)
    return [result.events, result.rounds]


ADDS_UP = {"choco-sgd", "sparq-sgd", "choco-gossip"}
"""The methods that refuse a deadline."""


@cache
def plain(kind: str) -> list[pd.DataFrame]:
    """Return what is recorded of a method without any option."""
    return recorded(kind, {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.RunWarning")
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", methods.PEERS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_changes_what_is_recorded_or_is_refused(kind: str, option: str) -> None:
    try:
        found = recorded(kind, OPTIONS[option])
    except ScenarioError:
        return
    assert not all(map(pd.DataFrame.equals, found, plain(kind)))


@pytest.mark.parametrize("name", ["a deadline", "a graph that changes", "edges that fail"])
def test_ef21_is_refused_where_a_neighbour_may_miss_a_message(name: str) -> None:
    """The sender has one copy for all neighbours, which one without the message does not have."""
    changes: dict[str, Block] = {
        "a deadline": {"participation": {"kind": "full", "deadline": "1 s"}},
        "a graph that changes": {"network": {"peers": {"kind": "random-matching"}}},
        "edges that fail": {"network": {"peers": UNEVEN, "failures": {"probability": "50 %"}}},
    }
    blocks = BASE | {"algorithm": {"kind": "d-psgd", **METHODS["d-psgd"]}}
    blocks |= OPTIONS["uplink feedback"]
    with pytest.raises(ScenarioError) as caught:
        fedsim.check(blocks | changes[name])
    assert "wire.up.error_feedback" in [fault.key for fault in caught.value.faults]
