"""The studies in a reduced form: laws that hold whatever their numbers are, and their figures."""

import json
import sys
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.running.probe import opening
from fedsim.scenario.building import Builder
from tests.conftest import ROOT
from tests.drawn import bars_of
from tests.scripts import script

# Some of them censor more than is known to converge.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")]

STUDIES = ROOT / "analysis/studies"
SCENARIOS = ROOT / "scenarios/studies"
NAMES = [path.stem for path in sorted(SCENARIOS.glob("*.yaml"))]


def study(name: str) -> Any:
    """Return a study's script as a module."""
    return script(f"studies/{name.replace('-', '_')}")


sys.path.insert(0, str(STUDIES))  # as for a script that is run there
conducting = study("conducting")
tails = study("censoring-and-tails")
uplink = study("compression-and-shared-uplink")
deaths = study("who-dies-first")
bits = study("honest-bits")
networks = study("networks-on-mnist")
language = study("language-model")
selection = study("selection")
rules = study("rules-and-attacks")
secrecy = study("savings-under-secrecy")
privacy = study("price-of-privacy")
sys.path.remove(str(STUDIES))


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_has_its_script_its_figure_and_its_place_in_the_readme(name: str) -> None:
    module, readme = study(name), (STUDIES / "README.md").read_text(encoding="utf-8")
    scenario: Path = module.SCENARIO
    assert scenario == SCENARIOS / f"{name}.yaml"
    assert module.FIGURE.name in readme
    assert Path(module.__file__).name in readme
    assert module.FIGURE.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_its_finding_and_draws_its_figure(
    name: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    module = study(name)
    for function, fixture in {
        "spent": "costs",
        "swept": "sweep",
        "unending": "endless",
        "runs": "days",
        "compared": "exchanged",
        "learned": "phones",
        "trained": "continents",
        "asked": "chosen",
        "attacked": "lied",
        "summed": "summed",
        "noised": "noised",
    }.items():
        if hasattr(module, function):  # each process makes only what its own tests ask for
            ran = request.getfixturevalue(fixture)
            monkeypatch.setattr(module, function, partial(lambda ran, *_, **__: ran, ran))
    tried = pd.DataFrame({"1/L": [71.0, np.nan]}, index=["base", "top-k"])
    monkeypatch.setattr(module, "tried", lambda **_: tried, raising=False)
    monkeypatch.setattr(module, "FIGURE", tmp_path / "figure.png")
    monkeypatch.setattr(module, "COSTS", tmp_path / "costs.csv", raising=False)
    monkeypatch.setattr(sys, "argv", [name])
    module.main()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip().endswith(".")


# -- censoring and tails ---------------------------------------------------------------

ROUNDS = 5


@pytest.fixture(scope="module")
def costs() -> Any:
    """Return every case after a few rounds."""
    return tails.spent(overrides=["stop.gap=null", f"stop.rounds={ROUNDS}"])


def test_the_parts_of_the_energy_add_up(costs: Any) -> None:
    assert set(costs) == {(case.pace, case.radio) for case in tails.CASES}
    for spent in costs.values():
        parts = tails.radio_joules(spent) + spent["computing"] + spent["sending again"]
        assert np.allclose(parts, spent["joules"], rtol=1e-12)


def test_without_tails_there_is_no_energy_in_them(costs: Any) -> None:
    for (_, radio), spent in costs.items():
        has_tail = radio != "nb-iot"
        assert ((spent["tail"] > 0) == has_tail).all()
        assert ((spent["promotion"] > 0) == has_tail).all()


def test_a_beacon_wakes_a_radio_as_a_message_does_and_a_deadline_does_not(costs: Any) -> None:
    for (pace, radio), spent in costs.items():
        assert (spent["rounds"] == ROUNDS).all()
        said = spent["transmissions"] + spent["beacons"]
        assert said[["base", "chb", "gd", "lag"]].eq(10 * ROUNDS).all()
        assert said["chb-deadline"] == spent["transmissions"]["chb"] < 10 * ROUNDS
        if (pace, radio) == (tails.SLOW, "lte"):
            woken = spent["promotion"]
            assert woken["chb"] == pytest.approx(woken["base"], rel=1e-12)
            assert woken["chb-deadline"] < woken["base"]
            assert spent["tail"]["chb-deadline"] < spent["tail"]["chb"]


def test_silence_until_a_deadline_takes_its_time(costs: Any) -> None:
    for case in tails.CASES:
        number, unit = case.deadline.split()
        seconds = float(number) * {"s": 1, "ms": 1e-3}[unit]
        t = costs[case.pace, case.radio]["t"]
        assert t["chb"] <= t["base"]
        silent = t["chb-deadline"] / seconds
        assert 1 < silent <= ROUNDS  # the first rounds, in which all have news, need not wait


def test_the_figure_has_a_bar_for_every_method(costs: Any) -> None:
    figure = tails.draw({key: costs[key] for key in list(costs)[:2]})
    assert len(figure.axes) == 2
    for axis in figure.axes:
        bars = {part: len(drawn) for part, drawn in bars_of(axis).items()}
        assert bars == dict.fromkeys(tails.RADIO_PARTS, len(tails.METHODS))


# -- compression and a shared uplink ---------------------------------------------------

CAPACITIES = (1e5, 3e7)
CLIENTS, NUMBERS = 8, 60
HEADER = 19
"""Bytes in front of every message."""
SMALLER = [
    f"problem.data.clients={CLIENTS}",
    f"problem.data.features={NUMBERS}",
    "problem.data.growth=1.3",
    f"fleet.0.count={CLIENTS}",
]


@pytest.fixture(scope="module")
def sweep() -> Any:
    """Return the sweep at both ends, to a gap that every format reaches."""
    return uplink.swept(CAPACITIES, overrides=[*SMALLER, "stop.gap=1e-2"])


@pytest.fixture(scope="module")
def endless() -> Any:
    """Return some rounds without a target."""
    return uplink.unending(overrides=[*SMALLER, "stop.rounds=120"])


def test_no_time_is_shorter_than_the_bits_over_the_capacity(sweep: pd.DataFrame) -> None:
    assert sweep["reached"].all()
    assert (sweep["t"] > sweep["bits_up"] / sweep["capacity"]).all()


def test_the_time_at_a_narrow_uplink_is_known_in_advance(sweep: pd.DataFrame) -> None:
    """HB: one promotion; every round latencies, a download, a gradient, and all uploads."""
    narrow = sweep[(sweep["capacity"] == CAPACITIES[0]) & (sweep["method"] == "hb")]
    each = narrow["bits_up"] / (CLIENTS * narrow["round"])
    gradient = 4 * 10 * NUMBERS / 10e9
    seconds = 4 * 0.005 + each / 30e6 + gradient + CLIENTS * each / CAPACITIES[0]
    assert np.allclose(narrow["t"], 0.08 + narrow["round"] * seconds, rtol=1e-9)


def test_neither_capacity_nor_discipline_changes_what_is_sent(sweep: pd.DataFrame) -> None:
    runs = sweep.groupby(["method", "format"])[["round", "transmissions", "bits_up"]]
    assert (runs.max() == runs.min()).all().all()


def test_half_the_bytes_a_number_are_half_the_bits_of_the_numbers(sweep: pd.DataFrame) -> None:
    """HB sends a message a client and round: a header, the numbers, and a packet around them."""
    hb = sweep[sweep["method"] == "hb"].drop_duplicates("format").set_index("format")
    each = hb["bits_up"] / (CLIENTS * hb["round"])
    for form, size in {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}.items():
        assert each[form] == 8 * (HEADER + 6 + NUMBERS * size + 66)


def test_who_waits_for_the_link_spends_less_than_who_shares_it(sweep: pd.DataFrame) -> None:
    narrow = sweep[(sweep["capacity"] == CAPACITIES[0]) & (sweep["method"] == "hb")]
    radio = narrow.pivot_table(index="format", columns="discipline", values="radio_joules")
    assert (radio["fifo"] < radio["fair"]).all()


def test_coarser_formats_stop_earlier(endless: pd.DataFrame) -> None:
    floors = uplink.floors(endless)
    assert floors.size == 8
    for method in uplink.METHODS:
        own = floors[method]
        assert own["bfloat16"] > own["float16"] > own["float32"] >= own["float64"]


def test_the_figure_has_a_line_for_every_run(sweep: pd.DataFrame, endless: pd.DataFrame) -> None:
    floors, times, energies = uplink.draw(sweep, endless).axes
    assert len(floors.lines) == len(times.lines) == 8
    assert len(energies.lines) == 8  # two formats under two methods and two disciplines


# -- who dies first --------------------------------------------------------------------

HOURS = 6
EMPTY = [  # phones and Pis in the shade take part until they are empty
    f"fleet.{group}.battery.{key}" for group in (4, 6) for key in ("threshold=6 %", "charge=10 %")
]


@pytest.fixture(scope="module")
def days() -> Any:
    """Return a night in which some batteries run empty, and the same night on mains."""
    return deaths.runs(overrides=["seeds=1", f"stop.time={3600 * HOURS} s"], harvest=EMPTY)


def test_the_dead_do_nothing(days: Any) -> None:
    run, _ = days
    events = run.events
    died = events[events["event"] == "depleted"].set_index(["variant", "node"])["t"]
    assert set(died.index.get_level_values("variant")) == set(deaths.METHODS)
    assert died.groupby("variant", observed=True).size().eq(4).all()
    assert not (events["event"] == "charged").any()  # the sun is not up yet
    work = events[events["event"].isin(["compute", "send", "receive", "silent", "tail"])]
    ends = work.groupby(["variant", "node"], observed=True)["t"].max()
    assert (ends.reindex(died.index) <= died).all()
    skipped = events[events["event"] == "skipped"]
    assert skipped["state_of_charge"].between(0, 0.2).all()  # the log says why


def test_what_was_in_the_batteries_came_from_somewhere(days: Any) -> None:
    clients = days[0].clients.dropna(subset=["initial_joules"])
    final = clients["initial_joules"] + clients["charged_joules"] - clients["drained_joules"]
    assert np.allclose(final, clients["final_joules"], rtol=1e-9)
    assert len(clients) == 14 * len(deaths.METHODS)


def test_on_mains_nobody_is_left_out(days: Any) -> None:
    _, mains = days
    assert (mains.rounds.query("round > 0")["cohort"] == 15).all()
    assert "depletions" not in mains.clients.dropna(axis="columns", how="all")
    gaps = mains.rounds.groupby("variant", observed=True)["gap"].agg(list)
    assert gaps["chb"] == gaps["chb-charge"]  # without a battery it is CHB


def test_the_fates_count_who_was_left_out(days: Any) -> None:
    fate = deaths.fates(days[0])
    assert fate.index.names == ["variant", "kind", "place"]
    assert len(fate) == 6 * len(deaths.METHODS)
    dead = fate["dies"].notna()
    assert dead.groupby(["kind", "place"]).all().sum() == 2
    assert (fate.loc[dead, "depletions"] == 1).all()
    assert (fate.loc[dead, "missed"] > 0).all()
    censored = fate.loc["chb"]
    assert censored["missed"]["sensor"].max() <= fate.loc["base"]["missed"]["sensor"].min()


def test_the_kinds_are_sized_alike() -> None:
    """A full round takes the same share of every battery, to what three digits say of them."""
    plan = fedsim.load(deaths.SCENARIO, overrides=["variants={}"])
    (job,) = Builder(plan).check()
    drained = opening(job).shares[1:]
    assert drained.max() < 1.01 * drained.min()
    assert job.setup.fleet[0].battery is None


def test_the_clear_day_is_the_formula_that_the_scenario_names() -> None:
    day = pd.read_csv(SCENARIOS / "clear-day.csv")
    hour = day["seconds"].to_numpy() / 3600
    assert np.allclose(np.diff(hour), 0.25)
    sun = np.clip(np.sin(np.pi * (hour - 6) / 12), 0, None) ** 1.3
    assert np.allclose(day["W"], sun, atol=5e-5)


# -- honest bits -----------------------------------------------------------------------

FEATURES, KEPT = 100, 10
FRAMING = {"lte": 60, "wifi": 66, "nb-iot": 40}


@pytest.fixture(scope="module")
def exchanged() -> Any:
    """Return every method on every radio, on a model that fits into one packet."""
    small = [f"problem.data.features={FEATURES}", "problem.data.rows=5"]
    return bits.compared(overrides=[*small, "seeds=1", "stop.gap=1e-1"])


def test_a_radio_changes_neither_rounds_nor_payloads(exchanged: pd.DataFrame) -> None:
    assert exchanged["reached"].all()
    runs = exchanged.groupby("variant")[["round", "transmissions", "beacons", "payload_bits"]]
    assert (runs.max() == runs.min()).all().all()


def test_every_message_pays_for_its_header_and_its_packet(exchanged: pd.DataFrame) -> None:
    messages = exchanged["transmissions"] + exchanged["beacons"]
    around = 8 * (HEADER + exchanged["radio"].map(FRAMING))
    assert (exchanged["bits_up"] == exchanged["payload_bits"] + around * messages).all()


def test_payloads_are_as_long_as_their_formats_say(exchanged: pd.DataFrame) -> None:
    """A byte for the kind, one for d and one for k, and what each of them has beside that.

    Under EF21 there is one more, which says which of the sender's vectors is updated.
    """
    runs = exchanged.drop_duplicates("variant").set_index("variant")
    each = runs["payload_bits"] / runs["transmissions"]
    assert each["base"] == each["chb"] == 8 * (1 + 1 + 4 + 4 * FEATURES)
    assert each["rand-k"] == 8 * (1 + 3 + 8 + 4 * KEPT)
    assert each["sign"] == 8 * (1 + 2 + 4 + 13)
    assert each[bits.FORGETFUL] == 32 * KEPT


def test_forgotten_indices_change_the_bits_and_nothing_else(exchanged: pd.DataFrame) -> None:
    """A code of all sets of k out of d takes log2 C(d, k) bits or more, and a bitmap takes d."""
    runs = exchanged.drop_duplicates("variant").set_index("variant")
    honest, forgetful = runs.loc["top-k"], runs.loc[bits.FORGETFUL]
    for same in ("round", "transmissions", "bits_down"):
        assert honest[same] == forgetful[same]
    more = (honest["payload_bits"] - forgetful["payload_bits"]) / honest["transmissions"]
    assert np.log2(comb(FEATURES, KEPT)) + 8 * 4 <= more <= FEATURES + 8 * 5


def test_the_steps_of_the_scenario_are_among_those_tried() -> None:
    plan = fedsim.load(bits.SCENARIO)
    steps = {variant.name: variant.scenario.algorithm for variant in plan.variants}
    assert set(steps) == {"base", *bits.COMPRESSED}
    assert {getattr(algorithm, "step_size", "") for algorithm in steps.values()} <= {*bits.STEPS}


def test_what_was_tried_is_the_rounds_of_every_method() -> None:
    small = [f"problem.data.features={FEATURES}", "problem.data.rows=5", "stop.gap=1"]
    rounds = bits.tried(steps=("1/L", "0.5/L"), overrides=[*small, "stop.rounds=200"])
    assert list(rounds.index) == ["base", *bits.COMPRESSED]
    assert rounds["0.5/L"]["base"] > rounds["1/L"]["base"]
    assert len(bits.grid(rounds).columns) == 3


def test_the_figure_has_a_mark_for_every_radio(exchanged: pd.DataFrame) -> None:
    up, seconds, joules = bits.draw(exchanged).axes
    assert len(seconds.lines) == len(joules.lines) == len(FRAMING)
    assert len(up.lines) == 1 + len(FRAMING)  # and the payloads alone


# -- networks on MNIST -----------------------------------------------------------------

DIGITS = [
    'problem.data={"kind": "sklearn", "name": "digits", "preprocess": [{"divide": 16}]}',
    'problem.test={"fraction": 0.5}',
    "fleet.0.count=10",
    "participation.count=4",
    "observe.every=1",
    "stop.rounds=4",
]


@pytest.fixture(scope="module")
def phones() -> fedsim.Result:
    """Return a few rounds of the same network on small images."""
    result: fedsim.Result = networks.learned(overrides=DIGITS)
    return result


def test_an_accuracy_costs_what_the_rounds_up_to_it_cost(phones: fedsim.Result) -> None:
    assert set(phones.summary["status"]) <= {"done", "rose"}
    assert set(phones.summary["variant"]) == set(networks.METHODS)
    accuracies = phones.rounds["test_accuracy"].quantile([0.3, 0.9]).tolist()
    spent = networks.costs(phones.rounds, accuracies)
    assert len(spent) == 2 * len(networks.METHODS)
    for row in spent.dropna(subset="round").to_dict("records"):
        own = phones.rounds[phones.rounds["variant"] == row["variant"]]
        upto = own[own["round"] <= row["round"]]
        assert upto["test_accuracy"].iloc[-1] >= row["accuracy"]
        assert (upto["test_accuracy"].iloc[:-1] < row["accuracy"]).all()
        assert row["bits_up"] == upto["bits_up"].sum()
        until_asleep = upto["joules"].sum() + upto["joules_after"].iloc[-1]
        assert row["joules"] == pytest.approx(until_asleep)


def test_a_second_vector_doubles_and_compression_shortens_what_goes_up(
    phones: fedsim.Result,
) -> None:
    up = phones.rounds.groupby("variant", observed=True)["bits_up"].mean()
    assert up["scaffold"] == pytest.approx(2 * up["base"], rel=0.01)
    assert up["fedadam"] == up["base"]
    assert up["top-k"] < up["8-bit"] < up["base"] / 3
    down = phones.rounds.groupby("variant", observed=True)["bits_down"].mean()
    assert down["base"] == down["top-k"] == down["8-bit"] == down["fedadam"]


# -- client selection ------------------------------------------------------------------


@pytest.fixture(scope="module")
def chosen() -> pd.DataFrame:
    """Return what a low accuracy costs, by policy and fleet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "TARGET", 0.5)
        overrides = ["seeds=1", "stop.rounds=12", "stop.train_accuracy=0.5"]
        return pd.DataFrame(selection.asked(overrides=overrides))


def test_every_policy_is_tried_on_every_fleet(chosen: pd.DataFrame) -> None:
    assert len(chosen) == len(selection.FLEETS) * len(selection.POLICIES)
    assert set(chosen["variant"]) == set(selection.POLICIES)
    reached = chosen[chosen["reached"]].set_index(["fleet", "variant"])
    for fleet in selection.FLEETS:
        a_round = reached["bits"] / reached["round"]
        assert a_round[fleet, "pow-d"] > 1.3 * a_round[fleet, "rpow-d"]  # a round trip more


def test_a_policy_is_compared_with_a_uniform_sample_seed_by_seed() -> None:
    rows = [
        {"fleet": "near-far", "variant": variant, "seed": seed, "t": t}
        for variant, times in {"base": [1.0, 2.0, np.nan], "oort": [0.5, 4.0, 1.0]}.items()
        for seed, t in enumerate(times)
    ]
    found = selection.against(pd.DataFrame(rows), "t").set_index("variant")
    assert found.loc["oort", "probability"] == pytest.approx(2 / 3)
    assert found.loc["oort", "ratio"] == pytest.approx(1.25)
    assert found.loc["base", "probability"] == 0.5
    assert found.loc["age", "probability"] == 0.0  # it never gets there
    assert (found["probability_low"] <= found["probability"]).all()


# -- rules and attacks -----------------------------------------------------------------


@pytest.fixture(scope="module")
def lied(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Return every rule under every attack after a few rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "SEEDS", 1)
        return pd.DataFrame(rules.attacked(tmp_path_factory.mktemp("rules"), ["stop.rounds=3"]))


def test_every_rule_meets_every_attack_and_losses_shrink_rounds(lied: pd.DataFrame) -> None:
    assert len(lied) == len(rules.RULES) * len(rules.ATTACKS) * len(rules.LOSSES)
    assert set(lied["variant"]) == set(rules.RULES)
    assert (lied[lied["loss"] == 0]["replaced"] == 0).all()
    assert (lied[~lied["variant"].isin(rules.COUNTED)]["replaced"] == 0).all()
    short = lied[lied["loss"] == max(rules.LOSSES)].groupby("variant")["replaced"].mean()
    assert short["bulyan"] >= short["krum"] >= short["trimmed-mean"]  # 19, 11 and 9 replies
    assert short["bulyan"] == 1


def test_a_probability_has_an_interval_that_covers_it() -> None:
    rows = [
        {"loss": 0.0, "variant": "base", "attack": "none", "accuracy": accuracy}
        for accuracy in (0.9, 0.8, 0.86, 0.851)
    ]
    (found,) = rules.survival(pd.DataFrame(rows)).to_dict("records")
    assert found["probability"] == 0.75
    assert found["probability_low"] < 0.75 < found["probability_high"]
    assert found["accuracy"] == pytest.approx(0.8555)


def test_the_worst_attack_of_a_network_decides_whether_a_rule_survives() -> None:
    rows = [
        {"loss": 0.0, "variant": "krum", "attack": attack, "seed": seed, "accuracy": accuracy}
        for attack, seeds in {"none": (0.9, 0.9), "ipm": (0.8, 0.86)}.items()
        for seed, accuracy in enumerate(seeds)
    ]
    found = rules.worst(pd.DataFrame(rows)).loc[(0.0, "krum")]
    assert found["attack"] == "ipm"
    assert found["probability"] == 0.5
    assert found["accuracy"] == pytest.approx(0.83)


def test_a_rule_is_ahead_in_the_share_of_networks_in_which_its_worst_accuracy_is() -> None:
    rows = [
        {"loss": 0.3, "variant": rule, "attack": attack, "seed": seed, "accuracy": accuracy}
        for rule, seeds in {"krum": [(0.9, 0.5), (0.9, 0.8)], "median": [(0.7, 0.7)] * 2}.items()
        for seed, both in enumerate(seeds)
        for attack, accuracy in zip(("none", "ipm"), both, strict=True)
    ]
    best, others = rules.ordered(pd.DataFrame(rows), 0.3)
    assert best == "median"
    assert others.loc["krum", "probability"] == 0.5


# -- a language model ------------------------------------------------------------------

STREAMED = ("parts", "overlap-4", "overlap-16", "overlap-16-4-bit", "two-parts", "eight-parts")
SHORT = [
    "problem.data.stride=60",
    "problem.loss.model={kind: transformer, width: 8, layers: 1, heads: 2}",
    "algorithm.batch=2",
    "algorithm.local_steps=4",
    "stop.rounds=1",
    *(f"variants.h-{steps}.algorithm.local_steps=4" for steps in (16, 128)),
    *(f"variants.h-{steps}.stop.rounds=1" for steps in (16, 128)),
    *(f"variants.{name}.stop.rounds=2" for name in STREAMED),
]


@pytest.fixture(scope="module")
def continents() -> fedsim.Result:
    """Return a few rounds of a smaller network on fewer rows."""
    result: fedsim.Result = language.trained(overrides=SHORT)
    return result


@pytest.mark.needs("torch")
def test_steps_that_overlap_save_time_and_no_bits(continents: fedsim.Result) -> None:
    rounds = continents.rounds[continents.rounds["round"] == 2].set_index("variant")
    begins = continents.rounds[continents.rounds["round"] == 1].set_index("variant")
    lasts = rounds["t"] - begins["t"]
    assert lasts["overlap-16"] < lasts["overlap-4"] < lasts["parts"]
    assert lasts["overlap-16-4-bit"] <= lasts["overlap-16"]
    for way in ("bits_up", "bits_down"):
        assert rounds[way]["overlap-16"] == rounds[way]["overlap-4"] == rounds[way]["parts"]
    assert rounds["bits_up"]["overlap-16-4-bit"] < rounds["bits_up"]["parts"] / 4
    spent = language.costs(continents.rounds, [0.0])
    assert spent.dropna()["variant"].tolist() == list(dict.fromkeys(continents.rounds["variant"]))
    assert spent.dropna()["steps"].tolist()[0] == 64


@pytest.mark.needs("torch")
def test_the_twenty_lines_are_twenty_and_train_the_same_network() -> None:
    file = STUDIES / "mnist_in_20_lines.py"
    code = file.read_text(encoding="utf-8")
    lines = [line for line in code.splitlines()[1:] if line]
    assert len(lines) == 20
    made: dict[str, Any] = {}
    exec(code.rpartition("print(")[0], made)  # noqa: S102 - all but the run, whose data is large
    plan = fedsim.load(made["scenario"])
    (mine,) = plan.variants
    (theirs, *_) = fedsim.load(networks.SCENARIO).variants
    assert sum(each.numel() for each in made["network"]().parameters()) == 54_314
    for key in ("algorithm", "fleet", "participation"):
        assert getattr(mine.scenario, key) == getattr(theirs.scenario, key)


@pytest.mark.needs("torch")
def test_the_language_model_goes_on_with_texts_of_its_own(tmp_path: Path) -> None:
    """What `generation` says of the study's model, beside a loop that writes with it."""
    text = {"kind": "text", "path": str(SCENARIOS / "explanations.txt"), "context": 16}
    measure = {"kind": "generation", "length": 3, "prompts": 20}
    more = {"variants": {}, "problem.test": text | {"stride": 4}, "measures": [measure]}
    dropped = "variants", "problem.data.stride"  # all bytes are labels of training rows
    overrides = [*(each for each in SHORT if not each.startswith(dropped)), "stop.rounds=2"]
    overrides += [f"{key}={json.dumps(value)}" for key, value in more.items()]
    result: fedsim.Result = language.trained(out=tmp_path, overrides=overrides)
    last = result.rounds.iloc[-1]
    content = np.frombuffer((SCENARIOS / "explanations.txt").read_bytes(), np.uint8)
    loss = fedsim.load(language.SCENARIO, overrides=overrides).variants[0].scenario.problem.loss
    w = result.model()
    starts = np.arange(0, len(content) - 16, 4)
    known = starts[starts + 4 <= starts[-1]]  # whose next row says how the text goes on
    chosen = known[np.linspace(0, len(known) - 1, 20).astype(int)]
    right = np.zeros((20, 3), bool)
    for line, at in zip(right, chosen, strict=True):
        window = content[at : at + 16].astype(np.float64)
        for place in range(3):
            token = loss.predict(window[None], w, np.arange(128.0))[0]
            line[place] = token == content[at + 16 + place]
            window = np.append(window[1:], token)
    assert last["generation_accuracy"] == pytest.approx(right.mean())
    assert last["exact_match"] == pytest.approx(right.all(axis=1).mean())


# -- secure aggregation ----------------------------------------------------------------


@pytest.fixture(scope="module")
def summed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the runs on a small network, with one seed and an accuracy that is soon reached."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "RADIOS": {"lte": "LTE", "wifi": "Wi-Fi"},
            "LEAVING": (0.0, 0.2),
            "SEEDS": 1,
            "WORLDS": 8,
            "ACCURACY": 0.4,
            "OBJECTIVE": 0.3,
        }.items():
            patch.setattr(secrecy, name, value)
        # Only some variants run while phones leave, so the file and no override has the sparsity.
        written = secrecy.SCENARIO.read_text(encoding="utf-8")
        folder = tmp_path_factory.mktemp("secrecy")
        (folder / "small.yaml").write_text(
            written.replace("sparsity: 5000", "sparsity: 600"), encoding="utf-8"
        )
        patch.setattr(secrecy, "SCENARIO", folder / "small.yaml")
        small = ["problem.loss.hidden=16", "stop.rounds=12"]
        return secrecy.summed(folder / "runs", small)


