"""A log priced again equals a fresh run of the changed scenario, to the bit."""

import json
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import fedsim
from fedsim.addons.repricing.api import price_table
from fedsim.algorithms.censored import GradientDescent, Iterate
from fedsim.core.ports import Server
from fedsim.protocol.secrecy.server import ALONE
from fedsim.results.record.manifest import MANIFEST
from tests.tiers import examples

from .prices import FLEET, differing, small, unlike

METHODS = (
    *("chb", "lag-ps", "chb-charge", "dcgd", "ef21", "marina", "fedavg", "scaffold"),
    *("fedsgm", "fedgradmp", "mc-fedda", "marina-p"),
)
"""Silence, explicit cohorts, error feedback, local steps, two vectors, two exchanges, an end,
a message for each."""

OTHER_WORLD = (
    "fleet.0.radio=wifi",
    "fleet.1.radio=lte",
    "fleet.0.device=pi-zero-2w",
    "network.server={uplink: 2 Mbit/s, downlink: 1 Mbit/s, latency: 5 ms}",
)


@pytest.mark.parametrize("kind", METHODS)
def test_whatever_the_method(kind: str, tmp_path: Path) -> None:
    assert unlike(small(kind), OTHER_WORLD, tmp_path) == []


UNEQUAL: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "labels": "plus-minus", "scale": "mean", "l2": 0.01},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "dirichlet", "alpha": 0.3, "clients": 5},
    },
    "algorithm": {"kind": "chb", "step_size": "1/L", "momentum": 0.4, "censor": 1.0},
}


@pytest.mark.parametrize("kind", ["fedavg", "fedsgm", "chb"])
def test_secure_aggregation(kind: str, tmp_path: Path) -> None:
    """A client counts once in a round of four exchanges."""
    secrecy = {"kind": "secagg", "clip": 50}
    assert unlike(small(kind, secrecy=secrecy), OTHER_WORLD, tmp_path) == []


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_masked_vector_alone_in_its_sum(tmp_path: Path) -> None:
    """It depends on who is silent, and not on time."""
    secrecy = {"kind": "secagg", "clip": 50}
    source = small("chb", 25, secrecy=secrecy, **UNEQUAL)
    assert unlike(source, OTHER_WORLD, tmp_path) == []
    (log,) = (tmp_path / "priced").rglob("events.parquet")
    assert pd.read_parquet(log)["detail"].eq(ALONE).any()


