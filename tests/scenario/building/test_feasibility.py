"""What can never work out is found before anything runs, all of it at once."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.scenario.building.plans import SMALL, found, group, job


def radio(**changes: Any) -> list[dict[str, Any]]:
    return group(radio={"kind": "lte"} | changes)


def csv(repeat: bool, path: str = "a.csv") -> dict[str, Any]:
    return {"kind": "csv", "path": path, "repeat": repeat}


@pytest.mark.parametrize(
    ("content", "repeat", "words"),
    [
        ("0,0\n5,0\n", True, "no traffic"),
        ("0,0\n5,0\n", False, "no traffic"),
        ("0,3\n5,0\n", False, "ends at 0 Mbit/s after 5 s"),
        ("0,3\n5,0\n", True, ""),
        ("0,0\n5,3\n", False, ""),
    ],
)
@pytest.mark.parametrize("direction", ["up_trace", "down_trace"])
def test_a_trace_that_carries_nothing(
    tmp_path: Path, content: str, repeat: bool, words: str, direction: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    fleet = radio(**{direction: csv(repeat)})
    if not words:
        job(tmp_path, fleet=fleet)
        return
    faults = found(tmp_path, fleet=fleet)
    assert list(faults) == [f"fleet.0.radio.{direction}"]
    assert words in faults[f"fleet.0.radio.{direction}"]


def test_a_harvest_of_nothing_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,0\n5,0\n")
    battery = {"charging": {"kind": "harvest", "path": "a.csv"}}
    member = job(tmp_path, fleet=group(battery=battery)).setup.fleet[0]
    assert (member.source.average, member.source.peak) == (0, 0)


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ({"radio": {"kind": "lte", "up_trace": csv(repeat=True)}}, "fleet.0.radio.up_trace"),
        (
            {"radio": {"kind": "lte", "down_trace": {"kind": "mahimahi", "path": "a.csv"}}},
            "fleet.0.radio.down_trace",
        ),
        (
            {"battery": {"charging": {"kind": "harvest", "path": "a.csv"}}},
            "fleet.0.battery.charging.path",
        ),
        ({"availability": {"kind": "intervals", "path": "a.csv"}}, "fleet.0.availability.path"),
    ],
)
@pytest.mark.parametrize("content", [None, "", "x,y,z\nnonsense\n"])
def test_a_file_that_cannot_be_read(
    tmp_path: Path, block: dict[str, Any], key: str, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "a.csv").write_text(content)
    faults = found(tmp_path, fleet=group(**block))
    assert list(faults) == [key]
    assert "a.csv" in faults[key]


def deadline(kind: str, seconds: float) -> dict[str, Any]:
    if kind == "silence":
        return {"silence": {"kind": "deadline", "after": f"{seconds!r} s"}}
    return {"participation": {"kind": "full", "deadline": f"{seconds!r} s"}}


@pytest.mark.parametrize(
    ("kind", "key"), [("silence", "silence.after"), ("full", "participation.deadline")]
)
@pytest.mark.parametrize(
    ("slowdown", "factor"),
    [
        ({"kind": "none"}, 1.0),
        ({"kind": "shifted-exponential", "shift": 3, "rate": 1}, 3.0),
    ],
)
def test_a_deadline_before_anybody_can_be_ready(
    tmp_path: Path, kind: str, key: str, slowdown: dict[str, Any], factor: float
) -> None:
    slow = {"kind": "phone-low", "speed": "2 kflop/s", "slowdown": slowdown}
    fleet = [{"count": 2, "device": slow | {"speed": "1 kflop/s"}}, {"count": 2, "device": slow}]
    losses = job(tmp_path, fleet=fleet).problem.losses
    least = factor * min(loss.gradient_operations for loss in losses[2:]) / 2e3
    job(tmp_path, fleet=fleet, **deadline(kind, 1.01 * least))
    faults = found(tmp_path, fleet=fleet, **deadline(kind, 0.99 * least))
    assert list(faults) == [key]
    for words in (f"got {0.99 * least:g} s", f"{least:.4g} s", "phone-low over ideal"):
        assert words in faults[key]


def test_a_lognormal_task_may_be_as_fast_as_it_likes(tmp_path: Path) -> None:
    device = {"kind": "pi-4", "speed": "1 flop/s", "slowdown": {"kind": "lognormal", "sigma": 1}}
    job(tmp_path, fleet=group(device=device), **deadline("full", 1.0))


LOSSY = {"loss": {"kind": "independent", "rate": "1 %"}, "tries": 2}
SAMPLE = {"kind": "uniform", "count": 3}


@pytest.mark.parametrize(
    ("participation", "feasible"),
    [
        ({"kind": "full"}, False),
        ({"kind": "full", "quorum": "75 %"}, True),
        ({"kind": "full", "quorum": "76 %"}, False),
        ({"kind": "full", "deadline": "1 h"}, True),
        ({"kind": "full", "deadline": "1 h", "quorum": "100 %"}, False),
        (SAMPLE, False),
        (SAMPLE | {"over": 1.3}, True),
        (SAMPLE | {"quorum": "50 %"}, True),
        ({"kind": "asynchronous"}, False),
    ],
)
def test_a_message_that_is_lost_for_good_needs_a_round_that_closes(
    tmp_path: Path, participation: dict[str, Any], feasible: bool
) -> None:
    fleet = [{"count": 2}, *group(count=2, radio={"kind": "lte"} | LOSSY)]
    patient = [{"count": 2}, *group(count=2, radio={"kind": "lte", "loss": LOSSY["loss"]})]
    job(tmp_path, fleet=patient, participation=participation)
    if feasible:
        job(tmp_path, fleet=fleet, participation=participation)
        return
    faults = found(tmp_path, fleet=fleet, participation=participation)
    assert list(faults) == ["fleet.1.radio.tries"]
    for words in ("phone-mid over lte", "2 tries", "use tries: unlimited"):
        assert words in faults["fleet.1.radio.tries"]


CELL = {"topology": "star", "broadcast": "cell"}


def test_what_a_cell_hears_is_not_sent_again(tmp_path: Path) -> None:
    fleet = group(count=2, radio={"kind": "lte", "loss": LOSSY["loss"]})
    faults = found(tmp_path, fleet=fleet, network=CELL)
    assert list(faults) == ["network.broadcast"]
    assert "use unicast" in faults["network.broadcast"]
    job(tmp_path, fleet=fleet, network=CELL, **deadline("full", 100.0))


def test_a_cell_whose_listeners_follow_traces_has_no_rate(tmp_path: Path) -> None:
    (tmp_path / "rate.csv").write_text("0,5\n10,2\n")
    trace = {"kind": "csv", "path": "rate.csv"}
    up = group(count=2, radio={"kind": "lte", "up_trace": trace})
    job(tmp_path, fleet=up, network=CELL)
    down = group(count=2, radio={"kind": "lte", "down_trace": trace})
    faults = found(tmp_path, fleet=down, network=CELL)
    assert list(faults) == ["fleet.0.radio.down_trace"]
    assert "phone-mid over lte" in faults["fleet.0.radio.down_trace"]


def test_a_battery_gives_no_energy_in_no_time(tmp_path: Path) -> None:
    radio = {"kind": "lte", "up": "unlimited"}
    job(tmp_path, fleet=group(count=2, radio=radio))
    faults = found(tmp_path, fleet=group(count=2, radio=radio, battery={"capacity": "1 Wh"}))
    assert list(faults) == ["fleet.0.radio.up"]
    for words in ("phone-mid over lte", "438.39 nJ/bit", "expected a rate"):
        assert words in faults["fleet.0.radio.up"]


def test_a_lora_frame_carries_its_mac_bytes_beside_the_message(tmp_path: Path) -> None:
    framing = job(tmp_path, fleet=group(count=2, radio="lora-sf7")).setup.fleet[0].radio.packaging
    assert (framing.packets(8 * 222), framing.bits(8 * 222)) == (1, 8 * 13)
    assert (framing.packets(8 * 223), framing.bits(8 * 223)) == (2, 2 * 8 * 13)


def test_silence_that_is_waited_for_closes_rounds(tmp_path: Path) -> None:
    job(tmp_path, fleet=radio(**LOSSY), **deadline("silence", 60.0))


def test_all_of_it_comes_at_once_with_the_faults_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,0\n1,0\n")
    lossy = {"kind": "lte", "up_trace": csv(repeat=True)} | LOSSY
    battery = {"charging": {"kind": "harvest", "path": "none.csv"}}
    fleet = group(radio=lossy, battery=battery)
    network = {"topology": "graph", "edges": [{"source": "server", "target": "client-0"}]}
    faults = found(tmp_path, fleet=fleet, network=network)
    assert set(faults) == {
        "fleet.0.radio.up_trace",
        "fleet.0.radio.tries",
        "fleet.0.battery.charging.path",
        "network.edges",
    }
    data = {"problem": {**SMALL["problem"], "data": {"kind": "libsvm", "path": "none.txt"}}}
    faults = found(tmp_path, fleet=fleet, network=network, **data)
    assert "problem.data.path" in faults
    assert set(faults) >= {"fleet.0.radio.up_trace", "fleet.0.battery.charging.path"}


def test_faults_have_their_lines_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [
        "problem:",
        "  loss: {kind: squared}",
        "  data: {kind: sklearn, name: diabetes}",
        "algorithm: {kind: gd, step_size: 0.1}",
        "network: {topology: graph, path: none.csv}",
        "fleet:",
        "  - count: 4",
        "    radio:",
        "      kind: lte",
        "      up_trace: {kind: mahimahi, path: none.up}",
        "    availability: {kind: intervals, path: none.csv}",
    ]
    path = tmp_path / "f.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(ScenarioError) as caught:
        Builder(load(path)).check()
    where = [(fault.where.rpartition(":")[2], fault.key) for fault in caught.value.faults]
    assert where == [
        ("5", "network.path"),
        ("10", "fleet.0.radio.up_trace"),
        ("11", "fleet.0.availability.path"),
    ]


def test_what_variants_have_in_common_is_said_once(tmp_path: Path) -> None:
    variants = {"slow": {"seed": 2}, "other": {"fleet": radio(up_trace=csv(True, "b.csv"))}}
    fleet = radio(up_trace=csv(repeat=True))
    with pytest.raises(ScenarioError) as caught:
        Builder(load(SMALL | {"fleet": fleet, "variants": variants})).check()
    assert [fault.key for fault in caught.value.faults] == ["fleet.0.radio.up_trace"]


def flickering(**battery: Any) -> list[dict[str, Any]]:
    """A store of a millijoule, a watt that is drawn at rest, and half a watt that comes in."""
    device = {"kind": "ideal", "speed": "1000 Gflop/s", "idle": "1 W", "active": "1 W"}
    battery = {
        "capacity": "0.0002777777777777778 mWh",
        "cutoff": "0 %",
        "charging": {"kind": "constant", "power": "0.5 W"},
    } | battery
    return group(device=device, battery=battery, radio="ideal")


def harvesting(**battery: Any) -> list[dict[str, Any]]:
    """A store of 3.6 J and a charger of 1 W; what a gradient takes is on the processor alone."""
    device = {"kind": "ideal", "speed": "0.2 Mflop/s", "idle": "0 W", "active": "5 W"}
    battery = {
        "capacity": "1 mWh",
        "charging": {"kind": "constant", "power": "1 W"},
    } | battery
    return group(device=device, battery=battery, radio="ideal")


def test_a_restart_level_lasts_for_a_round_or_is_refused(tmp_path: Path) -> None:
    built = job(tmp_path, fleet=harvesting())
    loss = min(built.problem.losses, key=lambda each: each.rows)
    span = loss.gradient_operations / 0.2e6
    taken = (5.0 / 0.95 - 0.95 * 1.0) * span
    hysteresis = taken / 3.6
    low, high = 5 + 99 * hysteresis, 5 + 101 * hysteresis  # percent, around the level that will do
    job(tmp_path, fleet=harvesting(threshold="5 %", restart=f"{high} %"))
    (key,) = faults = found(tmp_path, fleet=harvesting(threshold="5 %", restart=f"{low} %"))
    assert key == "fleet.0.battery.restart"
    assert f"a round takes {taken:.3g} J more" in faults[key]
    # Of eight clients each has half as many samples, and so half as much to do.
    fewer = harvesting(threshold="5 %", restart=f"{5 + 45 * hysteresis} %")
    assert list(found(tmp_path, fleet=[*group(radio="ideal"), *fewer])) == [
        "fleet.1.battery.restart"
    ]
    # Whoever takes part above a charge of its own does not begin at the restart level.
    participation = {"kind": "full", "least_charge": f"{high} %"}
    low_battery = harvesting(threshold="5 %", restart=f"{low} %")
    job(tmp_path, fleet=low_battery, participation=participation)
    # A client that is never charged does not restart, and one that is charged faster never dies.
    job(tmp_path, fleet=harvesting(threshold="5 %", restart=f"{low} %", charging={"kind": "none"}))
    fast = {"kind": "constant", "power": "6 W"}
    job(tmp_path, fleet=harvesting(threshold="5 %", restart=f"{low} %", charging=fast))


@pytest.mark.parametrize("radio", ["lte", "wifi-6", "zigbee", "nb-iot-drx", "ideal"])
def test_what_a_restart_has_to_last_for_is_at_most_what_a_round_takes(
    radio: str, tmp_path: Path
) -> None:
    """And nearly all of it, its waking and its tail included: one client, without others."""
    device = {"kind": "custom", "speed": "5 kflop/s", "active": "1 W", "idle": "100 mW"}
    battery = {"capacity": "300 mWh", "charging": {"kind": "constant", "power": "300 mW"}}

    def alone(**changes: Any) -> dict[str, Any]:
        fleet = group(count=1, device=device, radio=radio, battery=battery | changes)
        return SMALL | {"fleet": fleet, "stop": {"rounds": 1}}

    text = found(tmp_path, **alone(threshold="5 %", restart="5.0001 %"))["fleet.0.battery.restart"]
    promised = float(text.partition("a round takes ")[2].partition(" J")[0])
    client = fedsim.run(alone(restart="99 %", charge="99 %")).clients.iloc[0]
    taken = float(client["initial_joules"] - client["final_joules"])
    assert 0.95 * taken < promised < 1.005 * taken


def test_a_battery_that_starts_empty_is_charged_or_refused(tmp_path: Path) -> None:
    built = job(tmp_path, fleet=harvesting(charge="3 %"))
    battery = built.setup.fleet[0].battery
    assert battery is not None
    assert battery.starts_empty
    leaking = {"self_discharge": "100 %/month", "charging": {"kind": "constant", "power": "1 uW"}}
    faults = found(tmp_path, fleet=harvesting(charge="3 %", **leaking))
    assert (
        "clients of ideal over ideal start empty, and would stay so"
        in faults["fleet.0.battery.charging"]
    )


def owning(**battery: Any) -> list[dict[str, Any]]:
    return group(device="phone-mid", radio="lte", battery=battery)


def test_a_charge_at_or_below_the_threshold_is_refused_if_nothing_raises_it(tmp_path: Path) -> None:
    key = "fleet.0.battery.charge"
    (text,) = found(tmp_path, fleet=owning(charge="10 %")).values()
    assert "got 10 %, which is below the default threshold (20 %)" in text
    assert text.endswith("give a charge above 20 %, threshold: 5 %, or charging")
    text = found(tmp_path, fleet=owning(charge="30 %", threshold="30 %"))[key]
    assert "got 30 %, which is at the threshold, and nothing charges" in text
    assert "one round at most" in text
    policy = {"kind": "full", "least_charge": "50 %"}
    text = found(tmp_path, fleet=owning(charge="40 %"), participation=policy)[key]
    assert "participation.least_charge (50 %)" in text
    assert "a lower least_charge" in text


def test_an_empty_battery_without_charging_has_one_error_and_a_gateway_its_name(
    tmp_path: Path,
) -> None:
    for charge in ("5 %", "2 %"):
        ((key, text),) = found(tmp_path, fleet=owning(charge=charge)).items()
        assert key == "fleet.0.battery.charge"
        assert text.startswith(f"got {charge}, at which the battery is shut down (cutoff: 5 %)")
        assert "clients of phone-mid over lte would never start; give a charge above 20 %" in text
        assert "threshold" not in text
    gateway = {"count": 2, "device": "phone-mid", "radio": "lte", "battery": {"charge": "10 %"}}
    averaging = {"kind": "fedavg", "step_size": 0.1}
    (text,) = found(tmp_path, algorithm=averaging, tiers=[gateway]).values()
    assert "gateways of phone-mid over lte would never take part" in text


def test_what_the_refusal_of_a_low_charge_advises_is_accepted(tmp_path: Path) -> None:
    charging = {"kind": "constant", "power": "1 W"}
    for advice in ({"threshold": "5 %"}, {"charging": charging}, {"charge": "20.1 %"}):
        job(tmp_path, fleet=owning(**({"charge": "10 %"} | advice)))
    leaking = {"self_discharge": "100 %/month", "charging": charging | {"power": "1 uW"}}
    faults = found(tmp_path, fleet=owning(charge="10 %", **leaking))
    assert "start too low to take part, and would stay so" in faults["fleet.0.battery.charging"]


def test_a_battery_that_flickers_is_found_and_more_capacity_helps(tmp_path: Path) -> None:
    faults = found(tmp_path, fleet=flickering())
    assert list(faults) == ["fleet.0.battery"]
    # 0.2 mJ come in at 0.475 W, and go at 1 W / 0.95 less that.
    cycle = 2e-4 / 0.475 + 2e-4 / (1 / 0.95 - 0.475)
    for words in ("ideal over", f"every {cycle:.3g} s", "more capacity"):
        assert words in faults["fleet.0.battery"]
    job(tmp_path, fleet=flickering(capacity="0.1 mWh"))


@pytest.mark.parametrize(("share", "many"), [(0.98, True), (1.02, False)])
@pytest.mark.parametrize(("charge", "discharge"), [(1.0, 1.0), (0.8, 0.7)])
@pytest.mark.parametrize("cutoff", [0.0, 0.4])
@pytest.mark.parametrize("resting", [0.0, 0.3])
def test_a_battery_flickers_below_ten_milliseconds_a_cycle(
    share: float, many: bool, charge: float, discharge: float, cutoff: float, resting: float,
    tmp_path: Path,
) -> None:  # fmt: skip
    """A cycle is the store's rise and its fall, each at the power that goes in less what goes out.

    So the capacity that makes it last 10 ms is known in closed form.
    """
    inflow, drawn, restart = 0.5 * charge, (1.0 + resting) / discharge, cutoff + 0.25
    joules = 0.01 / (0.25 / inflow + 0.25 / (drawn - inflow))
    battery = {
        "capacity": f"{share * joules / 3.6!r} mWh",
        "cutoff": f"{100 * cutoff} %",
        "threshold": f"{100 * cutoff + 20} %",
        "restart": f"{100 * restart} %",
        "charge_efficiency": f"{100 * charge} %",
        "discharge_efficiency": f"{100 * discharge} %",
    }
    (one,) = flickering(**battery)
    fleet = [one | {"radio": {"kind": "ideal", "idle": f"{resting} W"}}]
    if many:
        assert f"every {share * 0.01:.3g} s" in found(tmp_path, fleet=fleet)["fleet.0.battery"]
    else:
        job(tmp_path, fleet=fleet)


@pytest.mark.parametrize("key", ["silence.after", "participation.deadline"])
@pytest.mark.parametrize(
    ("seconds", "enough", "by_rows"),
    [(0.999, False, False), (1, True, False), (0.999, False, True)],
)
def test_a_deadline_lets_the_fastest_client_finish_a_gradient(
    key: str, seconds: float, enough: bool, by_rows: bool, tmp_path: Path
) -> None:
    built = job(tmp_path, fleet=group(count=4, device={"kind": "ideal", "speed": "1 flop/s"}))
    works = [(loss.gradient_operations, loss.rows) for loss in built.problem.losses]
    operations = min(operations for operations, _ in works[2:])  # the last two are the fast ones
    rows = min(rows for _, rows in works[2:])
    device: dict[str, Any] = {"kind": "ideal", "speed": f"{operations!r} flop/s"}
    if by_rows:
        device = {"kind": "custom", "kappa": 1e-28, "idle": "0 W", "frequency": "1 GHz"}
        device["cycles_per_sample"] = 1e9 / rows
    slow = {"kind": "ideal", "speed": f"{operations / 50!r} flop/s"}
    fleet = [*group(count=2, device=slow), *group(count=2, device=device)]
    block = {
        "silence.after": {"silence": {"kind": "deadline", "after": f"{seconds} s"}},
        "participation.deadline": {
            "participation": {"kind": "full", "deadline": f"{seconds} s"},
        },
    }[key]
    if enough:
        job(tmp_path, fleet=fleet, **block)
    else:
        text = found(tmp_path, fleet=fleet, **block)[key]
        assert "take 1 s for one gradient" in text


@pytest.mark.parametrize("power", ["0 W", "2 W"])
def test_a_battery_that_is_never_charged_or_never_empty_does_not_flicker(
    power: str, tmp_path: Path
) -> None:
    charging = {"kind": "constant", "power": power} if power != "0 W" else {"kind": "none"}
    job(tmp_path, fleet=flickering(charging=charging))


def test_a_threshold_at_the_cut_off_has_a_restart_above_it(tmp_path: Path) -> None:
    fleet = flickering(capacity="1 mWh", threshold="0 %")
    (member, *_) = job(tmp_path, fleet=fleet).setup.fleet
    assert member.battery is not None
    assert (member.battery.cutoff, member.battery.threshold) == (0.0, 0.0)
    assert member.battery.restarts_at == 0.1
