"""What the report says is what the analysis of the runs says."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim.analysis import (
    ENERGY_PARTS,
    Comparison,
    cost_to_target,
    energy_parts,
    over_seeds,
    quantity,
    spans,
    state_of_charge,
    summarised,
)
from fedsim.record.read import read_all
from fedsim.report import audit, convergence, energy, overview, participation, timeline
from fedsim.report.parts import boxes, spread
from fedsim.report.study import Study
from tests.report.pages import Page

COST = "Cost to a gap below 50000"
LANES = "categoryarray"  # of a timeline
UNITS = {"bits up": ("bits_up", "bit"), "time": ("t", "s"), "energy": ("joules", "J")}


def test_the_table_of_costs_is_that_of_the_analysis(page: Page, study: Study) -> None:
    table = summarised(cost_to_target(study.rounds, 5e4))
    assert page.words(COST, "reached") == [
        f"{reached} of {runs}"
        for reached, runs in zip(table["reached"], table["runs"], strict=True)
    ]
    for head, (column, unit) in UNITS.items():
        assert page.column(COST, head) == table[column].tolist()
        for text, mean in zip(page.words(COST, head), table[column], strict=True):
            assert text.startswith(quantity(mean, unit))


def test_what_is_never_reached_is_said_to_be_so(page: Page) -> None:
    never = "Cost to objective of at most 1e-09"
    assert page.words(never, "reached") == ["0 of 3"] * 3
    assert set(page.words(never, "time")) == {"not reached"}
    assert "no variant got there under all its seeds" in page.text


def test_the_answer_names_the_variant_of_least_cost(study: Study) -> None:
    first = next(iter(overview.answers(study)))
    table = summarised(cost_to_target(study.rounds, 5e4)).set_index("variant")
    best = table["bits"].idxmin()
    assert (table["reached"] == table["runs"]).all()
    assert f"{study.labels[str(best)]} for the fewest bits" in first
    assert quantity(table["bits"].min(), "bit") in first


def test_the_others_are_held_against_one_that_got_there(runs: Path, study: Study) -> None:
    """No run of gd gets below the least gap that gd has come to."""
    rounds = study.rounds
    least = float(rounds.loc[rounds["variant"] == "gd", "gap"].min())
    own = Study(Comparison.of([runs], (f"gap={least!r}",), against="gd"))
    (case,) = own.comparison.cases
    assert case.table["reached"].gt(0).tolist() == [True, False, True]
    _, pairs = overview.tables(own)
    assert pairs.caption.endswith(f"less that of {own.labels['base']}, seed by seed")
    assert {row[0].text for row in pairs.rows} == {own.labels["tree"]}


def test_the_energy_of_all_kinds_is_that_of_the_clients(page: Page, study: Study) -> None:
    caption = "Energy by kind of client, mean over seeds"
    whole = energy_parts(study.clients, ["variant"]) / 3
    variants = page.words(caption, "variant")
    for part in (*ENERGY_PARTS.values(), "in all"):
        sums = pd.Series(page.column(caption, part)).groupby(variants, sort=False).sum()
        wanted = whole.sum(axis=1) if part == "in all" else whole[part]
        assert np.allclose(sums, wanted, rtol=1e-12)


def test_the_bars_of_the_kinds_add_up_to_the_fleet(study: Study) -> None:
    fleet = energy.whole(study)["data"]
    for number, variant in enumerate(study.variants):
        kinds = {trace["name"]: sum(trace["x"]) for trace in energy.kinds(study, variant)["data"]}
        mine = {trace["name"]: trace["x"][number] for trace in fleet}
        assert kinds == pytest.approx({name: mine[name] for name in kinds}, rel=1e-6)


def test_curves_are_those_over_the_seeds(page: Page, study: Study) -> None:
    table = over_seeds(study.rounds, "gap", log=True)
    columns = page.figures["columns"]
    for number, variant in enumerate(study.labels):
        own = table[table["variant"] == variant]
        for name in (*convergence.AXES, "mean", "least", "largest"):
            assert columns[f"gap/{number}/{name}"] == pytest.approx(own[name].tolist(), rel=1e-6)


def test_every_figure_finds_the_columns_that_it_names(page: Page) -> None:
    figures, columns = page.figures["figures"], page.figures["columns"]
    named = [
        trace[axis][1:]
        for figure in figures.values()
        for trace in figure["data"]
        for axis in ("x", "y")
        if str(trace.get(axis)).startswith("@")
    ]
    assert named
    assert set(named) <= set(columns)


def test_batteries_are_drawn_as_the_log_has_them(study: Study) -> None:
    run = study.first
    drawn = energy.batteries(study, run)
    assert drawn is not None
    times = np.linspace(0, run.summary["t"], 300)
    wanted = state_of_charge(read_all([run.path], "events"), times)[run.variant, run.seed]
    for trace in drawn["data"]:
        own = wanted[trace["hovertemplate"].partition(",")[0]]
        assert np.allclose(np.array(trace["y"], dtype=float), own, atol=1e-6, equal_nan=True)
        assert trace["dx"] * (len(own) - 1) == pytest.approx(times[-1], rel=1e-6)
    assert len(drawn["data"]) == 2


def test_whoever_was_asked_has_heard_or_missed_it(study: Study) -> None:
    clients = participation.counted(study)
    for run in study.runs:
        own, rounds = run.rows(clients), run.rows(study.rounds)
        answers = own[["transmissions", "silent", "lost"]].to_numpy(dtype=int).sum()
        assert own["heard"].sum() <= rounds["cohort"].sum() <= answers + len(own)
        assert own["heard"].sum() + own["skipped"].sum() <= len(rounds) * len(own)


def test_participation_is_that_of_the_client_tables(page: Page, study: Study) -> None:
    caption = "What the clients of a kind did in a run, means over seeds"
    for head, column in (("replied", "transmissions"), ("silent", "silent"), ("lost", "lost")):
        groups = study.clients.groupby(["variant", "kind"], sort=False, observed=True)
        assert page.column(caption, head) == (groups[column].sum() / 3).tolist()


def test_the_books_balance_and_are_those_of_the_summary(study: Study) -> None:
    for run in study.runs:
        own = audit.books(run)
        assert own["sent"] == own["received"] + own["lost"] + own["in flight"]
        assert own["joules"] == pytest.approx(run.summary["joules"], rel=1e-9)
        assert own["sent"] == run.summary["bits_up"] + run.summary["bits_down"]


def test_the_audit_shows_hash_and_versions_of_every_run(page: Page, study: Study) -> None:
    hashes = [run.manifest["events"]["sha256"] for run in study.runs]
    assert page.words("How every run ended", "log, SHA-256") == hashes
    versions = dict(page.tables["What the runs were made with"][1:])
    assert versions["numpy"] == np.__version__


def test_rounds_of_the_timeline_are_what_they_are_called() -> None:
    rounds = pd.DataFrame({"round": [1, 2, 3, 4], "t": [1.0, 5.0, 7.0, 8.5]})
    found = timeline.windows(rounds)
    assert {name: (one.number, one.begin, one.end) for name, one in found.items()} == {
        "first": (1, 0.0, 1.0),
        "slowest": (2, 1.0, 5.0),
        "median": (4, 7.0, 8.5),
        "last": (4, 7.0, 8.5),
    }
    assert timeline.windows(rounds[:0]) == {}


def test_a_timeline_shows_what_overlaps_its_round_and_nothing_else() -> None:
    doings = pd.DataFrame(
        [
            ("client-1", "download", 0.5, 1.0),  # ended as the round began
            ("client-1", "tail", 0.5, 1.5),  # began before it
            ("client-1", "compute", 1.5, 2.0),
            ("client-0", "offline", 0.5, 9.0),  # lasts longer than it
            ("client-1", "upload", 3.0, 3.5),  # began as it ended
            ("client-1", "promotion", 1.0, 1.0),  # took no time as it began
        ],
        columns=["node", "state", "begin", "end"],
    ).assign(bits=0, joules=0.0)
    moments = {"node": "client-0", "event": ["skipped", "skipped"], "t": [1.0, 3.0]}
    drawn = timeline.figure(doings, pd.DataFrame(moments), timeline.Window(2, 1.0, 3.0))
    bars = {
        trace["name"]: (trace["y"], trace["base"], trace["x"])
        for trace in drawn["data"]
        if trace["type"] == "bar"
    }
    assert bars == {
        "radio connected, no bits": (["client-1"], [0.0], [0.5]),
        "radio wakes": (["client-1"], [0.0], [0.0]),
        "compute": (["client-1"], [0.5], [0.5]),
        "offline": (["client-0"], [0.0], [8.0]),
    }
    (mark,) = [trace for trace in drawn["data"] if trace["type"] == "scatter"]
    assert (mark["name"], mark["x"], mark["y"]) == ("left out", [0.0], ["client-0"])
    assert drawn["layout"]["yaxis"][LANES] == ["client-1", "client-0"]


def test_timelines_tell_where_every_client_was(study: Study) -> None:
    run = study.first
    drawn = timeline.figures(study, run)["first"]
    window = timeline.windows(run.rows(study.rounds))["first"]
    own = spans(read_all([run.path], "events"))
    own = own[(own["begin"] < window.end) & (own["node"].isin(drawn["layout"]["yaxis"][LANES]))]
    bars = {trace["name"]: trace for trace in drawn["data"] if trace["type"] == "bar"}
    assert own["state"].nunique() == len(bars)
    for state, name in (("compute", "compute"), ("upload", "upload"), ("download", "download")):
        rows = own[own["state"] == state]
        assert sum(bars[name]["x"]) == pytest.approx((rows["end"] - rows["begin"]).sum(), rel=1e-6)
        assert bars[name]["base"] == pytest.approx(rows["begin"].tolist(), rel=1e-6)
        assert sorted(bars[name]["y"]) == sorted(rows["node"])


def test_a_large_fleet_has_as_many_lanes_as_a_screen() -> None:
    nodes = [f"client-{number}" for number in range(1000)]
    ends = np.arange(1.0, 1001.0)
    doings = pd.DataFrame({"node": nodes, "state": "compute", "begin": ends - 0.5, "end": ends})
    nothing = pd.DataFrame({"node": [], "event": [], "t": []})
    doings = doings.assign(bits=0, joules=0.0)
    drawn = timeline.figure(doings, nothing, timeline.Window(1, 0.0, 2000.0))
    lanes = drawn["layout"]["yaxis"][LANES]
    assert lanes[:20] == nodes[:-21:-1]
    assert len(lanes) == 40
    assert lanes[-1] == "client-0"
    assert "the 20 that were done last" in drawn["note"]


def test_a_large_fleet_s_participation_is_a_distribution_for_each_kind() -> None:
    rng = np.random.default_rng(1)
    counts = {name: rng.poisson(mean, 5000) for name, mean in (("replied", 4.0), ("lost", 0.3))}
    rows = pd.DataFrame({**counts, "late": 0})
    kinds = pd.Series(["sensor" if share < 0.2 else "phone" for share in rng.random(5000).tolist()])
    drawn = boxes(rows, kinds, {"replied": "#000000", "lost": "#111111"})
    assert [trace["name"] for trace in drawn["data"]] == ["replied", "lost"]
    for trace in drawn["data"]:
        assert sorted(trace["y"]) == ["phone", "sensor"]
        for place, kind in enumerate(trace["y"]):
            own = np.sort(rows.loc[kinds == kind, trace["name"]])
            quarters = [trace[end][place] for end in ("q1", "median", "q3")]
            assert quarters == np.quantile(own, [0.25, 0.5, 0.75]).tolist()
            assert trace["lowerfence"][place] == own[0]
            assert trace["upperfence"][place] == own[-1]
    assert len(json.dumps(drawn)) < 2000  # bytes, for however many clients


def test_a_page_of_many_clients_draws_kinds_and_not_clients(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, variant = participation.counted(study), next(iter(study.variants))
    assert {trace["type"] for trace in participation.figure(study, clients, variant)["data"]} == {
        "bar"
    }
    monkeypatch.setattr(participation, "_BARS", 2)
    drawn = participation.figure(study, clients, variant)
    assert {trace["type"] for trace in drawn["data"]} == {"box"}
    assert set(drawn["data"][0]["y"]) == set(clients["kind"].astype(str))
    assert "clients: of each kind" in drawn["note"]


def test_thinned_rows_keep_both_ends() -> None:
    for count in (1, 7, 100, 12345):
        rows = spread(count, 50)
        assert rows[0] == 0
        assert rows[-1] == count - 1
        assert len(rows) == min(count, 50)
        assert all(one < other for one, other in pairwise(rows))