CHANNEL = (
    "{kind: shannon, bandwidth: 1 MHz, power: 10 mW, server_power: 1 W, distance: 200 m,"
    " shadowing: 6 dB}"
)
TREE = "network={topology: tree, gateways: 2, gateway: {rate: 1 Mbit/s, latency: 2 ms}}"
WORLDS = {
    "a radio's rate": ["fleet.0.radio.up=1 Mbit/s"],
    "a radio that sleeps": ["fleet.0.radio=nb-iot", "fleet.1.radio=ble"],
    "a radio that is paged": ["fleet.0.radio=nb-iot-edrx", "fleet.1.radio=nb-iot-psm"],
    "LoRa": ["fleet.0.radio=lora-sf7", "fleet.1.radio=zigbee"],
    "fading": [f"fleet.0.radio={CHANNEL}"],
    "packets sent again": ["fleet.0.radio.loss={kind: independent, rate: 10 %}"],
    "a processor that slows down": [
        "fleet.1.device.slowdown={kind: shifted-exponential, shift: 1, rate: 2}"
    ],
    "phones of their own": ["fleet.1.device={kind: phone, speed: 1 Mflop/s}"],
    "cycles per sample": [
        "fleet.0.device={kind: yang-2021, slowdown: {kind: lognormal, sigma: 0.5}}"
    ],
    "batteries": ["fleet.0.battery={}", "fleet.1.battery={charge: 80 %}"],
    "a tree of links": [TREE],
    "electricity": ["fleet.0.carbon=DE", "fleet.1.carbon={kind: constant, intensity: 3 g/kWh}"],
    "cells": ["network.broadcast=cell"],
    "TCP": ["network.server={uplink: 2 Mbit/s, downlink: 2 Mbit/s}", "network.model=lv08"],
    "TCP's windows": ["network.server={uplink: 2 Mbit/s, downlink: 2 Mbit/s}", "network.model=tcp"],
    "TCP that shakes hands": [
        "network={model: tcp, tcp: {connections: new}, server: {uplink: 2 Mbit/s}}"
    ],
    "TCP that loses": [
        "network={model: tcp, tcp: {connections: kept, queue: 5}, server: {uplink: 1 Mbit/s}}",
        "fleet.0.radio.loss={kind: independent, rate: 10 %}",
    ],
    "shared air": [
        "network={wifi: {standard: n}}",
        "fleet.0.radio={kind: wifi-6, up: 6.5 Mbit/s, down: 65 Mbit/s}",
        "fleet.1.radio=wifi",
    ],
    "groups of another size": [
        "fleet=[{count: 1, device: pi-5, radio: lte}, {count: 4, radio: wifi}]"
    ],
    "fewer rounds": ["stop.rounds=3"],
    "seconds": ["fleet.0.radio=umts", "stop.time=4 s"],
    "joules": ["fleet.0.radio=umts", "stop.energy=20 J"],
    "bits": ["fleet.0.radio=zigbee", "stop.bits=2 kB"],
    "the optimum near": ["fleet.0.radio=wifi", "stop.gap=0.1"],
}


@pytest.mark.parametrize("name", WORLDS)
def test_whatever_the_world(name: str, tmp_path: Path) -> None:
    assert unlike(small(), WORLDS[name], tmp_path) == []


def test_a_run_that_ends_at_its_start_has_the_same_tables_and_no_model(tmp_path: Path) -> None:
    """The original has not kept its start, and nothing is trained again."""
    found = unlike(small(), ["stop.gap=40"], tmp_path)
    assert {name.rpartition("/")[2] for name in found} == {"manifest.json", "models.parquet"}
    with pytest.raises(ValueError, match="no model is stored"):
        fedsim.open(tmp_path / "priced").model()


SELDOM = {
    "another world": OTHER_WORLD,
    "an end where it looked": ("stop.rounds=4",),
}


@pytest.mark.parametrize("name", SELDOM)
def test_a_run_whose_observer_looked_seldom(name: str, tmp_path: Path) -> None:
    assert unlike(small(rounds=7, observe={"every": 2}), SELDOM[name], tmp_path) == []


def test_an_end_where_nobody_looked_takes_training_again(tmp_path: Path) -> None:
    fedsim.run(small(rounds=7, observe={"every": 2}), out=tmp_path / "before")
    unknown = "ends with round 3, which was not evaluated in the original run"
    with pytest.raises(fedsim.RepricingError, match=unknown):
        fedsim.reprice(tmp_path / "before", ["stop.rounds=3"], tmp_path / "priced")
    assert not (tmp_path / "priced").exists()


