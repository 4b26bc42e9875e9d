"""What the report says is what the analysis of the runs says."""

from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

import fedsim
from fedsim.results.accuracy import LOSSES, MANY, TRANSFERS
from fedsim.results.analysis import (
    AXES,
    ENERGY_PARTS,
    Comparison,
    cost_to_target,
    critical_path,
    energy_parts,
    over_seeds,
    quantity,
    spans,
    state_of_charge,
    summarise,
)
from fedsim.results.analysis.plots import amounts
from fedsim.results.analysis.plots.rounds import COLUMNS, Lanes, Window
from fedsim.results.analysis.seeds import spread
from fedsim.results.analysis.style import STATES
from fedsim.results.record.read import read_all
from fedsim.results.record.regimes import errors_of_energy
from fedsim.results.report import components, convergence, drawing, energy, overview, timeline
from fedsim.results.report import fleet as participation
from fedsim.results.report import page as audit
from fedsim.results.report.drawing import PageFigure
from fedsim.results.report.study import ReportedStudy
from tests.drawn import amounts_of, bars_of
from tests.results.report.conftest import captured
from tests.results.report.pages import Page

COST = "Cost to a gap below 50000"
UNITS = {"bits up": ("bits_up", "bit"), "time": ("t", "s"), "energy": ("joules", "J")}


@pytest.mark.slow
def test_the_table_of_costs_is_that_of_the_analysis(page: Page, study: ReportedStudy) -> None:
    table = summarise(cost_to_target(study.rounds, 5e4))
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


def test_the_answer_names_the_variant_of_least_cost(study: ReportedStudy) -> None:
    first = next(iter(overview.answers(study))).text
    table = summarise(cost_to_target(study.rounds, 5e4)).set_index("variant")
    assert (table["reached"] == table["runs"]).all()
    least, next_ = table["joules"].sort_values().index[:2]
    assert study.labels[str(least)].lower() in first.lower()
    assert study.labels[str(next_)].lower() in first.lower()


def test_the_others_are_held_against_one_that_got_there(runs: Path, study: ReportedStudy) -> None:
    """No run of gd gets below the least gap that gd has come to."""
    rounds = study.rounds
    least = float(rounds.loc[rounds["variant"] == "gd", "gap"].min())
    own = ReportedStudy(Comparison.of([runs], (f"gap={least!r}",), against="gd"))
    (case,) = own.comparison.cases
    assert case.table["reached"].gt(0).tolist() == [True, False, True]
    _, pairs, *_ = overview.tables(own)
    assert pairs.caption.endswith(f"paired difference from {own.labels['base']}")
    assert {row[0].text for row in pairs.rows} == {own.labels["gd"], own.labels["tree"]}
    verdicts = {
        row[pairs.heads.index("verdict")].text
        for row in pairs.rows
        if row[0].text == own.labels["gd"]
    }
    assert case.table["reached"][0] > 1
    assert verdicts == {"too few seeds to tell"}  # it is costlier in all, which are at most three


def test_the_energy_of_all_kinds_is_that_of_the_clients(page: Page, study: ReportedStudy) -> None:
    caption = "Energy by kind of client, mean over seeds"
    whole = energy_parts(study.clients, ["variant"]) / 3
    variants = page.words(caption, "variant")
    assert set(whole) == set(ENERGY_PARTS.values()) - {"forwarding"}
    whole = whole.loc[:, (whole > 0).any()]
    for part in (*whole, "in all"):
        sums = pd.Series(page.column(caption, part)).groupby(variants, sort=False).sum()
        wanted = whole.sum(axis=1) if part == "in all" else whole[part]
        assert np.allclose(sums, wanted, rtol=1e-12)


@pytest.mark.slow
def test_the_bars_of_the_kinds_add_up_to_the_fleet(
    study: ReportedStudy, drawn: Mapping[str, Axes]
) -> None:
    fleet, parts = amounts_of(drawn["energy"]), energy.by_kind(study)
    for number, (variant, label) in enumerate(study.labels.items()):
        kinds = amounts_of(drawn[f"kinds-{number}"])
        assert kinds == pytest.approx(
            {(kind, part): parts.loc[(variant, kind), part] for kind, part in kinds}
        )
        sums: dict[tuple[str, str], float] = {}
        for (_, part), joules in kinds.items():
            sums[label, part] = sums.get((label, part), 0.0) + joules
        whole = {bar: joules for bar, joules in fleet.items() if bar[0] == label and bar in sums}
        assert whole == pytest.approx(sums)
    assert sum(fleet.values()) == pytest.approx(study.clients["joules"].sum() / 3)


