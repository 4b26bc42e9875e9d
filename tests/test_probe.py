"""What `fedsim check` says a round would cost is what a round does cost."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.building import Builder, Job
from fedsim.probe import round_cost
from fedsim.scenario import load
from tests.runs import small

COSTS = ["bits_up", "bits_down", "compute_s", "send_s", "receive_s", "tail_s", "joules"]


def job(**changes: Any) -> Job:
    plan = load(small(**changes))
    return Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0])


def after(rounds: int, **changes: Any) -> pd.DataFrame:
    """Return what each client has spent after so many rounds, all of them full."""
    gd = {"kind": "gd", "step_size": "1/L"}
    result = fedsim.run(small(algorithm=gd, **changes, stop={"rounds": rounds}))
    return result.clients.set_index("client")[COSTS]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "network": {
                "server": {"downlink": "200 kbit/s", "uplink": "100 kbit/s", "latency": "1 ms"}
            }
        },
        {"network": {"topology": "tree", "gateways": 2, "gateway": {"rate": "300 kbit/s"}}},
        {"fleet": [{"count": 5, "device": "yang-2021", "radio": "lora-sf7"}]},
    ],
    ids=["open", "shared", "tree", "lora"],
)
def test_a_round_costs_what_the_second_round_of_a_run_costs(changes: dict[str, Any]) -> None:
    cost = round_cost(job(**changes))
    expected = after(2, **changes) - after(1, **changes)
    pd.testing.assert_frame_equal(cost.clients[COSTS], expected, check_dtype=False, rtol=1e-9)


def test_the_battery_lasts_as_many_rounds_as_it_says() -> None:
    fleet = [{"count": 5, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "0.1 Wh"}}]
    cost = round_cost(job(fleet=fleet))
    gd = {"kind": "gd", "step_size": "1/L"}
    # From full to the cut-off of 5 %; below the threshold it would take no part any more.
    fleet[0]["battery"] = {"capacity": "0.1 Wh", "threshold": "6 %", "charge": "100 %"}
    result = fedsim.run(small(algorithm=gd, fleet=fleet, stop={"rounds": 10**5, "batteries": 1}))
    (dead,) = result.summary["rounds"]
    share = 0.94 / 0.95  # of the rounds to the cut-off, those to the threshold
    assert dead == pytest.approx(share * cost.rounds.min(), rel=0.02)


def test_chance_and_ends_do_not_count() -> None:
    calm = [{"count": 5, "device": "pi-4", "radio": "wifi"}]
    wild = [
        {
            "count": 5,
            "device": {"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 1.0}},
            "radio": {"kind": "wifi", "loss": {"kind": "independent", "rate": "30 %"}},
            "battery": {"charge": "30 %"},
            "availability": {"kind": "markov", "on": "1 s", "off": "10 s"},
        }
    ]
    policy = {"kind": "uniform", "count": 1, "deadline": "1 min"}
    plain = round_cost(job(fleet=calm))
    bare = round_cost(job(fleet=wild, participation=policy))
    assert bare.seconds == plain.seconds
    assert (bare.clients["joules"] == plain.clients["joules"]).all()
    assert np.isnan(plain.drained).all()
    assert (bare.drained > 0).all()
