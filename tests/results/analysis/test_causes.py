"""The causes of a difference: they add up to it, and each is what a hand would compute."""

import warnings
from contextlib import chdir
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.table_columns import UNITS
from fedsim.core.text import quantity, unbroken
from fedsim.results.analysis import Causes, Comparison, Target, causes, explain, final_cost
from fedsim.results.analysis.compare import causes as module
from fedsim.results.analysis.compare.answer import Leading, leading
from fedsim.results.analysis.costs import with_bits
from fedsim.results.analysis.log.spending import REST, bits_until, energy_until, time_until
from fedsim.results.record.scenarios import parse, read_text
from tests.campaigns.worlds.campaign import prepared
from tests.campaigns.worlds.drawing import world
from tests.results.analysis.lively import log as by_hand
from tests.runs import small

COSTS = ("t", "joules", "bits")


class Pool:
    """Runs of different scenarios as if they were variants of one, all under seed 1."""

    def __init__(self) -> None:
        self.folders: dict[tuple[str, int], Path] = {}
        self._rounds: list[pd.DataFrame] = []

    def add(self, name: str, scenario: dict[str, Any], out: Path) -> None:
        result = fedsim.run(scenario, out=out, check=False)
        rounds = result.rounds.astype({"variant": object})
        if (rounds["round"] > 0).any():
            self.folders[name, 1] = result.runs[0]
            self._rounds.append(rounds.assign(variant=name, seed=1))

    def has_path(self, name: str) -> bool:
        """Return whether a run has a server that waits for replies of clients."""
        scenario = parse(read_text(self.folders[name, 1]), Path("scenario.yaml"))
        asked = scenario.get("participation") or {}
        kind = asked if isinstance(asked, str) else asked.get("kind")
        return (
            not (scenario.get("tiers") or scenario["network"].get("peers"))
            and kind != "asynchronous"
        )

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.folders]

    @property
    def rounds(self) -> pd.DataFrame:
        return pd.concat(self._rounds, ignore_index=True)

    def causes(self, one: str, other: str, cost: str) -> Causes:
        rounds = self.rounds
        return causes(self.folders, rounds, final_cost(rounds), (one, other), cost)

    def cost(self, name: str, cost: str) -> float:
        costs = with_bits(final_cost(self.rounds))
        return float(costs.loc[costs["variant"] == name, cost].sum())


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Return random worlds: lost messages, deadlines, tiers, peers and asynchronous servers."""
    pool, out = Pool(), tmp_path_factory.mktemp("worlds")
    with prepared() as files, chdir(files), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, 25):
            try:
                pool.add(str(number), world(number), out / str(number))
            except ScenarioError:
                continue
    return pool


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
def test_causes_add_up_to_the_difference_and_change_sign_with_the_runs(
    worlds: Pool, cost: str
) -> None:
    names, compared = worlds.names, 0
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        if cost == "t" and not (worlds.has_path(one) and worlds.has_path(other)):
            with pytest.raises(DataError, match="no critical path"):
                worlds.causes(one, other, cost)
            continue
        compared, found = compared + 1, worlds.causes(one, other, cost)
        ours, theirs = worlds.cost(one, cost), worlds.cost(other, cost)
        scale = max(ours, theirs)
        assert found.difference == pytest.approx(ours - theirs, abs=1e-9 * scale)
        assert found.table["share"].sum() == pytest.approx(1, abs=1e-9 * scale / abs(ours - theirs))
        turned = worlds.causes(other, one, cost).table.set_index("cause")["difference"]
        own = found.table.set_index("cause")["difference"]
        assert np.allclose(own, -turned[own.index], rtol=1e-9, atol=1e-9 * scale)
        if cost != "bits":  # nothing of time and energy is left without a name
            rest = found.table.set_index("cause").loc[REST]
            assert abs(rest["one"]) + abs(rest["other"]) <= 1e-9 * scale
        assert (found.table[["one", "other"]].to_numpy() >= -1e-9 * scale).all()
        check_printed_sum(found)
    assert compared >= 8


def test_the_critical_path_is_cut_by_what_its_client_does() -> None:
    server = {"node": "server", "peer": None}
    to = {"peer": "server", "payload_bits": 60}
    sent = {"event": "send", "node": "server", "peer": "client-0", "payload_bits": 80}
    received = {"event": "receive", "node": "client-0", "peer": "server", "payload_bits": 80}
    arrived = {"event": "receive", "node": "server", "peer": "client-0", "payload_bits": 60}
    events = by_hand(
        {"event": "exchange", **server, "t": 1.0},  # 1 s before the exchange
        {"event": "promotion", "t": 3.0, "duration": 2.0},
        {**sent, "t": 4.5, "duration": 1.0},
        {**received, "t": 4.5, "duration": 1.0},  # 0.5 s of latency, 1 s of download
        {"event": "compute", "t": 7.5, "duration": 3.0},
        {"event": "compute", "node": "client-1", "t": 8.0, "duration": 8.0},  # not on the path
        {"event": "send", **to, "t": 10.0, "duration": 2.0},  # 0.5 s of latency, 1 + 1 s of upload
        {**arrived, "t": 10.25},  # 0.25 s in transit
        {"event": "round", **server, "t": 11.0},  # 0.75 s after the last reply
        {"event": "exchange", **server, "t": 11.0, "round": 2},
        {**sent, "t": 13.0, "duration": 2.0, "round": 2},
        {**received, "t": 13.0, "duration": 2.0, "round": 2},  # 1 s beyond the highest rate
        {"event": "send", **to, "t": 14.0, "duration": 1.0, "round": 2},
        {**arrived, "t": 14.0, "round": 2},
        {"event": "round", **server, "t": 14.0, "round": 2},
    )
    first, both = time_until(events, 1), time_until(events, 2)
    assert {name: value for name, value in first.parts.items() if value} == {
        "promotion": 2.0, "download": 1.0, "computing": 3.0, "upload": 1.0, "slower link": 1.0,
        "latency and queues": 1.25, "after the last reply": 0.75, "before an exchange": 1.0,
    }  # fmt: skip
    assert sum(first.parts.values()) == 11.0
    assert {name: both.parts[name] - first.parts[name] for name in both.parts} == {
        **dict.fromkeys(both.parts, 0.0), "download": 1.0, "slower link": 1.0, "upload": 1.0
    }  # fmt: skip
    assert both.counts == {"exchanges": 2, "awake": 1, "upload bits": 120, "waits": 1}
    assert both.last == {"client-0": 2}
    with pytest.raises(DataError, match="no commit of round 3"):
        time_until(events, 3)


def test_energy_and_bits_are_those_of_the_rows_up_to_the_round() -> None:
    server = {"node": "server", "peer": None}
    up = {"event": "send", "peer": "server", "header_bits": 10}
    events = by_hand(
        {"event": "promotion", "joules": 1.0},
        {"event": "tail", "joules": 2.0},
        {"event": "compute", "joules": 4.0},
        {**up, "payload_bits": 100, "joules": 8.0},
        {"event": "retransmit", "peer": "server", "transport_bits": 7, "joules": 16.0},
        {**up, "joules": 32.0},  # a beacon
        {"event": "send", "node": "server", "peer": "client-0", "payload_bits": 50},
        {"event": "receive", "peer": "server", "payload_bits": 50, "joules": 64.0},
        {"event": "round", **server, "joules": 128.0},
        {**up, "payload_bits": 100, "joules": 256.0, "round": 2},
        {"event": "round", **server, "round": 2},
    )
    energy, bits = energy_until(events, 1), bits_until(events, 1)
    assert {name: value for name, value in energy.parts.items() if value} == {
        "promotion": 1.0, "tail": 2.0, "computing": 4.0, "sending": 40.0, "sending again": 16.0,
        "receiving": 64.0, "idle": 128.0,
    }  # fmt: skip
    assert energy.counts == {"promotions": 1, "messages": 2}
    assert bits.parts == {"payload": 100, "headers": 10, "beacons": 10, "sending again": 7}
    assert bits.counts == {"messages": 1}
    assert energy_until(events, 2).parts["sending"] == 296.0


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Return runs that differ from the first in one thing each."""
    out, own = tmp_path_factory.mktemp("pool"), Pool()
    base: dict[str, Any] = {"algorithm": {"kind": "gd", "step_size": "1/L"}, "stop": {"rounds": 10}}
    variants: dict[str, dict[str, Any]] = {
        "plain": {},
        "longer": {"stop": {"rounds": 15}},
        "shorter values": {"wire": {"values": "float32"}},
        "far": {"network": {"server": {"latency": "50 ms"}}},
    }
    for name, changes in variants.items():
        own.add(name, small(**{**base, **changes}), out / name)
    return own


