"""The audit from outside: it holds in worlds of every kind, and sees what is left out."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.addons.conformance import check_energy
from fedsim.addons.conformance.assertions import check_sums
from fedsim.addons.conformance.energy import bodies_of, promises
from fedsim.physics.radios import CELLULAR, LORA, NB_IOT, RADIOS
from fedsim.results.record.parts import read_table
from fedsim.results.record.read import read_run
from fedsim.scenario import load
from fedsim.sim.network.transport import ServerLanes
from fedsim.testing import assert_kept, assert_ledger_balanced
from tests.tiers import every, some

Block = dict[str, Any]

SLOW: Block = {"kind": "custom", "speed": "100 flop/s", "active": "2 W", "idle": "0.5 W"}
CUSTOM: Block = {"kind": "custom", "up": "1 Mbit/s", "down": "2 Mbit/s", "latency": "10 ms"}
CUSTOM |= {"energy_up": "0 J/bit", "energy_down": "0 J/bit", "base": "0 W"}
SLEEPY = CUSTOM | {"send": "200 mW", "receive": "90 mW", "listen": "80 mW", "sleep": "1 mW"}
SLEEPY |= {"listening": "10 %", "tail_power": "50 mW", "tail_time": "300 ms"}
LOSSY = CUSTOM | {"base": "1 W", "send": "300 mW", "energy_up": "100 nJ/bit", "tail_power": "2 W"}
LOSSY |= {"tail_time": "2 s", "promotion_time": "1 s", "promotion_power": "3 W"}
LOSSY |= {"loss": {"kind": "independent", "rate": "30 %"}}
FADING: Block = {"kind": "shannon", "bandwidth": "20 kHz", "power": "200 mW"}
FADING |= {"server_power": "1 W", "distance": "300 m", "receive": "100 mW", "listen": "20 mW"}
NEAR: Block = {"kind": "first-order", "up": "1 Mbit/s", "down": "1 Mbit/s", "distance": "50 m"}
TRACED: Block = {"kind": "wifi-6", "up_trace": {"kind": "csv", "path": "rate.csv"}}

STEADY: list[Any] = [*RADIOS, *list(LORA)[:2], *NB_IOT, *CELLULAR, FADING, NEAR, SLEEPY]
"""Radios of all kinds that a cell may have, and that lose nothing."""

EVERY = [*STEADY, LOSSY, TRACED]
HOPELESS = [*EVERY, LOSSY | {"tries": 2}]


def fleet(radios: list[Any], **group: Any) -> list[Block]:
    return [{"count": 1, "radio": radio, "device": SLOW, **group} for radio in radios]


def world(**blocks: Any) -> Block:
    base: Block = {
        "name": "audited",
        "seed": 3,
        "algorithm": {"kind": "gd", "step_size": 1e-6},
        "fleet": fleet(EVERY),
        "stop": {"rounds": 3},
    }
    made = base | blocks
    clients = sum(group["count"] for group in made["fleet"])
    rng, owners = np.random.default_rng(0), np.arange(2 * clients) % clients
    data = fedsim.arrays(rng.normal(size=(2 * clients, 40)), owners * 1.0, client=owners)
    loss = {"kind": "squared", "scale": "sum"}
    return made | {"problem": {"loss": loss, "data": data, "split": {"kind": "groups"}}}


SLOW_LINKS: Block = {"server": {"uplink": "20 kbit/s", "downlink": "50 kbit/s"}}
LATE: Block = {"kind": "full", "deadline": "12 s", "late": "keep"}
BATTERY: Block = {"capacity": "60 J", "charge": "20 %", "cutoff": "5 %", "threshold": "10 %"}
BATTERY |= {"restart": "60 %", "charging": {"kind": "constant", "power": "0.7 W"}}
ON_AIR: list[Any] = [
    "wifi",
    {"kind": "wifi-6", "up": "50 Mbit/s", "down": "80 Mbit/s"},
    {"kind": "wifi-6", "up": "8.6 Mbit/s", "down": "8.6 Mbit/s"},
    {"kind": "wifi", "loss": {"kind": "independent", "rate": "10 %"}},
]
CHAIN: Block = {
    "topology": "graph",
    "edges": [
        {
            "source": "server" if not number else f"client-{number - 1}",
            "target": f"client-{number}",
            "rate": "50 kbit/s",
        }
        for number in range(3)
    ],
}
COMING: Block = {"kind": "markov", "on": "20 s", "off": "7 s"}
WORLDS: dict[str, Block] = {
    "all wait": {},
    "slow links": {"network": SLOW_LINKS},
    "links in turns": {"network": {"server": {**SLOW_LINKS["server"], "discipline": "fifo"}}},
    "turns on links without a limit": {"network": {"server": {"discipline": "fifo"}}}
    | {"participation": {"kind": "full", "quorum": "40 %"}, "stop": {"rounds": 1}},
    "TCP": {"network": {"topology": "tree", "gateways": 2, "model": "lv08", **SLOW_LINKS}},
    "windows": {"network": {"topology": "tree", "gateways": 2, "model": "tcp", **SLOW_LINKS}},
    "windows that are lost": {
        "network": {"model": "tcp", "tcp": {"queue": 2, "connections": "new"}, **SLOW_LINKS}
    }
    | {"fleet": fleet([*STEADY, LOSSY])},
    "windows of batteries": {"network": {"model": "tcp", **SLOW_LINKS}}
    | {"fleet": fleet(EVERY, battery=BATTERY), "stop": {"time": "90 s"}}
    | {"participation": {"kind": "full", "deadline": "20 s"}},
    "windows of who come and go": {"network": {"model": "tcp", **SLOW_LINKS}}
    | {"fleet": fleet(HOPELESS, availability=COMING), "stop": {"time": "90 s"}}
    | {"participation": {"kind": "full", "deadline": "15 s"}},
    "shared air": {"network": {"wifi": {}, **SLOW_LINKS}, "fleet": fleet(ON_AIR)},
    "shared air, without acknowledgements": {
        "network": {"topology": "tree", "gateways": 2, "wifi": {"transport": "udp"}},
        "fleet": fleet(ON_AIR),
    },
    "shared air of batteries": {"network": {"wifi": {"streams": 2}}}
    | {"fleet": fleet(ON_AIR, battery=BATTERY), "stop": {"time": "20 s"}}
    | {"participation": {"kind": "full", "deadline": "20 s"}},
    "shared air of those that come and go": {"network": {"wifi": {}, **SLOW_LINKS}}
    | {"fleet": fleet(ON_AIR, availability=COMING), "stop": {"time": "60 s"}}
    | {"participation": {"kind": "full", "deadline": "15 s"}},
    "relayed windows": {"network": {**CHAIN, "model": "tcp"}}
    | {"fleet": fleet(["wifi-6", NEAR, "wifi-6"])},
    "cells": {"network": {"broadcast": "cell", **SLOW_LINKS}, "fleet": fleet([*STEADY, LOSSY])}
    | {"participation": LATE},
    "a quorum": {"participation": {"kind": "full", "quorum": "40 %"}},
    "some never send": {"participation": {"kind": "full", "quorum": "40 %"}, "stop": {"rounds": 1}},
    "deadlines": {"participation": LATE, "fleet": fleet(HOPELESS)},
    "cohorts": {"participation": {"kind": "uniform", "count": 5}, "stop": {"rounds": 6}}
    | {"algorithm": {"kind": "fedavg", "step_size": 1e-6, "local_steps": 1}},
    "cut off": {"stop": {"time": "10.4 s"}, "network": SLOW_LINKS},
    "asynchronous": {"participation": {"kind": "asynchronous"}, "stop": {"rounds": 40}}
    | {"algorithm": {"kind": "fedasync", "step_size": 1e-6, "local_steps": 1}},
    "batteries": {"fleet": fleet(EVERY, battery=BATTERY), "network": SLOW_LINKS}
    | {"stop": {"time": "90 s"}, "participation": {"kind": "full", "deadline": "20 s"}},
    "coming and going": {"fleet": fleet(HOPELESS, availability=COMING), "stop": {"time": "90 s"}}
    | {"participation": {"kind": "full", "deadline": "15 s"}},
    "relays": {"network": CHAIN, "fleet": fleet(["wifi-6", NEAR, "wifi-6"])},
    "peers": {
        "network": {"peers": {"kind": "ring"}},
        "algorithm": {"kind": "d-psgd", "step_size": 1e-6},
    }
    | {"stop": {"time": "60 s"}},
    "peers that send again at once": {
        "network": {"peers": {"kind": "ring"}},
        "algorithm": {"kind": "d-psgd", "step_size": 1e-6},
        "fleet": fleet([LOSSY | {"latency": "0 s", "energy_down": "200 nJ/bit"}] * 4),
    }
    | {"stop": {"time": "60 s"}},
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rate.csv").write_text("t,value\n0,40000\n2,0\n3,9000\n5,40000\n")
    monkeypatch.chdir(tmp_path)


def broken(folder: Path) -> dict[str, str]:
    found = check_energy(folder)
    return dict(found.query("outcome == 'broken'")[["check", "reason"]].to_numpy())


@pytest.mark.parametrize(
    "name", some(WORLDS, "all wait", "some never send", "relays", "peers that send again at once")
)
def test_every_client_pays_for_every_instant_once(name: str, tmp_path: Path) -> None:
    assert_ledger_balanced(fedsim.run(world(**WORLDS[name]), out=tmp_path / "out"))


def test_sums_that_differ_are_named_with_client_and_figures(tmp_path: Path) -> None:
    (folder,) = fedsim.run(world(), out=tmp_path / "out").runs
    log, clients = (read_table(folder, name).to_pandas() for name in ("events", "clients"))
    clients.loc[1, ["tail_joules", "joules"]] += 1
    broken_sums = check_sums(log, clients).query("outcome == 'broken'")
    assert broken_sums["check"].tolist() == ["tail_joules"]
    with pytest.raises(AssertionError, match=r"^tail_joules: client-1: .* J in the log, .* J in"):
        assert_kept(broken_sums)


def test_it_sees_radios_that_are_not_paid_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_senders(network: ServerLanes) -> list[Any]:
        return [lane.radio for lane in network._up.in_order()]

    monkeypatch.setattr(ServerLanes, "_radios", of_senders)
    early = {"participation": {"kind": "full", "quorum": "40 %"}, "stop": {"rounds": 1}}
    block = world(**early, fleet=fleet(["lte"] * 3 + ["ideal"] * 3))
    (folder,) = fedsim.run(block, out=tmp_path / "out").runs
    reason = broken(folder)["a radio is in exactly one state at every instant"]
    assert reason.startswith("client-0: the log has no state of the radio from ")
    with pytest.raises(AssertionError, match="exactly one state at every instant"):
        assert_ledger_balanced(folder)


def test_what_waits_in_a_queue_pays_for_connection_alone(tmp_path: Path) -> None:
    """As the run ends two of three are behind the first, on a link that has no limit of its own."""
    network = {"server": {"discipline": "fifo"}}
    early = {"participation": {"kind": "full", "quorum": "30 %"}, "stop": {"rounds": 1}}
    radios: list[Any] = [LOSSY | {"loss": {"kind": "none"}}] * 3
    same = {"device": SLOW | {"speed": "1 Tflop/s"}}
    block = world(fleet=fleet(radios, **same), network=network, **early)
    run = fedsim.run(block, out=tmp_path / "out")
    sent = run.events[(run.events["event"] == "send") & (run.events["node"] != "server")]
    assert sent["detail"].astype(object).fillna("").tolist() == ["", "in flight", "in flight"]
    for row in sent.to_dict("records")[1:]:  # connected at the power of the tail; no bit has passed
        assert row["joules"] == pytest.approx(2.0 * row["duration"], rel=1e-9)
    assert not broken(run.runs[0])


Rows = list[dict[str, Any]]


def _first(rows: Rows, event: str, node: str) -> dict[str, Any]:
    return next(row for row in rows if (row["event"], row["node"]) == (event, node))


def _without_a_tail(rows: Rows) -> None:
    rows.remove(_first(rows, "tail", "client-0"))


def _dearer(event: str, node: str) -> Callable[[Rows], None]:
    def tamper(rows: Rows) -> None:
        _first(rows, event, node)["joules"] += 1e-6

    return tamper


def _longer(event: str, node: str) -> Callable[[Rows], None]:
    def tamper(rows: Rows) -> None:
        _first(rows, event, node)["duration"] *= 1.01

    return tamper


def _twice(event: str) -> Callable[[Rows], None]:
    def tamper(rows: Rows) -> None:
        row = _first(rows, event, "client-0")
        rows.insert(rows.index(row), deepcopy(row))

    return tamper


WORK = "work costs energy for its time, one piece at a time"
STATES = "a radio is in exactly one state at every instant"
STAGES = "stages and promotions cost energy for their time"
FORWARDED = "a forwarded message costs energy for reception and sending"
MESSAGES = "messages cost energy for their bits and time"
TAMPERED: dict[str, tuple[Callable[[Rows], None], str]] = {
    "a tail is left out": (_without_a_tail, STATES),
    "a tail is there twice": (_twice("tail"), STATES),
    "a promotion overlaps": (_longer("tail", "client-0"), STATES),
    "work is there twice": (_twice("compute"), WORK),
    "work is dearer": (_dearer("compute", "client-1"), WORK),
    "a tail is dearer": (_dearer("tail", "client-0"), STAGES),
    "a promotion is dearer": (_dearer("promotion", "client-0"), STAGES),
    "sending is dearer": (_dearer("send", "client-1"), MESSAGES),
    "receiving is dearer": (_dearer("receive", "client-0"), MESSAGES),
    "sending takes longer": (_longer("send", "client-0"), MESSAGES),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Rows, list[float]]:
    (folder,) = fedsim.run(
        world(fleet=fleet(["lte", "wifi-6"])), out=tmp_path_factory.mktemp("out")
    ).runs
    events = read_run(folder, "events").astype(object)
    rows: Any = events.where(events.notna(), None).to_dict("records")
    idle = read_run(folder, "clients")["idle_joules"].tolist()
    return bodies_of(load(folder / "scenario.yaml").variants[0].scenario, 2), rows, idle


@every("name", TAMPERED)
def test_what_is_tampered_with_is_seen(name: str, log: tuple[Any, Rows, list[float]]) -> None:
    bodies, rows, idle = log
    tamper, expected = TAMPERED[name]
    rows = deepcopy(rows)
    assert not any([*faults] for _, faults in promises(bodies, rows, idle))
    tamper(rows)
    assert [*dict(promises(bodies, rows, idle))[expected]]


def test_idle_power_is_held_against_its_time(log: tuple[Any, Rows, list[float]]) -> None:
    bodies, rows, idle = log
    told = dict(promises(bodies, rows, [idle[0], idle[1] * 1.001]))
    assert [*told["idle power is drawn while a client is on"]]


def test_a_relay_that_pays_too_little_is_seen(tmp_path: Path) -> None:
    block = world(network=CHAIN, fleet=fleet(["wifi-6", NEAR, "wifi-6"]))
    (folder,) = fedsim.run(block, out=tmp_path / "out").runs
    events = read_run(folder, "events").astype(object)
    rows: Any = events.where(events.notna(), None).to_dict("records")
    _first(rows, "forward", "client-1")["joules"] *= 0.5
    idle = read_run(folder, "clients")["idle_joules"].tolist()
    bodies = bodies_of(load(folder / "scenario.yaml").variants[0].scenario, 3)
    (fault,) = dict(promises(bodies, rows, idle))[FORWARDED]
    assert fault.startswith("client-1: a message forwarded at ")


@pytest.mark.parametrize("share", [1 - 1e-6, 1 + 1e-6])
@pytest.mark.parametrize("event", ["send", "receive"])
def test_what_a_whole_message_of_frames_costs_is_known_to_rounding(
    event: str, share: float, tmp_path: Path
) -> None:
    """Behind a shared link, too, where the span of a message says nothing of its time on air."""
    slow = {**SLOW_LINKS["server"], "uplink": "2 kbit/s", "downlink": "2 kbit/s"}
    source = world(fleet=fleet(list(LORA)[:1]), network={"server": slow}, stop={"rounds": 1})
    (folder,) = fedsim.run(source, out=tmp_path / "out").runs
    rows: Any = read_run(folder, "events").astype(object).to_dict("records")
    bodies = bodies_of(load(folder / "scenario.yaml").variants[0].scenario, 1)
    found = {}
    for by in (1.0, share):
        priced = [
            {**row, "joules": row["joules"] * by} if row["event"] == event else row for row in rows
        ]
        found[by] = [
            fault
            for name, faults in promises(bodies, priced, [0.0])
            if "bits" in name
            for fault in faults
        ]
    assert found[1.0] == []
    assert len(found[share]) == 1