def test_bars_of_energy_say_what_radios_take_after_the_last_round(
    page: Page, study: ReportedStudy
) -> None:
    groups = study.rounds.groupby(["variant", "seed"], observed=True)
    logged = study.clients.groupby(["variant", "seed"], observed=True)["joules"].sum()
    assert np.allclose(groups["joules"].sum(), logged, rtol=1e-9)  # the bars have nothing else
    after = groups["joules_after"].last()
    assert (after > 1).all()
    drawings = {"energy": after, "kinds": after.loc[next(iter(study.variants))]}
    for name, joules in drawings.items():
        least, most = (quantity(value, "J") for value in (joules.min(), joules.max()))
        note = next(iter(page.figures[name].values())).note
        assert f"{least} to {most}" in note or (least == most and f"another {least} " in note)


@pytest.mark.parametrize("cost", ["round", "bits", "t", "joules"])
def test_curves_are_the_means_over_the_seeds(
    study: ReportedStudy, drawn: Mapping[str, Axes], cost: str
) -> None:
    table, axis = over_seeds(study.rounds, "gap", log=True), drawn[f"curves-0-{cost}"]
    lines = {str(line.get_gid()): line for line in axis.get_lines() if line.get_gid()}
    tails = [lines.pop(name) for name in list(lines) if name.endswith("-tail")]
    assert len(tails) == (len(study.labels) if cost == "joules" else 0)
    assert list(lines) == [f"variant-{number}" for number in range(len(study.labels))]
    for line, variant in zip(lines.values(), study.labels, strict=True):
        own = table[table["variant"] == variant]
        assert np.array_equal(np.asarray(line.get_xdata(), float), own[cost])
        assert np.array_equal(np.asarray(line.get_ydata(), float), own["mean"])
    assert axis.get_xlim()[0] == 0 < table[cost].max() < axis.get_xlim()[1]
    low, high = axis.get_ylim()
    assert low < table["low"].min() < table["high"].max() < high
    assert axis.get_yscale() == "log"


def test_a_band_goes_from_the_least_seed_to_the_largest(
    study: ReportedStudy, drawn: Mapping[str, Axes]
) -> None:
    table, axis = over_seeds(study.rounds, "gap", log=True), drawn["curves-0-round"]
    bands = {str(band.get_gid()): band for band in axis.collections}
    assert len(bands) == len(study.labels)
    for number, variant in enumerate(study.labels):
        own = table[table["variant"] == variant]
        (outline,) = bands[f"variant-{number}-band"].get_paths()
        corners = np.asarray(outline.vertices)
        for round_number, low, high in own[["round", "low", "high"]].to_numpy():
            here = corners[corners[:, 0] == round_number, 1]
            assert (here.min(), here.max()) == (low, high)


def test_long_curves_are_thinned_and_keep_their_ends(study: ReportedStudy) -> None:
    rounds = pd.DataFrame({"variant": "gd", "seed": 1, "round": range(5000), "objective": 1.0})
    long = study.rounds.iloc[:1].drop(columns=list(rounds)).merge(rounds, how="cross")
    own = copy(study)
    runs = replace(study.comparison.runs, rounds=long.assign(gap=1.0 / (1 + long["round"])))
    vars(own)["comparison"] = replace(study.comparison, runs=runs)
    with captured() as found:
        convergence.figures(own, "gap", "long")
    curves = [line for line in found["long-round"].get_lines() if line.get_gid()]
    every = [np.asarray(line.get_xdata(), float) for line in curves]
    (x,) = (each for each in every if len(each))
    assert len(x) == 400
    assert (x[0], x[-1]) == (0, 4999)


