"""What the report says is what the analysis of the runs says."""

import re
from copy import copy, deepcopy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.results.accuracy import LOSSES, MANY, TRANSFERS
from fedsim.results.analysis import (
    AXES,
    ENERGY_PARTS,
    PART_COLOURS,
    Comparison,
    cost_to_target,
    energy_parts,
    over_seeds,
    quantity,
    spans,
    state_of_charge,
    summarise,
)
from fedsim.results.analysis.seeds import spread
from fedsim.results.record.read import read_all
from fedsim.results.report import components as amounts
from fedsim.results.report import convergence, energy, overview, timeline
from fedsim.results.report import fleet as participation
from fedsim.results.report import page as audit
from fedsim.results.report.components import PageFigure, each_or_spread
from fedsim.results.report.study import ReportedStudy
from fedsim.results.report.svg import HIGH
from tests.results.report.drawings import RESOLUTION, Drawing
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
    first = next(iter(overview.answers(study)))
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
    _, pairs = overview.tables(own)
    assert pairs.caption.endswith(f"paired difference from {own.labels['base']}")
    assert {row[0].text for row in pairs.rows} == {own.labels["gd"], own.labels["tree"]}
    verdicts = {row[-1].text for row in pairs.rows if row[0].text == own.labels["gd"]}
    assert case.table["reached"][0] > 1
    assert verdicts == {"too few seeds to tell"}  # it is costlier in all, which are at most three


def test_the_energy_of_all_kinds_is_that_of_the_clients(page: Page, study: ReportedStudy) -> None:
    caption = "Energy by kind of client, mean over seeds"
    whole = energy_parts(study.clients, ["variant"]) / 3
    variants = page.words(caption, "variant")
    assert set(whole) == set(ENERGY_PARTS.values()) - {"forwarding"}
    for part in (*whole, "in all"):
        sums = pd.Series(page.column(caption, part)).groupby(variants, sort=False).sum()
        wanted = whole.sum(axis=1) if part == "in all" else whole[part]
        assert np.allclose(sums, wanted, rtol=1e-12)


def test_the_bars_of_the_kinds_add_up_to_the_fleet(study: ReportedStudy) -> None:
    fleet = Drawing(energy.whole(study).drawing)
    bars = {(name, part): width for (name, part), width in fleet.bars().items()}
    parts = energy.by_kind(study)
    for variant, label in study.labels.items():
        kinds = Drawing(energy.kinds(study, variant).drawing)
        for (kind, part), width in kinds.bars().items():
            exact = parts.loc[(variant, kind), part]
            assert width == pytest.approx(exact, abs=RESOLUTION * kinds.x.high)
        for part in {part for name, part in bars if name == label}:
            whole = parts.loc[variant][part].sum()
            assert bars[label, part] == pytest.approx(whole, abs=RESOLUTION * fleet.x.high)
    amounts = parts.groupby(level="variant", sort=False).sum()
    told = fleet.titles(".//g[@class='bars']/rect")
    for name, label in study.labels.items():
        for part in map(str, amounts):
            joules = float(amounts[part][name])
            assert joules == 0 or f"{label}\n{part}: {quantity(joules, 'J')}" in told
    assert len(bars) == (amounts > 0).to_numpy().sum()


def test_the_points_of_curves_are_those_over_the_seeds(study: ReportedStudy) -> None:
    table = over_seeds(study.rounds, "gap", log=True)
    for variant, own in convergence.points(study, "gap").items():
        pd.testing.assert_frame_equal(own, table[table["variant"] == variant])


@pytest.mark.parametrize(("cost", "name"), [("round", "overview"), ("bits", "convergence")])
def test_curves_are_drawn_through_their_points(
    page: Page, study: ReportedStudy, cost: str, name: str
) -> None:
    choice = "gap" if name == "convergence" else ""
    drawn = Drawing(page.figures[f"{name}-{cost}"][choice].drawing)
    curves = drawn.curves()
    assert list(curves) == list(study.labels.values())[::-1]  # the first one lies on top
    for variant, own in convergence.points(study, "gap").items():
        x, y = curves[study.labels[variant]]
        assert np.allclose(x, own[cost], rtol=0, atol=RESOLUTION * drawn.x.high)
        decades = np.log10(drawn.y.high / drawn.y.low)
        assert np.allclose(np.log10(y), np.log10(own["mean"]), rtol=0, atol=RESOLUTION * decades)