def test_every_protocol_has_the_rounds_of_the_others(summed: Any) -> None:
    """Where no phone leaves, all of them add up the same integers."""
    calm = secrecy.means(summed[0])["round"].xs(("lte", 0.0), level=("radio", "leaving"))
    for method in secrecy.METHODS:
        rounds = calm[method].drop("", errors="ignore")
        assert (rounds == rounds.iloc[:1].sum()).all()


def test_masks_cost_bits_and_few_neighbours_cost_fewer(summed: Any) -> None:
    calm = secrecy.means(summed[0]).xs(("lte", 0.0), level=("radio", "leaving"))
    sent = calm["bits_up"] / calm["round"]
    for method in secrecy.METHODS:
        if "secagg" in sent[method]:
            assert sent[method]["secagg"] > sent[method]["secaggplus"]
    for method in ("qsgd", "fedsgm"):  # the integers of others are shorter than float32
        assert sent[method]["secaggplus"] > sent[method][""]
    assert sent["qsgd"]["lightsecagg"] > sent["qsgd"]["secagg"]  # of a vector of its full length


def test_every_method_has_a_row_for_every_protocol_or_a_reason(summed: Any) -> None:
    rows = list(secrecy.rows(*summed, "wifi"))
    assert {len(row) for row in rows} == {len(secrecy.HEADS)}
    found = {row[:2]: row[2] for row in rows}
    refused = {pair for pair, said in found.items() if said.startswith("refused")}
    open_twice = 2  # CHB with hidden silence is CHB without secrecy
    assert len(found) == len(secrecy.METHODS) * len(secrecy.PROTOCOLS) - open_twice
    assert len(refused) == sum(len(protocols) for _, protocols in secrecy.REFUSED)