def test_every_choice_of_a_menu_has_its_figure(page: Page, study: ReportedStudy) -> None:
    figures = page.figures
    runs = [str(number) for number in range(len(study.runs))]
    variants = [str(number) for number in range(len(study.variants))]
    for name in ("kinds", "clients", "participation", "batteries"):
        assert list(figures[name]) == variants
        assert (
            page.options[
                {"kinds": "whose-kinds", "clients": "whose-energy"}.get(
                    name,
                    {"participation": "whose-clients", "batteries": "whose-batteries"}.get(
                        name, ""
                    ),
                )
            ]
            == variants
        )
    wanted = {f"{run}/{one}" for run in runs for one in timeline.ROUNDS}
    assert set(figures["timeline"]) == wanted
    assert page.options["which-run"] == runs
    assert page.options["which-round"] == list(timeline.ROUNDS)
    for cost in AXES:
        assert list(figures[f"convergence-{cost}"]) == page.options["which-measure"]
    for name, own in figures.items():
        assert own, name
        for figure in own.values():
            ET.fromstring(figure.drawing)  # noqa: S314 - it is well-formed


def test_the_table_of_batteries_balances_and_mains_have_none(study: ReportedStudy) -> None:
    table = energy.battery_table(study)
    assert table is not None
    held = study.clients.dropna(subset=["initial_joules"])
    assert len(table.rows) == len(held.groupby(["variant", "kind"], observed=True)) > 0
    for row in table.rows:
        at_start, charged, drained, at_end = (cell.value or 0.0 for cell in row[2:6])
        assert charged > 0 < drained
        assert at_start + charged - drained == pytest.approx(at_end, rel=1e-9)
    mains = copy(study)
    vars(mains)["clients"] = study.clients.assign(initial_joules=np.nan)
    assert energy.battery_table(mains) is None


def test_batteries_are_drawn_as_the_log_has_them(
    study: ReportedStudy, drawn: Mapping[str, Axes]
) -> None:
    run = study.first
    times = np.linspace(0, run.summary["t"], 300)
    wanted = state_of_charge(read_all([run.path], "events"), times)[run.variant, run.seed]
    lines = drawn["batteries-0"].get_lines()
    assert len(lines) == wanted.shape[1] == 2
    for line, (_, own) in zip(lines, wanted.items(), strict=True):
        assert np.allclose(np.asarray(line.get_xdata(), float), times)
        known = own.notna().to_numpy()
        assert np.allclose(np.asarray(line.get_ydata(), float)[known], 100 * own[known])


def test_whoever_was_asked_has_heard_or_missed_it(study: ReportedStudy) -> None:
    clients = participation.with_received_counts(study)
    for run in study.runs:
        own, rounds = run.rows(clients), run.rows(study.rounds)
        assert (own["received"] >= own["transmissions"] + own["silent"]).all()
        answers = own[["transmissions", "silent", "lost"]].to_numpy(dtype=int).sum()
        assert own["received"].sum() <= rounds["cohort"].sum() <= answers + len(own)
        assert own["received"].sum() + own["skipped"].sum() <= rounds["round"].max() * len(own)


def test_kinds_of_clients_are_those_of_the_scenario(runs: Path, study: ReportedStudy) -> None:
    table = participation.fleet_table(study, study.first)
    kinds = [[cell.text for cell in row] for row in table.rows]
    rows = [dict(zip(table.heads, row, strict=True)) for row in kinds]
    (plan, *_) = fedsim.load(runs / "gd/seed-1/scenario.yaml").variants
    for row, group in zip(rows, plan.scenario.fleet, strict=True):
        radio = group.radio
        assert row["clients"] == str(group.count)
        assert (row["device"], row["radio"]) == (group.device.kind, radio.kind)
    assert [row["battery"].rpartition(" at ")[-1] for row in rows] == ["mains", "50 %"]


def test_clients_of_a_scenario_without_a_fleet_have_no_limits(study: ReportedStudy) -> None:
    run = copy(study.first)
    vars(run)["scenario"] = {**run.scenario, "fleet": []}
    own = run.rows(study.clients).assign(group=0)
    vars(run)["rows"] = lambda _: own
    table = participation.fleet_table(study, run)
    ((_, _, device, speed, radio, up, down, *_),) = table.rows
    assert (device.text, radio.text) == ("ideal", "ideal")
    assert {cell.text for cell in (speed, up, down)} == {"unlimited"}


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_rate_that_is_read_from_a_file_is_called_a_trace(way: str, study: ReportedStudy) -> None:
    run = copy(study.first)
    fleet = deepcopy(run.scenario["fleet"])
    fleet[0]["radio"] = {"kind": "lte", f"{way}_trace": {"kind": "csv", "path": "any.csv"}}
    vars(run)["scenario"] = {**run.scenario, "fleet": fleet}
    table = participation.fleet_table(study, run)
    (first, *_) = table.rows
    assert dict(zip(table.heads, first, strict=True))[way].text == "trace"


