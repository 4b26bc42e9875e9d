"""Figures of costs, clients, energy and rounds: what is drawn is what the tables and logs have."""

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fedsim
from fedsim.results import analysis
from fedsim.results.analysis import quantity
from fedsim.results.analysis.log.participation import OUTCOMES
from fedsim.results.analysis.plots.amounts import IN_ALL, draw_clients
from fedsim.results.analysis.plots.rounds import Lanes, Window, draw_round
from fedsim.results.analysis.style import OUTCOME_COLOURS
from tests.drawn import amounts_of, bars_of, rows_of
from tests.runs import SMALL, small
from tests.tiers import every

GRADIENTS = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
AWAY = {"kind": "markov", "on": "1 s", "off": "300 ms"}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    """Return runs of phones that go away, on batteries, and of boards on mains."""
    out = tmp_path_factory.mktemp("plots") / "out"
    fleet = [dict(group) for group in SMALL["fleet"]]
    fleet[0] |= {"battery": {"charge": "50 %"}, "availability": AWAY}
    stop = {"rounds": 25, "gap": 1e3}
    return fedsim.run(small(fleet=fleet, variants={"gd": GRADIENTS}, seeds=3, stop=stop), out=out)


def test_bars_are_the_means_of_the_costs_with_their_intervals(result: fedsim.Result) -> None:
    axis = analysis.plot_time_to_target(result, "gap=2e4", "t")
    table = analysis.summarise(analysis.Target.read("gap=2e4").costs(result)).set_index("variant")
    widths = [bar.get_width() for bar in axis.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx(table["t"].tolist())
    for bars, (_, row) in zip(axis.containers[1::2], table.iterrows(), strict=True):
        ((low, high),) = [segment[:, 0] for segment in bars[2][0].get_segments()]
        assert (low, high) == pytest.approx((row["t_low"], row["t_high"]))


def test_a_bar_of_which_some_seeds_did_not_arrive_says_how_many_did(result: fedsim.Result) -> None:
    gaps = result.rounds.groupby(["variant", "seed"])["gap"].min().loc["gd"].sort_values()
    target = f"gap={float(gaps.iloc[:2].mean())!r}"
    axis = analysis.plot_time_to_target(result, target, labels={"gd": "gd"})
    (text,) = axis.texts
    assert text.get_text().endswith(" s (1 of 3)")
    axis = analysis.plot_time_to_target(result, "gap=1e-30", labels={"gd": "gd"})
    assert [text.get_text() for text in axis.texts] == ["not reached"]


def test_the_front_joins_what_is_not_dominated(result: fedsim.Result) -> None:
    axis = analysis.plot_pareto(result, "bits", "joules", "gap=2e4")
    table = analysis.summarise(analysis.Target.read("gap=2e4").costs(result)).set_index("variant")
    for bars, (_, row) in zip(axis.containers, table.iterrows(), strict=True):
        (mark,) = np.asarray(bars[0].get_xydata())
        assert tuple(mark) == pytest.approx((row["bits"], row["joules"]))
    front = axis.lines[0].get_xydata()
    assert np.all(np.diff(np.asarray(front)[:, 1]) <= 0)
    assert axis.get_xlim()[1] > table["bits_high"].max()
    assert axis.get_ylim()[1] > table["joules_high"].max()


def test_the_distribution_of_uploads_is_that_of_the_log(result: fedsim.Result) -> None:
    axis = analysis.plot_upload_cdf(result, log=False)
    events = result.events
    up = events[
        (events["event"] == "send") & (events["node"] != "server") & events["detail"].isna()
    ]
    for line in axis.get_lines():
        name = {"base (chb)": "base"}.get(str(line.get_label()), str(line.get_label()))
        own = np.sort(up.loc[up["variant"] == name, "duration"])
        assert np.allclose(np.asarray(line.get_xdata(), float), own)
        assert line.get_ydata()[-1] == 1.0  # type: ignore[index]


def test_a_map_of_participation_counts_updates(result: fedsim.Result) -> None:
    axis = analysis.plot_participation(result, "base")
    shares = np.asarray(axis.images[0].get_array())
    rows = result.events[result.events["variant"] == "base"]
    rows = rows[(rows["event"] == "send") & (rows["payload_bits"] > 0) & rows["detail"].isna()]
    sent = {
        name: set(zip(own["seed"], own["round"], strict=True))
        for name, own in rows.groupby(rows["node"].astype(str))
    }
    rounds = result.rounds[(result.rounds["variant"] == "base") & (result.rounds["round"] > 0)]
    running = rounds.groupby("round").size().to_numpy()
    names = [text.get_text() for text in axis.get_yticklabels()]
    for place, name in enumerate(names):
        assert (shares[place] * running).sum() == pytest.approx(len(sent[name]))


def test_every_client_s_name_has_room_beside_a_map(result: fedsim.Result) -> None:
    clients = [replace_number(result.clients, number) for number in range(20)]
    many = SimpleNamespace(
        rounds=result.rounds,
        summary=result.summary,
        events=result.events,
        clients=pd.concat(clients, ignore_index=True),
    )
    for plot in (analysis.plot_participation, analysis.plot_silence):
        axis = plot(many, "base", width="ieee")
        figure = axis.get_figure(root=True)
        assert figure is not None
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axis.get_yticklabels()]
        assert len(boxes) == 20
        assert all(upper.y0 > lower.y1 - 2 for upper, lower in pairwise(boxes))