def test_a_method_is_compared_in_the_seeds_in_which_both_reach_the_target() -> None:
    """With tails of 10 J, half of the rounds' energy is more than half of all."""
    rows = [
        {"radio": "lte", "leaving": 0.0, "method": method, "protocol": "", "seed": seed,
         "reached": reached, "joules": joules, "joules_after": 10.0}
        for method, runs in {"fedavg": [(True, 30.0), (True, 50.0), (True, 90.0)],
                             "qsgd": [(True, 20.0), (True, 30.0), (False, np.nan)]}.items()
        for seed, (reached, joules) in enumerate(runs)
    ]  # fmt: skip
    rounds = secrecy.relative(pd.DataFrame(rows)).loc[("lte", "qsgd", "")]
    asleep = secrecy.relative(pd.DataFrame(rows), "joules").loc[("lte", "qsgd", "")]
    assert rounds["ratio"] == rounds["low"] == rounds["high"] == 0.5
    assert asleep["ratio"] == 50 / 80
    assert asleep["low"] == 0.6 < asleep["high"] == 20 / 30


def test_what_is_refused_is_refused(tmp_path: Path) -> None:
    """A scenario of the method under the protocol has the reason that the study states."""
    for secret, said in {
        "top-k.secrecy={kind: secagg, supports: union}": "does not learn the error",
        "fast-fedda.secrecy={kind: lightsecagg}": "clients of fast-fedda send several",
    }.items():
        with pytest.raises(fedsim.ScenarioError, match=said):
            fedsim.run(secrecy.SCENARIO, out=tmp_path, overrides=[f"variants.{secret}"])


