"""Radios in arrays: losses, rates that vary, silences and stages leave the bytes that events do."""

from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.columns import SparseColumn
from fedsim.physics.radios.channel import steady_end
from fedsim.sim.world import World
from tests.campaigns.worlds.playing import _different
from tests.tiers import some

from .array_worlds import compared
from .test_arrays import LTE, both, scenario

RATE = "seconds,rate\n0,3000\n0.5,0\n1.25,64000\n4,200\n"

LOSSY = {"loss": {"kind": "independent", "rate": "20 %"}, "packet": "40 B", "framing": "20 B"}
BURSTS = {"loss": {"kind": "gilbert-elliott", "p": "10 %", "r": "30 %"}, "packet": "90 B"}
TRACED = {
    "kind": "custom",
    "down": "1 Mbit/s",
    "up": "1 Mbit/s",
    "latency": "20 ms",
    "send": "1 W",
    "energy_up": "1 nJ/bit",
    "energy_down": "0 J/bit",
    "base": "10 mW",
    "up_trace": {"kind": "csv", "path": "rate.csv", "shift": "random"},
}
CHANNEL = {"bandwidth": "200 Hz", "power": "100 mW", "server_power": "1 W", "distance": "900 m"}

RADIOS: dict[str, dict[str, Any]] = {
    "losses": {"kind": "lte", **LOSSY},
    "losses in bursts": {"kind": "wifi-6", **BURSTS},
    "losses, seldom for good": {"kind": "lte", **LOSSY, "tries": 20},
    "a trace": TRACED,
    "a trace and losses": {**TRACED, **LOSSY, "tail_time": "1 s", "tail_power": "2 W"},
    "fading": {"kind": "shannon", **CHANNEL},
    "silence after a message": {"kind": "lora-sf7"},
    "stages": {"kind": "5g-low-drx"},
    "paging": {"kind": "nb-iot"},
}


@given(clients=st.integers(1, 2000), seed=st.integers(0, 2**32 - 1), most=st.integers(1, 30))
def test_a_sparse_column_is_an_array_whichever_clients_are_written_to(
    clients: int, seed: int, most: int
) -> None:
    rng = np.random.default_rng(seed)
    column, array = SparseColumn(clients, np.float64(inf)), np.full(clients, inf)
    for _ in range(8):
        ids = np.sort(rng.choice(clients, rng.integers(min(clients, most) + 1), replace=False))
        column[ids] = array[ids] = rng.random(len(ids))
        assert np.array_equal(column[np.arange(clients)], array)
        for limit in (0.5, inf):
            assert np.array_equal(column.below(limit), np.flatnonzero(array < limit))


@pytest.mark.parametrize("name", RADIOS)
@pytest.mark.parametrize("shared", [False, True])
def test_radios_in_arrays_write_what_they_write_as_events(
    name: str, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rate.csv").write_text(RATE)
    monkeypatch.chdir(tmp_path)
    links = shared and "trace" not in name
    network: dict[str, Any] = {"network": {"server": {"uplink": "3 kbit/s"}}} if links else {}
    fleet = [{**LTE, "count": 3, "radio": RADIOS[name]}, {**LTE, "count": 2}]
    network["participation"] = {"kind": "full", "deadline": "9 h"}
    with patch.object(World, "_start_again", side_effect=AssertionError("made again")):
        one, other = both(tmp_path, scenario(fleet=fleet, **network))
    assert not _different(one, other)
    clients = fedsim.open(one).clients
    assert ("loss" in name) == (clients["bits_again"] > 0).any()
    assert ("stages" in name) == ("inactivity" in {*fedsim.open(one).events["detail"]})


def test_a_message_that_is_lost_for_good_has_the_run_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.sim.arrays.fits._RARE_LOSS", 1.0)
    radio = {"kind": "lte", **LOSSY, "tries": 2}
    seen = list[int]()
    again = World._start_again

    def start_again(world: World) -> None:
        seen.append(1)
        again(world)

    parts = {
        "fleet": [{**LTE, "radio": radio}],
        "participation": {"kind": "full", "deadline": "9 s"},
    }
    with patch.object(World, "_start_again", start_again):
        one, other = both(tmp_path, scenario(**parts, stop={"rounds": 3}))
    assert fedsim.open(one).clients["lost"].sum() > 0
    assert seen == [1]
    assert not _different(one, other)


def test_no_bits_take_no_time_at_any_rate() -> None:
    assert steady_end(3.0, 0, 0.0) == 3.0
    assert steady_end(3.0, 8, 16.0) == 3.5


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("first", some(range(1, 101, 25), 1))
def test_small_worlds_are_the_same_in_arrays_and_as_events(first: int, *, tied: bool) -> None:
    ends = [compared(number, tied=tied) for number in range(first, first + 25)]
    assert "different" not in ends
    assert ends.count("same") > 12