def replace_number(clients: pd.DataFrame, number: int) -> pd.DataFrame:
    """Return the rows of the first client as those of another one."""
    first = clients[clients["client"].astype(str) == "client-0"]
    return first.assign(client=f"client-{number}")


def test_a_map_of_silence_says_what_the_log_says_of_each_client_and_round(
    result: fedsim.Result,
) -> None:
    axis = analysis.plot_silence(result, "base", 2)
    table = np.asarray(axis.images[0].get_array())
    rows = result.events[(result.events["variant"] == "base") & (result.events["seed"] == 2)]
    seen: dict[tuple[str, int], set[str]] = {}
    for row in rows.astype({"node": str, "peer": str, "event": str}).to_dict("records"):
        client = row["peer"] if row["node"] == "server" else row["node"]
        event = row["event"]
        if event == "send" and row["node"] != "server" and row["payload_bits"] > 0:
            event = "replied" if not isinstance(row["detail"], str) else "lost"
        seen.setdefault((client, row["round"]), set()).add(event)
    names = [text.get_text() for text in axis.get_yticklabels()]
    for place, name in enumerate(names):
        for number in range(1, table.shape[1] + 1):
            own = [each for each in OUTCOMES if each in seen.get((name, number), set())]
            assert OUTCOMES[table[place, number - 1]] == (own[-1] if own else "no message")
    window = analysis.plot_silence(result, "base", 2, first=3, last=9)
    assert np.array_equal(np.asarray(window.images[0].get_array()), table[:, 2:9])


@pytest.mark.parametrize("by", ["variant", "device", "kind", "client"])
def test_parts_of_energy_add_up_to_the_joules_of_the_client_table(
    result: fedsim.Result, by: str
) -> None:
    axis = analysis.plot_energy(result, by)  # type: ignore[arg-type]
    own = result.clients
    if by != "variant":
        own = own[own["variant"] == "base"]
    wanted = own.groupby("group" if by == "kind" else by, sort=False, observed=True)["joules"]
    sums = dict.fromkeys(rows_of(axis), 0.0)
    for (name, _), joules in amounts_of(axis).items():
        sums[name] += joules
    assert list(sums.values()) == pytest.approx((wanted.sum() / 3).tolist())
    ends = {text.get_text().strip() for text in axis.texts}
    assert ends == {quantity(joules, "J") for joules in sums.values()}