def causes_of(found: Causes) -> dict[str, float]:
    """Return the causes that make more than rounding does, and what they make of it."""
    table = found.table[found.table["share"].abs() > 1e-9]
    return dict(zip(table["cause"], table["difference"], strict=True))


PREFIXES = ("p", "n", "µ", "m", "", "k", "M", "G", "T")
SPANS = {"min": 60.0, "h": 3600.0, "days": 86_400.0, "years": 31_557_600.0}
MINUS = "\N{MINUS SIGN}"


def value_of(text: str) -> Fraction:
    """Return the number of a printed difference, in the unit of its print."""
    return Fraction(text.split(maxsplit=1)[0].replace(MINUS, "-"))


def size_of(prefix: str) -> float:
    """Return the power of ten of a prefix."""
    return 1000.0 ** PREFIXES.index(prefix) / 1000.0**4


def check_printed_sum(found: Causes) -> None:
    """Check that printed parts add up to the printed sum, and each is rounded up or down."""
    *parts, whole = found.lines()
    assert sum(value_of(text) for _, text, _ in parts) == value_of(whole[1])
    number, unit = whole[1].split()
    last = 10.0 ** -len(number.partition(".")[2])
    size = SPANS.get(unit) or size_of(unit.removesuffix(UNITS.get(found.cost, "bit")))
    names = {name.text: cause for cause, name in module._NAMES[found.cost].items()}
    exact = found.table.set_index("cause")["difference"] / size
    shown = {name: float(value_of(text)) for name, text, _ in parts}
    shown.pop("others", None)
    assert all(abs(exact[names[name]] - value) <= last * 1.000001 for name, value in shown.items())
    assert abs(found.difference / size - float(value_of(whole[1]))) <= last


TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.mark.parametrize("cost", COSTS)
def test_the_printed_factors_of_a_cause_multiply_out(pool: Pool, cost: str) -> None:
    """A reader computes each cause again from its line alone."""
    computed = 0
    for one, other in permutations(pool.names, 2):
        try:
            found = pool.causes(one, other, cost)
        except DataError:  # they cost the same
            continue
        for name, text, amounts in found.lines()[:-1]:
            known, *factors = amounts.split(" (")[0].split(f", {TIMES} ")
            if not factors:
                continue
            ends = [magnitude(each) for each in known.split(" per ")[0].split(" instead of ")]
            product = np.prod([magnitude(each) for each in factors])
            rounded = 5e-3 * product * (max(ends) + abs(ends[0] - ends[1]))
            error = abs((ends[0] - ends[1]) * product - magnitude(text))
            last = 10.0 ** -len(text.split()[0].partition(".")[2])  # digits after the point
            scale = magnitude(f"1 {text.split()[1]}") if " " in text else 1.0
            assert error <= rounded + last * scale, (one, other, name, text, amounts)
            computed += 1
    assert computed > 10


def magnitude(text: str) -> float:
    """Return a printed quantity in base units."""
    number, _, unit = text.replace(MINUS, "-").strip().partition(" ")
    size = SPANS.get(unit) or size_of(unit.removesuffix("bit").removesuffix("J").removesuffix("s"))
    return float(number) * size


def test_bits_of_shorter_values_are_those_of_the_payload(pool: Pool) -> None:
    clients, values, rounds = 5, 10, 10
    saved = -32.0 * clients * values * rounds
    own = causes_of(pool.causes("shorter values", "plain", "bits"))
    payload, down = own.pop("payload"), own.pop("downlink")
    assert payload == pytest.approx(saved, abs=1e-6)
    # What framing has to do with the length of a message is no payload.
    assert down + own.pop("headers", 0.0) == pytest.approx(
        pool.cost("shorter values", "bits") - pool.cost("plain", "bits") - saved, abs=1e-6
    )
    assert not own


def test_five_more_rounds_of_equal_bits_are_all_of_the_difference(pool: Pool) -> None:
    assert causes_of(pool.causes("longer", "plain", "bits")) == {
        "rounds": pytest.approx(pool.cost("plain", "bits") / 2)
    }


def test_a_longer_way_is_latency_and_what_the_fleet_draws_meanwhile(pool: Pool) -> None:
    before, after = (pool.cost(name, "t") for name in ("plain", "far"))
    time = causes_of(pool.causes("far", "plain", "t"))
    assert time["latency and queues"] == pytest.approx(after - before, rel=1e-6)
    found = pool.causes("far", "plain", "joules")
    plain = fedsim.open(pool.folders["plain", 1].parents[1])
    power = plain.clients["idle_joules"].sum() / plain.summary["t"].iloc[0]
    assert causes_of(found)["idle"] == pytest.approx(power * (after - before), rel=1e-6)
    assert "rounds of " in found.notes["idle"]


@pytest.mark.slow
def test_the_censoring_study_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["run", "censoring"])
    answer, reason = done.stdout.splitlines()[:2]
    assert answer.endswith("less energy than hb (one seed)")
    result = fedsim.open("runs/censoring")
    found = result.causes("chb", "hb")
    rounds = dict(zip(result.summary["variant"], result.summary["rounds"], strict=True))
    (name, saved, amounts), *others = found.lines()
    assert name == "rounds"
    assert amounts.startswith(
        f"{rounds['chb']} instead of {rounds['hb']}, \N{MULTIPLICATION SIGN} "
    )
    assert reason.split() == [name, *saved.split(), *amounts.split()]
    assert others[-1][2] == " instead of ".join(quantity(total, "J") for total in found.totals)
    printed = done.stdout.split("\n\n")[0]
    assert CliRunner().invoke(app, ["compare", "runs/censoring"]).stdout.startswith(printed)
    written = pd.read_csv("runs/censoring/comparison/causes.csv")
    assert written["difference"].sum() == pytest.approx(found.difference)
    page = CliRunner().invoke(app, ["report", "runs/censoring"])
    assert page.exit_code == 0
    text = Path("runs/censoring/report.html").read_text(encoding="utf-8")
    assert all(unbroken(part) in text for line in found.lines() for part in line)


