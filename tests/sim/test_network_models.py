"""A network model of a user's own: its messages, and what follows from what it declares."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.addons.robustness.fleets import unplayable
from fedsim.core.errors import FedsimError
from fedsim.extend import (
    Bearers,
    Duration,
    FluidFlows,
    Link,
    Nature,
    NetworkModel,
    NetworkSite,
    Route,
    StepSignal,
    Topology,
    TracedRate,
)
from fedsim.results.record.parts import read_table
from fedsim.scenario.building import Builder
from fedsim.sim.arrays.fits import why_events

PERIOD, SIGHT, RATE = 1e-2, 1e-4, 1e6
SCENARIO: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "l2": 0.1},
        "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
    },
    "algorithm": {"kind": "gd", "step_size": "1/L"},
    "fleet": [{"count": 3, "device": "pi-4", "radio": "wifi-6"}],
    "network": {"model": {"kind": "windows", "period": "10 ms", "sight": "100 us"}},
    "stop": {"rounds": 3},
}


class Windows(NetworkModel):
    """Bits flow in the first part of every period."""

    kind: Literal["windows"] = "windows"
    period: Duration
    sight: Duration

    @property
    def nature(self) -> Nature:
        return Nature(waits="messages wait for the next window")

    def bearers(self, site: NetworkSite) -> Bearers:
        sight = StepSignal([0.0, self.sight], [RATE, 0.0], self.period)
        links = tuple(Link(TracedRate(sight), "fair", "sky") for _ in range(2 * site.clients))
        up = tuple(Route((n,), 0.0) for n in range(site.clients))
        down = tuple(Route((site.clients + n,), 0.0) for n in range(site.clients))
        return FluidFlows().bearers(replace(site, topology=Topology(links, up, down)))


def seen(until: float) -> float:
    """Return for how long there was a window until a time, s."""
    whole, rest = divmod(until, PERIOD)
    return whole * SIGHT + min(rest, SIGHT)


def test_a_message_has_passed_when_the_windows_have_held_its_bits(tmp_path: Path) -> None:
    result = fedsim.run(SCENARIO, out=tmp_path / "run", blocks=[Windows])
    events = read_table(result.runs[0], "events").to_pandas()
    sent = events[events["event"] == "send"]
    assert len(sent) >= 9
    bits = sent["payload_bits"] + sent["header_bits"] + sent["transport_bits"]
    begun = sent["t"] - sent["duration"]
    passed = [RATE * (seen(end) - seen(begin)) for begin, end in zip(begun, sent["t"], strict=True)]
    np.testing.assert_allclose(passed, bits, rtol=1e-6)
    assert (sent["duration"] > 3 * PERIOD).all()  # some 500 bits, 100 in each window


def test_what_a_model_declares_is_said_wherever_it_stands_in_the_way(tmp_path: Path) -> None:
    plan = fedsim.load(SCENARIO, blocks=[Windows])
    (job,) = Builder(plan).check()
    assert why_events(job.setup) == "messages wait for the next window"
    assert unplayable(job.scenario) == "network.model: messages wait for the next window"


def test_a_model_that_declares_nothing_is_taken_to_share() -> None:
    class Plain(Windows):
        kind: Literal["plain"] = "plain"  # type: ignore[assignment]
        nature = NetworkModel.nature

    block = Plain.in_si(period=1.0, sight=1.0)
    assert block.nature.shares == "messages under network.model plain depend on each other"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"network": {"model": "window"}}, "did you mean 'windows'?"),
        ({"network": {"model": {"kind": "windows", "sight": "1 s"}}}, "period"),
        ({"network": SCENARIO["network"] | {"wifi": {}}}, "shared by fluid alone"),
    ],
)
def test_a_model_in_the_wrong_place_is_refused(changes: Any, said: str) -> None:
    with pytest.raises(FedsimError, match=said.replace("?", r"\?")):
        fedsim.load({**SCENARIO, **changes}, blocks=[Windows])