COHORTS: dict[str, dict[str, Any]] = {
    "uniform": {"kind": "uniform", "count": 3},
    "weighted": {"kind": "weighted", "share": "50 %"},
    "one": {"kind": "uniform", "count": 1},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a sample
@pytest.mark.parametrize("kind", ["fedsgm", "scaffold"])
@pytest.mark.parametrize("name", COHORTS)
def test_whoever_was_drawn(name: str, kind: str, tmp_path: Path) -> None:
    source = small(kind, participation=COHORTS[name])
    assert unlike(source, OTHER_WORLD, tmp_path) == []


class Asking(GradientDescent):
    """Asks all clients once more when its last round has been committed, and ends by itself."""

    kind: Literal["asking"] = "asking"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        model = server.initial
        for _ in range(4):
            await server.exchange(Iterate(server.pack(model)))
            server.commit(model)
        await server.exchange(Iterate(server.pack(model)))


def test_what_a_method_asks_after_its_last_round_is_asked_again(tmp_path: Path) -> None:
    source = small("gd", 9) | {"algorithm": {"kind": "asking", "step_size": "1/L"}}
    assert unlike(source, OTHER_WORLD, tmp_path, blocks=[Asking]) == []


def test_traces_measures_variants_and_seeds(tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_text("0,1\n1,0.2\n3,5\n6,0\n")
    source = small(
        seeds=2,
        measures=[{"kind": "sparsity"}, {"kind": "train_accuracy"}],
        variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}},
    )
    trace = f"{{kind: csv, path: {tmp_path / 'drive.csv'}, shift: random}}"
    overrides = [f"fleet.0.radio={{kind: lte, up_trace: {trace}}}"]
    assert unlike(source, overrides, tmp_path) == []


def test_what_was_priced_can_be_priced_back(tmp_path: Path) -> None:
    there, back = ["fleet.0.radio=wifi"], ["fleet.0.radio=lte"]
    fedsim.run(small(), out=tmp_path / "before")
    fedsim.reprice(tmp_path / "before", there, tmp_path / "there")
    fedsim.reprice(tmp_path / "there", back, tmp_path / "back")
    assert differing(tmp_path / "before", tmp_path / "back") == []


def test_a_share_of_a_preset_is_of_the_preset_and_not_of_the_run(tmp_path: Path) -> None:
    slow = ["fleet.0.radio.up=10 %", "fleet.0.device=phone-mid", "fleet.0.device.speed=10 %"]
    fedsim.run(small(), out=tmp_path / "before")
    fedsim.reprice(tmp_path / "before", slow, tmp_path / "there")
    fedsim.reprice(tmp_path / "there", slow, tmp_path / "again")
    assert differing(tmp_path / "there", tmp_path / "again") == []
    radio = {"kind": "lte", "up": "600 kbit/s"}
    device = {"kind": "phone-mid", "speed": "1 Gflop/s"}
    first, *others = small()["fleet"]
    by_hand = [{**first, "radio": radio, "device": device}, *others]
    fedsim.run(small(fleet=by_hand), out=tmp_path / "by-hand")
    assert differing(tmp_path / "by-hand", tmp_path / "there") == []
    fedsim.reprice(tmp_path / "there", ["fleet.0.device=phone-low"], tmp_path / "low")
    (variant,) = fedsim.load(next((tmp_path / "low").rglob("scenario.yaml"))).variants
    assert variant.scenario.fleet[0].device.constant == 4e9  # another preset as it is


def test_clients_that_the_split_has_made_can_be_given_radios(tmp_path: Path) -> None:
    source = small(fleet=[])
    source["problem"] = source["problem"] | {"split": {"kind": "iid", "clients": 4}}
    fedsim.run(source, out=tmp_path / "before")
    fedsim.reprice(tmp_path / "before", ["fleet.0.radio=lte"], tmp_path / "priced")
    fedsim.run(source | {"fleet": [{"count": 4, "radio": "lte"}]}, out=tmp_path / "fresh")
    assert differing(tmp_path / "fresh", tmp_path / "priced") == []


def test_the_manifest_says_of_which_log_it_is(tmp_path: Path) -> None:
    fedsim.run(small(), out=tmp_path / "before")
    fedsim.reprice(tmp_path / "before", ["fleet.0.radio=wifi"], tmp_path / "priced")
    before, priced = (
        json.loads((tmp_path / name / "base/seed-1" / MANIFEST).read_text())
        for name in ("before", "priced")
    )
    assert priced["repriced_from"] == {key: before[key] for key in ("events", "code")}
    changed = ["fleet.0.radio=wifi"]
    with pytest.raises(fedsim.DataError, match=r"re-priced.*nothing was written"):
        fedsim.run(small(), out=tmp_path / "priced", overrides=changed)
    fresh = fedsim.run(small(), out=tmp_path / "fresh", overrides=changed)
    copytree(tmp_path / "priced/base", tmp_path / "fresh/base", dirs_exist_ok=True)
    fedsim.run(small(), out=tmp_path / "fresh", overrides=changed)
    made = json.loads((fresh.runs[0] / MANIFEST).read_text())
    assert "repriced_from" not in made  # it was no run, so it is made