def test_a_probability_of_robust_is_that_of_the_pair(summed: Any) -> None:
    known = summed[1].set_index(["radio", "variant", "against", "cost"])
    for radio in ("lte", "wifi"):
        row = known.loc[(radio, "fedsgm-secagg", "fedsgm", "joules")]
        assert row["ratio"] > 1
        assert row["probability"] == row["probability_low"] == 0 < row["probability_high"] < 1


# -- differential privacy --------------------------------------------------------------


@pytest.fixture(scope="module")
def noised(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the runs under one seed, and in two drawn networks."""
    with pytest.MonkeyPatch.context() as patch:
        small = {"SEEDS": 1, "WORLDS": 8, "NETWORKS": 2, "ACCURACY": 0.7}
        for name, value in small.items():
            patch.setattr(privacy, name, value)
        return privacy.noised(tmp_path_factory.mktemp("privacy"))


@pytest.mark.needs("privacy")
def test_more_noise_has_less_epsilon_and_no_less_energy(noised: Any) -> None:
    rounds = privacy.means(noised[0]).loc[""]
    noisy = rounds.loc[[name for name in rounds.index if name.startswith("z-")]]
    assert (np.diff(noisy["epsilon"]) < 0).all()
    assert noisy["joules"].iloc[-1] > rounds["joules"]["clip"] >= rounds["joules"]["open"]


@pytest.mark.needs("privacy")
def test_fast_phones_lose_more_only_without_rounds(noised: Any) -> None:
    figures = privacy.means(noised[0])
    for noise in ("z-0.5", "z-1", "z-2"):
        alike, free = figures.loc["", noise], figures.loc["async", noise]
        assert alike[privacy.FAST] == pytest.approx(alike[privacy.SLOW], rel=1e-9)
        assert free[privacy.FAST] > free[privacy.SLOW]
        assert free["epsilon"] >= free[privacy.FAST]


@pytest.mark.needs("privacy")
def test_drawn_networks_say_how_often_an_order_holds(noised: Any) -> None:
    known = noised[1].set_index(["variant", "against", "cost"])
    slow = known.loc[(privacy.SLOW, privacy.FAST, "epsilon")]
    assert slow["probability"] == 1
    assert slow["ratio"] < 1
    assert known["probability"].between(known["probability_low"], known["probability_high"]).all()


@pytest.mark.needs("privacy")
def test_the_clips_of_the_scenario_are_among_those_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [each.scenario for each in fedsim.load(privacy.SCENARIO).variants]
    assert {each.privacy.clip for each in variants if each.privacy} <= {*privacy.CLIPS}
    methods: list[Any] = [each.algorithm for each in variants]
    assert {method.step_size for method in methods} <= {*privacy.STEPS}
    for name, value in {"STEPS": (1,), "CLIPS": (0.5, 2), "ACCURACY": 0.3}.items():
        monkeypatch.setattr(privacy, name, value)
    rounds = privacy.tuned()["round"]
    noises = {each.privacy.noise for each in variants if each.privacy}
    assert {*rounds.index} - {"base"} == {
        f"z-{noise:g}-clip-{clip}-step-1" for noise in noises for clip in privacy.CLIPS
    }
    assert rounds["z-0-clip-0.5-step-1"] >= rounds["z-0-clip-2-step-1"]


def test_steps_are_chosen_on_seeds_that_no_study_judges() -> None:
    judged = {*range(1, conducting.SEEDS + 1)}
    judged |= {*range(secrecy.FIRST, secrecy.FIRST + conducting.SEEDS)}
    tuned = range(conducting.TUNING, conducting.TUNING + conducting.TUNING_SEEDS)
    assert judged.isdisjoint(tuned)
    assert secrecy.FIRST > 5


def test_a_study_renews_its_answer_on_the_page_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    kept = "before\n<!-- answer: other -->\nold\n<!-- end of answer -->\n"
    page.write_text(f"{kept}<!-- answer: own -->\nold\n<!-- end of answer -->\nafter\n")
    for _ in range(2):
        conducting.renew(page, "own", "- new")
        conducting.renew(page, "unknown", "- new")
    answer = "<!-- answer: own -->\n- new\n<!-- end of answer -->\nafter\n"
    assert page.read_text() == kept + answer
    conducting.renew(tmp_path / "none.md", "own", "- new")
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("study", [rules, secrecy, privacy])
def test_a_page_has_a_place_for_the_answer(study: Any) -> None:
    assert f"<!-- answer: {study.COSTS.stem} -->\n- " in (STUDIES / "README.md").read_text("utf-8")


def test_a_ratio_of_means_has_an_interval_that_shrinks_with_more_seeds() -> None:
    rng = np.random.default_rng(1)
    other = rng.uniform(1, 2, 400)
    own = 3 * other * rng.uniform(0.8, 1.2, 400)
    few, many = conducting.ratio(own[:10], other[:10]), conducting.ratio(own, other)
    assert many["ratio"] == pytest.approx(own.mean() / other.mean())
    assert few["low"] < many["low"] < 3 < many["high"] < few["high"]


def test_an_interval_covers_what_was_seen_and_shrinks_with_more_of_it() -> None:
    wins, tries = np.array([0, 1, 5, 10]), np.array([10, 2, 10, 10])
    low, high = conducting.interval(wins, tries)
    assert (low <= wins / tries).all()
    assert (wins / tries <= high).all()
    assert low[0] == 0 < high[0]
    assert low[3] < 1 == high[3]
    few, many = conducting.interval(5, 10), conducting.interval(500, 1000)
    assert few[0] < many[0] < 0.5 < many[1] < few[1]