def test_a_band_goes_from_the_least_seed_to_the_largest(page: Page, study: ReportedStudy) -> None:
    drawn = Drawing(page.figures["overview-round"][""].drawing)
    bands = [each.attrib["d"] for each in drawn.root.iterfind(".//path[@class='band']")]
    assert len(bands) == len(study.labels)
    own = convergence.points(study, "gap")
    for band, variant in zip(bands[::-1], study.labels, strict=True):
        ends = np.log10(own[variant][["low", "high"]].to_numpy())
        shares = [int(each) for each in re.findall(r"\d+", band.partition("l")[0])]
        top = np.log10(drawn.y.high)
        decades = top - np.log10(drawn.y.low)
        assert shares[1] / HIGH == pytest.approx((top - ends[0, 0]) / decades, abs=RESOLUTION)


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
            Drawing(figure.drawing)  # it is well-formed


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


def test_batteries_are_drawn_as_the_log_has_them(study: ReportedStudy) -> None:
    run = study.first
    figure = energy.batteries(study, run)
    assert figure is not None
    drawn = Drawing(figure.drawing)
    times = np.linspace(0, run.summary["t"], 300)
    wanted = state_of_charge(read_all([run.path], "events"), times)[run.variant, run.seed]
    curves = drawn.curves()
    for name, (x, y) in curves.items():
        own = 100 * wanted[name.partition(",")[0]]
        known = own.notna().to_numpy()
        level = np.interp(times[known], x, y)
        assert np.allclose(level, own[known], rtol=0, atol=2 * RESOLUTION * 102)
        assert x[0] == pytest.approx(times[known][0], abs=RESOLUTION * times[-1])
        assert x[-1] == pytest.approx(times[known][-1], abs=RESOLUTION * times[-1])
    assert len(curves) == 2


def test_many_batteries_are_a_median_and_a_band(
    study: ReportedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "_CURVES", 1)
    run = study.first
    figure = energy.batteries(study, run)
    assert figure is not None
    assert "the line is the median" in figure.note
    drawn = Drawing(figure.drawing)
    ((name, (x, y)),) = drawn.curves().items()
    assert name == "1: pi-4, wifi, median"
    times = np.linspace(0, run.summary["t"], 300)
    wanted = state_of_charge(read_all([run.path], "events"), times).median(axis=1).to_numpy()
    known = ~np.isnan(wanted)
    assert np.allclose(np.interp(times[known], x, y), 100 * wanted[known], rtol=0, atol=0.05)
    assert drawn.root.find(".//path[@class='band']") is not None


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
    caption = "What the clients of a kind did in a run, means over seeds"
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
    versions = dict(page.tables["What the runs were made with"][1:])
    assert versions["numpy"] == np.__version__


def test_the_errors_of_models_are_those_that_a_check_states(
    page: Page, study: ReportedStudy
) -> None:
    assert page.words("Errors of models", "network.model") == ["fluid"] * len(study.variants)
    shown = page.words("Errors of models", "how true its times are")
    for run, text in zip(study.variants.values(), shown, strict=True):
        lossy = any(group["radio"]["loss"]["kind"] != "none" for group in run.scenario["fleet"])
        regime = LOSSES if lossy else MANY
        assert text.startswith(f"Transfer times, {regime}: {TRANSFERS['fluid'][regime]} (")


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


@pytest.mark.parametrize("runs", [1, 3, timeline.RUNS])
def test_timelines_of_many_runs_draw_fewer_clients_each(runs: int) -> None:
    each = timeline.lanes_each(runs)
    assert 8 <= each <= 40
    assert each * runs * len(timeline.ROUNDS) <= 400
    names = [f"client-{number}" for number in range(100)]
    ends = np.linspace(0.1, 1.0, len(names))
    doings = pd.DataFrame(
        {"node": names, "state": "compute", "begin": 0.0, "end": ends, "bits": 0, "joules": 0.0}
    )
    marks = pd.DataFrame({"node": [], "t": [], "event": []})
    figure = timeline.figure(doings, marks, timeline.RoundWindow(1, 0.0, 1.0), each)
    assert figure.drawing.count("<rect") == each
    assert "client-99: computing" in figure.drawing
    assert f"the {each // 2} that were done last" in figure.note


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
    drawn = Drawing(
        timeline.figure(doings, pd.DataFrame(moments), timeline.RoundWindow(2, 1.0, 3.0)).drawing
    )
    assert drawn.spans() == {
        "tail": [("client-1", 0.0, 0.5)],
        "promotion": [("client-1", 0.0, 0.0)],
        "computing": [("client-1", 0.5, 0.5)],
        "offline": [("client-0", 0.0, 2.0)],  # its bar ends with the round
    }
    assert any(told.startswith("client-0: offline\n8.5 s from") for told in drawn.titles(".//rect"))
    assert drawn.moments() == {"skipped": [("client-0", 0.0)]}
    assert drawn.lanes == ["client-0", "client-1"]


