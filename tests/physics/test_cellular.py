"""LTE and 5G with stages: energies and waits in closed form, in a run and in its pricing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.physics.radios import CELLULAR, RADIOS, CellularRadio, Radio, powers_of
from tests.runs import small

NAMES = list(CELLULAR)
HUANG: dict[str, Any] = {"kind": "lte-drx"}
SUSPENDED: dict[str, Any] = {
    "kind": "5g-low-drx", "short_cycle": "40 ms", "short_time": "1 s", "inactive": "5 s",
    "inactive_cycle": "0.64 s", "resume_time": "0.1 s", "resume_power": "1 W",
}  # fmt: skip
SILENCES = (0.05, 0.11, 2.0, 11.0, 14.0, 100.0)


def radio(block: str | dict[str, Any]) -> CellularRadio:
    return CellularRadio.model_validate(block)


def power_by_hand(law: CellularRadio, age: float) -> float:
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


def joules(law: CellularRadio, silence: float) -> float:
    """Return the energy of a silence after the last bit, by the law's own stages, J."""
    spent, since = law.resting * silence, 0.0
    for stage in law.states.stages:
        spent += stage.power * min(stage.time, max(silence - since, 0.0))
        since += stage.time
    return spent


@pytest.mark.parametrize("block", [*NAMES, SUSPENDED], ids=str)
@pytest.mark.parametrize("silence", SILENCES)
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
    paged = 0.5943 * 43.2e-3 / 1.28
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
    paged = 0.5943 * 43.2e-3 / 0.64
    assert inactive.power + law.resting == pytest.approx(paged, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_no_stage_draws_less_than_the_next_and_all_else_is_the_preset_without_stages(
    name: str,
) -> None:
    law, plain = radio(name), Radio.model_validate({"kind": name.removesuffix("-drx")})
    powers = [stage.power for stage in law.states.stages]
    assert powers == sorted(powers, reverse=True)
    assert powers[-1] == 0
    for key in ("up", "down", "latency", "energy_up", "energy_down", "base", "framing", "packet"):
        assert getattr(law, key) == getattr(plain, key)
    assert set(RADIOS) >= {each.removesuffix("-drx") for each in NAMES}


def _run(block: str | dict[str, Any], out: Path | None = None, **changes: Any) -> fedsim.Result:
    """Run rounds that are far apart for one client, whose device is fast and draws nothing."""
    device = {"kind": "custom", "speed": "1 Tflop/s", "idle": "0 W", "active": "0 W"}
    own: dict[str, Any] = {
        "problem": {"loss": {"kind": "least-squares"}, "data": {"kind": "sklearn", "name": "diabetes"},
                    "split": {"kind": "contiguous", "clients": 1}},
        "fleet": [{"count": 1, "device": device, "radio": block}],
        "stop": {"rounds": 2},
        "variants": {},
    }  # fmt: skip
    return fedsim.run(small(**{**own, **changes}), out=out)