def test_over_seeds_causes_are_means_of_the_seeds(tmp_path: Path) -> None:
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
    lossy = {"kind": "lte", "loss": {"kind": "independent", "rate": "20 %"}}
    fleet = [{"count": 5, "device": "phone-mid", "radio": lossy}]
    stop = {"rounds": 40, "gap": 5000}
    result = fedsim.run(small(seeds=3, fleet=fleet, variants=variants, stop=stop), out=tmp_path)
    comparison = result.compare()
    found = comparison.causes("gd", "base")
    pairs = comparison.frames()["pairs"].set_index(["variant", "cost"])
    assert found.seeds == 3
    assert found.difference == pytest.approx(pairs.loc[("gd", "joules"), "difference"])
    assert found.lines()[-1][2].endswith(" (means over 3 seeds)")
    check_printed_sum(found)


def test_amounts_that_would_contradict_a_cause_are_left_out() -> None:
    """Over seeds the mean of a product may go the other way than the product of the means."""
    names = ["cause", "one", "other", "unit", "difference", "share"]
    rows = [["rounds", 21.0, 20.0, "", -3.0, 0.75], ["sending", 1.0, 2.0, "J", -1.0, 0.25]]
    table = pd.DataFrame(rows, columns=names)
    found = Causes("joules", "a", "b", 2, table, (21.0, 25.0), {"rounds": "why", "sending": "why"})
    assert found.lines() == [
        ("rounds", f"{MINUS}3.00 J", "why"),
        ("sending", f"{MINUS}1.00 J", f"1 J instead of 2 J per round, {TIMES} about 20.5 (why)"),
        ("all", f"{MINUS}4.00 J", "21 J instead of 25 J (means over 2 seeds)"),
    ]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12).filter(lambda d: abs(sum(d)) > 1e-3))
def test_lines_add_up_and_first_name_what_goes_the_way_of_the_difference(made: list[float]) -> None:
    names = ("rounds", *(name for name in module._NAMES["t"] if name != "rounds"))
    rows = [[name, 2.0, 1.0, "", each, 0.0] for name, each in zip(names, made, strict=False)]
    columns = ["cause", "one", "other", "unit", "difference", "share"]
    table = pd.DataFrame(rows, columns=columns)
    found = Causes("t", "a", "b", 1, table, (sum(made), 0.0), {})
    check_printed_sum(found)
    parts = [value_of(text) for name, text, _ in found.lines()[:-1] if name != "others"]
    whole = sum(made)
    signs = [part * whole < 0 for part in parts if part]
    assert signs == sorted(signs)


def test_without_a_decision_or_a_log_there_is_no_line(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, whole = pool.rounds, Target("gap", 1.0)
    costs, labels = final_cost(rounds), {name: name for name in ("plain", "far")}

    def asked(table: pd.DataFrame, names: dict[str, str]) -> Leading | None:
        return leading(table, whole, names)

    found = asked(costs, labels)
    assert explain(pool.folders, rounds, costs, found) is not None
    assert explain({}, rounds, costs, found) is None  # no log
    assert asked(costs, {"plain": "plain"}) is None  # nothing to compare
    same = costs.assign(joules=1.0)
    assert explain(pool.folders, rounds, same, asked(same, labels)) is None
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    assert explain(pool.folders, rounds, costs, found) is None
    with pytest.raises(DataError, match="causes are computed for up to 100"):
        causes(pool.folders, rounds, costs, ("plain", "far"), "joules")
    with pytest.raises(DataError, match="expected one of t, joules, bits"):
        causes(pool.folders, rounds, costs, ("plain", "far"), "round")


def test_an_asynchronous_server_has_causes_of_energy_and_no_critical_path(tmp_path: Path) -> None:
    method = {"kind": "fedbuff", "step_size": 1e-4, "local_steps": 1}
    asked = {"kind": "asynchronous", "buffer": 2}
    variants = {"b": {"network": {"server": {"latency": "1 s"}}}}
    scenario = small(algorithm=method, participation=asked, variants=variants, stop={"rounds": 4})
    comparison = Comparison.of([fedsim.run(scenario, out=tmp_path).folder])
    assert comparison.causes("base", "b", "joules").table["share"].sum() == pytest.approx(1)
    with pytest.raises(DataError, match="no critical path"):
        comparison.causes("base", "b", "t")