def test_timelines_tell_where_every_client_was(study: ReportedStudy) -> None:
    run = study.first
    drawn = Drawing(timeline.figures(study, run)["first"].drawing)
    window = timeline.windows(run.rows(study.rounds))["first"]
    own = spans(read_all([run.path], "events"))
    own = own[(own["begin"] < window.end) & (own["node"].isin(drawn.lanes))]
    found = drawn.spans()
    assert own["state"].nunique() == len(found)
    near = RESOLUTION * window.end
    for state, name in (("compute", "computing"), ("upload", "sending"), ("download", "receiving")):
        rows = own[own["state"] == state]
        lengths = np.minimum(rows["end"], window.end) - rows["begin"]
        nodes, begins, widths = (list(each) for each in zip(*found[name], strict=True))
        assert widths == pytest.approx(lengths.tolist(), abs=near)
        assert begins == pytest.approx(rows["begin"].tolist(), abs=near)
        assert nodes == rows["node"].astype(str).tolist()


def test_a_large_fleet_has_as_many_lanes_as_a_screen() -> None:
    nodes = [f"client-{number}" for number in range(1000)]
    ends = np.arange(1.0, 1001.0)
    doings = pd.DataFrame({"node": nodes, "state": "compute", "begin": ends - 0.5, "end": ends})
    nothing = pd.DataFrame({"node": [], "event": [], "t": []})
    doings = doings.assign(bits=0, joules=0.0)
    figure = timeline.figure(doings, nothing, timeline.RoundWindow(1, 0.0, 2000.0))
    lanes = Drawing(figure.drawing).lanes
    assert lanes[:-21:-1] == nodes[:-21:-1]
    assert len(lanes) == 40
    assert lanes[0] == "client-0"
    assert "the 20 that were done last" in figure.note


def test_a_large_fleet_s_amounts_are_a_distribution_for_each_kind() -> None:
    rng = np.random.default_rng(1)
    counts = {name: rng.poisson(mean, 5000) for name, mean in (("replied", 4.0), ("lost", 0.3))}
    kinds = ["sensor" if share < 0.2 else "phone" for share in rng.random(5000).tolist()]
    index = pd.MultiIndex.from_arrays([[f"client-{n}" for n in range(5000)], kinds])
    rows = pd.DataFrame({**counts, "late": 0}, index=index.set_names(["client", "kind"]))
    colours = {"replied": "#000000", "lost": "#111111", "in all": "#222222"}
    figure = each_or_spread(rows, colours, "", "times", "in all")
    assert [key.name for key in figure.keys] == ["replied", "lost", "in all"]
    drawn = Drawing(figure.drawing)
    rows["in all"] = rows.sum(axis=1)
    found = drawn.boxes()
    assert set(found) == {(kind, part) for kind in ("sensor", "phone") for part in colours}
    for (kind, part), quarters in found.items():
        own = rows[part][index.get_level_values(1) == kind]
        wanted = np.quantile(own, [0, 0.25, 0.5, 0.75, 1]).tolist()
        assert quarters == pytest.approx(wanted, abs=RESOLUTION * drawn.x.high)
    assert len(figure.drawing) < 5000  # bytes, for however many clients


@pytest.mark.parametrize("name", ["participation", "energy"])
def test_a_page_of_many_clients_draws_kinds_and_not_clients(
    study: ReportedStudy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    clients, variant = participation.with_received_counts(study), next(iter(study.variants))

    def figure() -> PageFigure:
        if name == "energy":
            return energy.clients(study, variant)
        return participation.figure(study, clients, variant)

    few = Drawing(figure().drawing)
    assert len({bar for bar, _ in few.bars()}) == 5
    assert not few.boxes()
    monkeypatch.setattr(amounts, "_BARS", 2)
    drawn = Drawing(figure().drawing)
    assert not drawn.bars()
    assert {kind for kind, _ in drawn.boxes()} == set(clients["kind"].astype(str))
    assert "clients: of each kind" in figure().note


def test_the_energy_of_clients_is_that_of_the_client_tables(study: ReportedStudy) -> None:
    variant = next(iter(study.variants))
    drawn = Drawing(energy.clients(study, variant).drawing)
    own = study.clients[study.clients["variant"] == variant]
    wanted = own.groupby("client", sort=False)["joules"].sum() / study.seeds[variant]
    found: dict[str, float] = {}
    for (name, _), width in drawn.bars().items():
        client = name.partition(" ")[0]
        found[client] = found.get(client, 0.0) + width
    assert found == pytest.approx(
        wanted.to_dict(), abs=len(PART_COLOURS) * RESOLUTION * drawn.x.high
    )


def test_thinned_rows_keep_both_ends() -> None:
    for count in (1, 7, 100, 12345):
        rows = spread(count, 50)
        assert rows[0] == 0
        assert rows[-1] == count - 1
        assert len(rows) == min(count, 50)
        assert all(one < other for one, other in pairwise(rows))