def test_participation_is_that_of_the_client_tables(page: Page, study: ReportedStudy) -> None:
    caption = "Participation of each kind in a run: sums over its clients, means over seeds"
    for head, column in (("replied", "transmissions"), ("silent", "silent"), ("lost", "lost")):
        groups = study.clients.groupby(["variant", "kind"], sort=False, observed=True)
        assert page.column(caption, head) == (groups[column].sum() / 3).tolist()


def test_the_books_balance_and_are_those_of_the_summary(study: ReportedStudy) -> None:
    for run in study.runs:
        own = audit.books(run)
        assert own["sent"] == own["received"] + own["lost"] + own["in flight"]
        assert own["joules"] == pytest.approx(run.summary["joules"], rel=1e-9)
        assert own["sent"] == run.summary["bits_up"] + run.summary["bits_down"]


def test_the_audit_shows_hash_and_versions_of_every_run(page: Page, study: ReportedStudy) -> None:
    hashes = [run.manifest["events"]["sha256"] for run in study.runs]
    shown = [text.split("…") for text in page.words("How every run ended", "log, SHA-256")]
    assert shown == [[digest[:8], digest] for digest in hashes]
    versions = dict(page.tables["Versions"][1:])
    assert versions["numpy"] == np.__version__


def test_the_errors_of_models_are_those_that_a_check_states(
    page: Page, study: ReportedStudy
) -> None:
    (names,) = page.words("Errors of models", "variants")  # what holds for all stands once
    (model,) = page.words("Errors of models", "network.model")
    (text,) = page.words("Errors of models", "error of its times")
    assert (names, model) == ("all", "fluid")
    for run in study.variants.values():
        lossy = any(group["radio"]["loss"]["kind"] != "none" for group in run.scenario["fleet"])
        regime = LOSSES if lossy else MANY
        new = f"Transfer times over new connections, {regime}: {TRANSFERS['fluid'][regime]} ("
        assert new in text


def test_the_errors_of_energy_are_those_of_the_presets(page: Page, study: ReportedStudy) -> None:
    presets = page.words("Errors of energy", "presets")
    texts = page.words("Errors of energy", "error of their energy")
    found = [errors_of_energy(run.scenario["fleet"]) for run in study.variants.values()]
    assert {*zip(presets, texts, strict=True)} == {each for pairs in found for each in pairs}


def test_the_note_of_a_timeline_has_the_critical_path(page: Page, study: ReportedStudy) -> None:
    run = timeline.choose_runs(study)[0]
    (row, *_) = critical_path(run.events(COLUMNS)).to_dict("records")
    note = page.figures["timeline"]["0/first"].note
    assert f"the last reply is that of {row['client']}" in note
    for part in ("download", "upload"):
        assert f"{quantity(float(row[part]), 's')} {part}" in note


def test_rounds_of_the_timeline_are_what_they_are_called() -> None:
    rounds = pd.DataFrame({"round": [1, 2, 3, 4], "t": [1.0, 5.0, 7.0, 8.5]})
    found = timeline.chosen(rounds)
    assert {name: tuple(one) for name, one in found.items()} == {
        "first": (1, 0.0, 1.0),
        "slowest": (2, 1.0, 5.0),
        "median": (4, 7.0, 8.5),
        "last": (4, 7.0, 8.5),
    }
    assert timeline.chosen(rounds[:0]) == {}


@pytest.mark.parametrize("runs", [1, 3, timeline.RUNS])
def test_timelines_of_many_runs_draw_fewer_clients_each(runs: int) -> None:
    each = timeline.lanes_each(runs)
    assert 8 <= each <= 40
    assert each * runs * len(timeline.ROUNDS) <= 400
    names = [f"client-{number}" for number in range(100)]
    ends = np.linspace(0.1, 1.0, len(names))
    doings = pd.DataFrame({"node": names, "state": "compute", "begin": 0.0, "end": ends})
    nothing = pd.DataFrame({"node": [], "t": [], "event": []})
    lanes, nobody = Lanes(doings, nothing), pd.DataFrame({"client": names})
    figure = timeline.figure("one", lanes, Window(1, 0.0, 1.0), nobody, each)
    assert f"the {each // 2} that finished last" in figure.note
    assert figure.table is not None
    assert len(figure.table.rows) == each
    assert figure.table.rows[-1][0].text == "client-99"