groups = st.fixed_dictionaries(
    {
        "device": st.sampled_from(["ideal", "cortex-m7", "pi-5"]),
        "radio": st.sampled_from(["ideal", "lte", "wifi", "zigbee", "nb-iot", "umts"]),
        "battery": st.sampled_from([None, {"capacity": "5 Wh"}]),
    }
)
fleets = st.tuples(groups, groups)
links = st.sampled_from(["unlimited", "1 Mbit/s", "50 kbit/s"])


@pytest.mark.slow
@examples(15, few=6, suppress_health_check=[HealthCheck.too_slow])
@given(fleets, fleets, links, st.sampled_from(["unicast", "cell"]))
def test_whatever_the_fleets(
    first: tuple[dict[str, Any], ...],
    second: tuple[dict[str, Any], ...],
    link: str,
    broadcast: str,
) -> None:
    counts = [{"count": group["count"]} for group in FLEET]
    then, now = (
        [given | count for given, count in zip(fleet, counts, strict=True)]
        for fleet in (first, second)
    )
    overrides = [
        f"fleet={json.dumps(now)}",
        f"network.server.downlink={link}",
        f"network.broadcast={broadcast}",
        "name=changed",
    ]
    with TemporaryDirectory() as folder:
        assert unlike(small("lag-ps", 3, fleet=then), overrides, Path(folder)) == []


def test_seeds_are_summed_up_by_variant_or_listed(tmp_path: Path) -> None:
    """The median of the seeds and, below it, their range."""
    loss = {"kind": "independent", "rate": "20 %"}  # so that seeds differ
    fleet = [{**group, "radio": {"kind": group["radio"], "loss": loss}} for group in FLEET]
    made = fedsim.run(small("gd", seeds=3, fleet=fleet), out=tmp_path / "made")
    priced = fedsim.reprice(made.folder, ["fleet.0.radio=wifi"], tmp_path / "priced")
    table, listed = (price_table(made.folder, priced.runs, by_seed=each) for each in (False, True))
    cells, by_seed = (
        {str(column.header): list(map(str, column.cells)) for column in each.columns}
        for each in (table, listed)
    )
    assert cells["seeds"] == ["3"] * (len(listed.rows) // 3)
    assert by_seed["seed"] == ["1", "2", "3"] * len(table.rows)
    middle, _, ends = cells["energy"][0].partition("\n")
    low, _, high = ends.partition(" to ")
    seeds = by_seed["energy"][:3]
    assert middle in seeds
    assert high in seeds
    assert any(each.startswith(low) for each in seeds)
    assert len({*seeds}) > 1


def test_original_costs_are_those_that_run_showed(tmp_path: Path) -> None:
    """A censoring method ends its last round while tails are on: the run spends more than that."""
    made = fedsim.run(small("chb"), out=tmp_path / "made")
    priced = fedsim.reprice(made.folder, ["fleet.0.radio=wifi"], tmp_path / "priced")
    shown, table = made.shown.costs(), price_table(made.folder, priced.runs)
    cells = {str(column.header): list(column.cells) for column in table.columns}
    own = {str(column.header): list(column.cells) for column in shown.columns}
    again = {str(column.header): list(column.cells) for column in priced.shown.costs().columns}
    for cost in ("time", "energy"):
        assert cells[f"original {cost}"] == own[cost]
        assert cells[cost] == again[cost]
