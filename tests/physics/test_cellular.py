"""LTE and 5G with stages: energies and waits in closed form, in a run and in its pricing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.physics.radios import CELLULAR, RADIOS, Radio, StagedRadio, powers_of
from tests.addons.repricing.prices import small as repriced
from tests.addons.repricing.prices import unlike
from tests.runs import small
from tests.tiers import every

NAMES = list(CELLULAR)
HUANG: dict[str, Any] = {"kind": "lte-drx"}
SUSPENDED: dict[str, Any] = {
    "kind": "5g-low-drx", "short_cycle": "40 ms", "short_time": "1 s", "inactive": "5 s",
    "inactive_cycle": "0.64 s", "resume_time": "0.1 s", "resume_power": "1 W",
}  # fmt: skip
SILENCES = (0.05, 0.11, 2.0, 11.0, 14.0, 100.0)


def radio(block: str | dict[str, Any]) -> StagedRadio:
    return StagedRadio.model_validate(block)


def power_by_hand(law: StagedRadio, age: float) -> float:
    """Return what the radio draws so long after its last bit, at each instant rather than mean, W.

    Independent of `law.states`: it walks through timers and cycles.
    """

    def cyclic(since: float, cycle: float, on: float, high: float, low: float) -> float:
        return high if not cycle or since % cycle < on else low

    if age < min(law.inactivity, law.connected):
        return law.base
    since = age - law.inactivity
    if age < law.connected:
        if since < law.short_time:
            return cyclic(since, law.short_cycle, law.drx_on, law.monitor, law.doze)
        since -= law.short_time
        return cyclic(since, law.long_cycle, law.drx_on, law.monitor, law.doze)
    since = age - law.connected
    if since < law.inactive:
        return cyclic(since, law.inactive_cycle, law.paging_on, law.paging, law.idle)
    since -= law.inactive
    return cyclic(since, law.paging_cycle, law.paging_on, law.paging, law.idle)


def joules(law: StagedRadio, silence: float) -> float:
    """Return the energy of a silence after the last bit, by the law's own stages, J."""
    spent, since = law.resting * silence, 0.0
    for stage in law.states.stages:
        spent += stage.power * min(stage.time, max(silence - since, 0.0))
        since += stage.time
    return spent


@pytest.mark.slow
@every("block", [*NAMES, SUSPENDED])
@every("silence", SILENCES, few=(0.05, 0.11, 2.0, 11.0, 25.0))
def test_the_energy_of_a_silence_is_the_integral_of_what_is_on(
    block: str | dict[str, Any], silence: float
) -> None:
    law = radio(block)
    step = 1e-4
    instants = np.arange(step / 2, silence, step)
    integral = sum(power_by_hand(law, age) for age in instants.tolist()) * step
    # Mean powers differ from what is on and off by a part of one cycle a stage at most.
    slack = 1e-3 * integral + step * law.monitor
    for cycle, on, high, low in (
        (law.long_cycle, law.drx_on, law.monitor, law.doze),
        (law.short_cycle, law.drx_on, law.monitor, law.doze),
        (law.paging_cycle, 2 * law.paging_on, law.paging, law.idle),
    ):
        slack += (high - low) * on * bool(cycle)
    assert joules(law, silence) == pytest.approx(integral, abs=slack)


def test_the_stages_of_huang_et_al_in_numbers() -> None:
    """Base 1288.04 mW for 100 ms; 1680 mW for 1 ms in 20, then in 40 ms, and 1060 mW between."""
    law = radio(HUANG)
    paged = 0.594 * 43e-3 / 1.28
    short, long = (1.06 + (1.68 - 1.06) * 1e-3 / cycle for cycle in (20e-3, 40e-3))
    tail = 1.28804 * 0.1 + short * 0.02 + long * 11.48
    assert law.resting == pytest.approx(paged, rel=1e-12)
    assert joules(law, 60.0) == pytest.approx(tail + paged * (60 - 11.6), rel=1e-12)
    assert [stage.name for stage in law.states.stages] == [
        "inactivity", "short-drx", "long-drx", "",
    ]  # fmt: skip
    assert powers_of(law).held + law.resting == pytest.approx(1.28804, rel=1e-12)


def test_rrc_inactive_is_paged_and_resumes_on_its_own_terms() -> None:
    law = radio(SUSPENDED)
    names = [stage.name for stage in law.states.stages]
    assert names == ["inactivity", "short-drx", "long-drx", "inactive", ""]
    inactive, idle = law.states.stages[3:]
    assert (inactive.time, inactive.cycle, inactive.wake_time) == (5.0, 0.64, 0.1)
    assert inactive.wake_power + law.resting == pytest.approx(1.0, rel=1e-12)
    assert (idle.cycle, idle.wake_time) == (1.28, 0.3)
    paged = 0.594 * 43e-3 / 0.64
    assert inactive.power + law.resting == pytest.approx(paged, rel=1e-12)


@every("name", NAMES)
def test_no_stage_draws_less_than_the_next(name: str) -> None:
    powers = [stage.power for stage in radio(name).states.stages]
    assert powers == sorted(powers, reverse=True)
    assert powers[-1] == 0


@every("name", [name for name in NAMES if name.endswith("-drx")])
def test_all_else_is_the_preset_without_stages(name: str) -> None:
    law, plain = radio(name), Radio.model_validate({"kind": name.removesuffix("-drx")})
    for key in ("up", "down", "latency", "energy_up", "energy_down", "base", "framing", "packet"):
        assert getattr(law, key) == getattr(plain, key)
    assert name.removesuffix("-drx") in RADIOS