def test_what_clients_did_is_what_the_client_tables_count(result: fedsim.Result) -> None:
    found = amounts_of(analysis.plot_outcomes(result, "base"))
    own = result.clients[result.clients["variant"] == "base"].groupby("client", sort=False)
    for name, column in {"replied": "transmissions", "silent": "silent"}.items():
        counts = own[column].sum() / 3
        assert [found[str(client), name] for client in counts.index] == pytest.approx(
            counts.tolist()
        )
    assert all(count > 0 for (_, name), count in found.items() if name == "replied")


def test_of_many_clients_boxes_hold_the_quarters_of_each_kind() -> None:
    rng = np.random.default_rng(1)
    counts = {name: rng.poisson(mean, 5000) for name, mean in (("replied", 4.0), ("lost", 0.3))}
    kinds = ["sensor" if share < 0.2 else "phone" for share in rng.random(5000).tolist()]
    index = pd.MultiIndex.from_arrays([[f"client-{n}" for n in range(5000)], kinds])
    rows = pd.DataFrame({**counts, "late": 0}, index=index.set_names(["client", "kind"]))
    axis = Figure().subplots()
    draw_clients(axis, rows, pd.DataFrame(), {**OUTCOME_COLOURS, IN_ALL: "black"}, "")
    assert axis.get_legend_handles_labels()[1] == ["replied", "lost", IN_ALL]
    assert rows_of(axis) == [f"{kind} ({kinds.count(kind):,})" for kind in dict.fromkeys(kinds)]
    rows[IN_ALL] = rows.sum(axis=1)
    lines: list[Any] = list(axis.collections)
    for number, name in enumerate(["replied", "lost", IN_ALL]):
        patch: Any = axis.patches[number]
        sides = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)[:, ::2, 0]
        whiskers, _, medians = (each.get_segments() for each in lines[3 * number :][:3])
        for place, kind in enumerate(dict.fromkeys(kinds)):
            own = rows[name][index.get_level_values(1) == kind]
            wanted = np.quantile(own, [0, 0.25, 0.5, 0.75, 1])
            assert sides[place, :2].tolist() == [wanted[1], wanted[3]]
            assert np.asarray(whiskers[place])[:, 0].tolist() == [wanted[0], wanted[4]]
            assert np.asarray(medians[place])[:, 0].tolist() == [wanted[2], wanted[2]]


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
    )
    moments = pd.DataFrame({"node": "client-0", "event": ["skipped", "skipped"], "t": [1.0, 3.0]})
    window, axis = Window(2, 1.0, 3.0), Figure().subplots()
    seen = Lanes(doings, moments).within(window)
    keys = draw_round(axis, seen, seen.choose(), window, pd.DataFrame({"client": []}))
    assert bars_of(axis) == {
        "tail": [("client-1", 0.0, 0.5)],
        "promotion": [("client-1", 0.0, 0.0)],
        "computing": [("client-1", 0.5, 1.0)],
        "offline": [("client-0", 0.0, 2.0)],  # its bar ends with the round
    }
    assert rows_of(axis) == ["client-0", "client-1"]
    mark, last = axis.get_lines()
    (begin, place), (end, _) = np.asarray(last.get_xydata()).tolist()
    assert (begin, end, round(place)) == (0.0, 1.0, 1)  # client-1 has computed until then
    assert (mark.get_label(), *np.asarray(mark.get_xydata()).tolist()) == ("skipped", [0.0, 0.0])
    names = ["promotion", "computing", "tail", "offline", "skipped", "last to finish"]
    assert [key.get_label() for key in keys] == names


def test_of_many_clients_those_that_were_done_last_have_lanes_and_some_of_the_others() -> None:
    nodes = [f"client-{number}" for number in range(1000)]
    ends = np.arange(1.0, 1001.0)
    doings = pd.DataFrame({"node": nodes, "state": "compute", "begin": ends - 0.5, "end": ends})
    nothing = pd.DataFrame({"node": [], "event": [], "t": []})
    lanes = Lanes(doings, nothing).choose()
    assert lanes[:-21:-1] == nodes[:-21:-1]
    assert len(lanes) == 40
    assert lanes[0] == "client-0"


