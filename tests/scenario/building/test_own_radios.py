"""A radio from outside the package: one class, and nothing else knows of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import Field

import fedsim
from fedsim.core.blocks.quantities import Duration, Rate
from fedsim.physics.radios import Draw, PacketRadio, RadioLaw, RateLaw, Rates, Terms
from fedsim.physics.signals import Signal


@dataclass(frozen=True)
class Passes(RateLaw):
    """A rate that is there in every other round, and a tenth of it in the others."""

    rate: float
    rest: float

    @property
    def peak(self) -> float:
        return self.rate

    @property
    def continuous(self) -> bool:
        return False

    def seconds(self, bits: int, framed: int) -> float:
        return 5.5 * framed / self.rate + self.rest

    def carrier(self, rng: Callable[[], np.random.Generator]) -> "Passes":
        return self

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        return Terms(self.rate if round_number % 2 else self.rate / 10, 1.0, self.rest)


class Satellite(PacketRadio, Draw):
    """A satellite that is overhead in every other round."""

    kind: Literal["satellite"] = Field(default="satellite", description="a test's own")
    rate: Rate = Field(description="while it is overhead")
    rest: Duration = Field(description="silence after every message")

    def rates(self, signals: Mapping[str, Signal]) -> Rates:
        law = Passes(self.rate, self.rest)
        return Rates(law, law)


SATELLITE: dict[str, Any] = {
    "kind": "satellite",
    "rate": "10 kbit/s",
    "rest": "2 s",
    "latency": "250 ms",
    "send": "3 W",
    "framing": "20 B",
    "packet": "120 B",
}
SCENARIO: dict[str, Any] = {
    "name": "overhead",
    "seed": 1,
    "problem": {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes"},
    },
    "algorithm": {"kind": "gd", "step_size": "1/L"},
    "fleet": [{"count": 2, "radio": SATELLITE}],
    "stop": {"rounds": 4},
}


def test_it_runs_and_its_law_sets_time_and_energy() -> None:
    result = fedsim.run(SCENARIO, blocks=[Satellite])
    sent = result.events.query("event == 'send' and node == 'client-0'")
    bits = int((sent["payload_bits"] + sent["header_bits"]).iloc[0])
    framed = bits + 8 * 20 * -(-bits // 800)  # 100 of 120 bytes are the message's
    seconds = [framed / (1e4 if number % 2 else 1e3) for number in sent["round"]]
    assert list(sent["round"]) == [1, 2, 3, 4]
    assert sent["duration"].tolist() == pytest.approx(seconds)
    assert sent["transport_bits"].tolist() == [framed - bits] * 4
    assert sent["joules"].tolist() == pytest.approx([3.0 * span for span in seconds])


def test_a_block_of_it_is_a_member_whose_laws_are_its_own(tmp_path: Path) -> None:
    satellite = Satellite.in_si(rate=1e4, rest=2.0, latency=0.25)
    assert satellite.rates({}).up == Passes(1e4, 2.0)
    assert satellite.draw is satellite
    with pytest.raises(ValueError, match="above 0"):
        Satellite.in_si(rate=0.0, rest=2.0, latency=0.25)


def test_a_radio_without_rates_is_refused() -> None:
    class Silent(RadioLaw):
        kind: Literal["silent"] = "silent"

    with pytest.raises(fedsim.FedsimError, match="it has no `rates`"):
        fedsim.run(SCENARIO, blocks=[Satellite, Silent])