def test_the_stages_of_standalone_5g_in_numbers() -> None:
    """1.2 W for 0.3 s; 10 of 60 ms until 10.2 s, 0.24 W between; paged until 15 s, and beyond."""
    law = radio("5g-sa")
    paged = 0.594 * 43e-3 / 1.28
    drx = 0.24 + 0.96 * 10 / 60
    connected = 1.2 * 0.3 + drx * 9.9
    assert joules(law, 60.0) == pytest.approx(connected + paged * 49.8, rel=1e-12)
    *_, inactive, idle = law.states.stages
    assert (inactive.name, inactive.power) == ("inactive", 0.0)
    assert inactive.time == pytest.approx(4.8)
    # A resume is quicker than a connection from idle, and cheaper: the power is the same.
    wakings = [each.wake_time * (each.wake_power + law.resting) for each in (inactive, idle)]
    assert wakings == pytest.approx([0.1 * 1.2, 0.35 * 1.2], rel=1e-12)


def test_an_lte_m_message_costs_what_a_power_profiler_has_measured() -> None:
    """0.152 mWh for 200 bytes there and back, less those of waking: 12 s at 6 mA, rounded, and 5 V.

    They include an exchange of 0.8 s, during which this modem waits for the server connected.
    """
    law = radio("lte-m")
    up = (law.energy_up + law.base / law.up) * 1600
    down = law.base / law.down * 1600
    waits = (0.8 - 3200 / law.up - law.inactivity) * law.doze
    spent = up + down + waits + joules(law, 10.0)
    least, most = (0.152 * 3.6 - 12 * amperes * 5 for amperes in (6.5e-3, 5.5e-3))
    assert least < spent < most
    assert law.resting == pytest.approx(1e-5 + (0.1 - 1e-5) * 46e-3 / 1.28, rel=1e-12)


@pytest.fixture(scope="module", name="run")
def _run(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    """Two rounds in which one client computes for long between a download and an upload."""
    device = {"kind": "custom", "speed": "0.4 kflop/s", "idle": "0 W", "active": "0 W"}
    fast = {**device, "speed": "1 Tflop/s"}
    scenario = small(
        fleet=[
            {"count": 1, "device": device, "radio": SUSPENDED},
            {"count": 1, "device": fast, "radio": SUSPENDED},
        ],
        algorithm={"kind": "gd", "step_size": "1/L"},
        stop={"rounds": 2},
    )
    return fedsim.run(scenario, out=tmp_path_factory.mktemp("cellular") / "out")


def test_a_run_passes_through_all_stages_and_pays_for_each(run: fedsim.Result) -> None:
    law = radio(SUSPENDED)
    events = run.events
    own = events[events["node"] == "client-0"]
    (computed,) = own.loc[(own["event"] == "compute") & (own["round"] == 1), "t"]
    (received,) = own.loc[(own["event"] == "receive") & (own["round"] == 1), "t"]
    assert computed - received > 16.2  # beyond RRC inactive
    tails = own[(own["event"] == "tail") & (own["t"] > received) & (own["t"] <= computed)]
    by_hand = {
        "inactivity": (0.3, law.base),
        "short-drx": (1.0, 0.24 + 0.96 * 10 / 40),
        "long-drx": (10.2 - 1.3, 0.24 + 0.96 * 10 / 320),
        "inactive": (5.0, 0.594 * 43 / 640),
    }
    assert tails["detail"].astype(str).tolist() == list(by_hand)
    rest = 0.594 * 43 / 1280
    for row, (time, watts) in zip(tails.to_dict("records"), by_hand.values(), strict=True):
        assert row["duration"] == pytest.approx(time, rel=1e-9)
        assert row["joules"] == pytest.approx(time * (watts - rest), rel=1e-9)
    length = float(events["t"].max())
    client = run.clients.to_dict("records")[0]
    assert client["idle_joules"] == pytest.approx(rest * length, rel=1e-9)
    promoted = own[own["event"] == "promotion"]
    assert promoted["duration"].tolist() == pytest.approx([0.3] * len(promoted))
    assert client["promotion_joules"] == pytest.approx(len(promoted) * 0.3 * (1.2 - rest))


def test_a_model_waits_in_the_network_until_the_idle_radio_is_paged(run: fedsim.Result) -> None:
    """The second client computes for no time and is idle when the first one has replied."""
    own = run.events[run.events["node"] == "client-1"]
    (idle_since,) = own.loc[(own["detail"] == "inactive") & (own["round"] == 1), "t"]
    (woken,) = own[(own["event"] == "promotion") & (own["round"] == 2)].to_dict("records")
    (asked,) = run.events.loc[(run.events["event"] == "exchange") & (run.events["round"] == 2), "t"]
    heard = woken["t"] - woken["duration"]
    assert asked <= heard < asked + 1.28 + 0.1
    cycles = (heard - idle_since) / 1.28
    assert cycles > 1
    assert cycles == pytest.approx(round(cycles), abs=1e-6)


def test_prices_are_those_of_a_run(tmp_path: Path) -> None:
    overrides = ["fleet.0.radio=lte-drx", "fleet.1.radio={kind: 5g-low-drx, inactive: 2 s}"]
    assert not unlike(repriced("chb"), overrides, tmp_path)


@pytest.mark.slow
def test_constants_of_stages_are_uncertain_and_sampled(tmp_path: Path) -> None:
    fleet = [{"count": 3, "device": "phone-mid", "radio": "lte-2020-drx"}]
    gd = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
    study = small(fleet=fleet, variants={"gd": gd, "chb": {}}, stop={"rounds": 4})
    fedsim.run(study, out=tmp_path / "out")
    found = fedsim.robust(tmp_path / "out", runs=3)
    keys = {str(key) for key in found.constants["constant"]}
    assert {"lte-2020-drx.doze", "lte-2020-drx.connected"} <= keys
    joules = found.verdicts[found.verdicts["cost"] == "joules"]
    assert joules["ratio"].notna().any()