def test_the_table_of_a_timeline_has_the_time_within_the_round() -> None:
    """A tail began before it, and the client is offline for longer than it."""
    doings = pd.DataFrame(
        [
            ("client-1", "tail", 0.5, 1.5),
            ("client-1", "compute", 1.5, 2.0),
            ("client-1", "compute", 2.5, 2.75),
            ("client-0", "offline", 0.5, 9.0),
        ],
        columns=["node", "state", "begin", "end"],
    )
    marks = pd.DataFrame({"node": ["client-0"], "event": ["skipped"], "t": [1.0]})
    clients = pd.DataFrame({"client": ["client-0", "client-1"]})
    figure = timeline.figure("one", Lanes(doings, marks), Window(2, 1.0, 3.0), clients)
    assert figure.table is not None
    assert list(figure.table.heads)[1:-1] == ["computing", "tail", "offline"]
    seconds = [[cell.value for cell in row[1:-1]] for row in figure.table.rows]
    assert seconds == [[0.0, 0.0, 2.0], [0.75, 0.5, 0.0]]
    assert [row[-1].text for row in figure.table.rows] == ["skipped", "-"]


def test_timelines_tell_where_every_client_was(
    study: ReportedStudy, drawn: Mapping[str, Axes]
) -> None:
    run = study.first
    window, axis = timeline.chosen(run.rows(study.rounds))["first"], drawn["timeline-0-1"]
    own = spans(read_all([run.path], "events"))
    own = own[own["begin"] < window.end].astype({"node": str, "state": str})
    found = bars_of(axis)
    assert {STATES[state][0] for state in own["state"]} == set(found)
    for state, (name, _) in STATES.items():
        rows = own[own["state"] == state]
        ends = np.minimum(rows["end"], window.end)
        wanted = zip(rows["node"], rows["begin"], ends, strict=True)
        assert [tuple(bar) for bar in found.get(name, [])] == [
            (node, pytest.approx(begin), pytest.approx(end)) for node, begin, end in wanted
        ]


@pytest.mark.parametrize("name", ["participation", "energy"])
def test_a_page_of_many_clients_draws_kinds_and_not_clients(
    study: ReportedStudy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clients, variant = participation.with_received_counts(study), next(iter(study.variants))

    def figure() -> PageFigure:
        if name == "energy":
            return energy.clients(study, variant, "one")
        return participation.figure(study, clients, variant, "one")

    few = figure()
    assert "client-4" in few.drawing
    assert few.table is not None
    assert len(few.table.rows) == 5
    for module in (amounts, drawing, components):
        monkeypatch.setattr(module, "BARS", 2)
    many = figure()
    assert "client-4" not in many.drawing
    assert all(kind in many.drawing for kind in clients["kind"].unique())
    assert "clients: of each kind" in many.note
    assert many.table is None


def test_the_energy_of_clients_is_that_of_the_client_tables(
    study: ReportedStudy, drawn: Mapping[str, Axes]
) -> None:
    own = study.clients[study.clients["variant"] == next(iter(study.variants))]
    wanted = own.groupby("client", sort=False)["joules"].sum() / 3
    found: dict[str, float] = {}
    for (client, _), joules in amounts_of(drawn["clients-0"]).items():
        found[client] = found.get(client, 0.0) + joules
    assert found == pytest.approx(wanted.to_dict())


def test_what_clients_did_is_drawn_as_the_client_tables_have_it(
    study: ReportedStudy, drawn: Mapping[str, Axes]
) -> None:
    own = study.clients[study.clients["variant"] == next(iter(study.variants))]
    counts = own.groupby("client")[["transmissions", "silent", "skipped"]].sum() / 3
    counts = counts.rename(columns={"transmissions": "replied"})
    found = amounts_of(drawn["participation-0"])
    for client, row in counts.iterrows():
        for name, count in row.items():
            assert found.get((str(client), str(name)), 0.0) == pytest.approx(count)


def test_thinned_rows_keep_both_ends() -> None:
    for count in (1, 7, 100, 12345):
        rows = spread(count, 50)
        assert rows[0] == 0
        assert rows[-1] == count - 1
        assert len(rows) == min(count, 50)
        assert all(one < other for one, other in pairwise(rows))