def test_a_fan_holds_the_charges_of_the_batteries_and_few_have_a_line_each(
    result: fedsim.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = result.clients[(result.clients["variant"] == "gd") & (result.clients["seed"] == 1)]
    left = (own["final_joules"] / own["initial_joules"]).dropna() * 50  # percent of the capacity
    axis = analysis.plot_batteries(result, "gd", 1)
    ends = [np.asarray(line.get_ydata())[-1] for line in axis.get_lines()]
    assert ends == pytest.approx(left.tolist(), rel=1e-3)
    assert axis.get_legend_handles_labels()[1] == ["0: phone-mid, lte"]
    monkeypatch.setattr("fedsim.results.analysis.plots.energy._FEW", 0)
    axis = analysis.plot_batteries(result, "gd", 1)
    (line,) = axis.get_lines()
    assert line.get_label() == "0: phone-mid, lte"
    assert line.get_ydata()[-1] == pytest.approx(left.median(), rel=1e-3)  # type: ignore[index]
    assert len(axis.collections) == 2  # the bands
    with pytest.raises(fedsim.DataError, match="no client of this run has a battery"):
        analysis.plot_batteries(fedsim.run(small(stop={"rounds": 1})))


def test_a_round_is_drawn_from_its_begin_to_its_end(result: fedsim.Result) -> None:
    axis = analysis.plot_round(result, 4, "gd", 1)
    rounds = result.rounds[(result.rounds["variant"] == "gd") & (result.rounds["seed"] == 1)]
    times = rounds.set_index("round")["t"]
    assert axis.get_xlim() == pytest.approx((0, times[4] - times[3]))
    ends = [bar.end for own in bars_of(axis).values() for bar in own]
    assert max(ends) <= axis.get_xlim()[1] * (1 + 1e-9)
    slowest = times.diff().fillna(times.iloc[0]).max()
    assert analysis.plot_round(result, None, "gd", 1).get_xlim()[1] == pytest.approx(slowest)


def test_every_plot_draws_on_axes_of_the_caller(result: fedsim.Result) -> None:
    every: list[Callable[[Axes], Axes]] = [
        lambda ax: analysis.plot_time_to_target(result, "gap=2e4", ax=ax),
        lambda ax: analysis.plot_pareto(result, target="gap=2e4", ax=ax),
        lambda ax: analysis.plot_upload_cdf(result, ax=ax),
        lambda ax: analysis.plot_participation(result, ax=ax),
        lambda ax: analysis.plot_silence(result, ax=ax),
        lambda ax: analysis.plot_energy(result, ax=ax),
        lambda ax: analysis.plot_outcomes(result, ax=ax),
        lambda ax: analysis.plot_batteries(result, ax=ax),
        lambda ax: analysis.plot_round(result, ax=ax),
    ]
    for plot in every:
        figure = Figure()
        own = figure.add_subplot()
        assert plot(own) is own
        assert not figure.legends
        assert own.get_title() == ""


@every(
    ("call", "text"),
    [
        (lambda r: analysis.plot_round(r, 99), r"got the round 99; expected one from 1 to \d+"),
        (lambda r: analysis.plot_silence(r, "hb"), r"got 'hb'; expected one of base, gd"),
        (lambda r: analysis.plot_silence(r, "gd", 7), r"got 7; expected one of 1, 2, 3"),
        (lambda r: analysis.plot_pareto(r, "watts"), r"got 'watts'; expected one of round,"),
    ],
)
def test_what_is_not_there_is_refused(result: fedsim.Result, call: object, text: str) -> None:
    with pytest.raises(fedsim.DataError, match=text):
        call(result)  # type: ignore[operator]
