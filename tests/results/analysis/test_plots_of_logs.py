"""Figures of costs, clients, energy and rounds: what is drawn is what the tables and logs have."""

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import fedsim
from fedsim.results import analysis
from fedsim.results.analysis.log.participation import OUTCOMES
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
    assert [text.get_text() for text in axis.texts] == ["1 of 3"]
    axis = analysis.plot_time_to_target(result, "gap=1e-30", labels={"gd": "gd"})
    assert [text.get_text() for text in axis.texts] == ["not reached"]


def test_the_front_joins_what_is_not_dominated(result: fedsim.Result) -> None:
    axis = analysis.plot_pareto(result, "bits", "joules", "gap=2e4")
    table = analysis.summarise(analysis.Target.read("gap=2e4").costs(result)).set_index("variant")
    _, named = axis.get_legend_handles_labels()
    marks = [line for line in axis.lines if line.get_label() in named]
    for line, (_, row) in zip(marks, table.iterrows(), strict=True):
        (mark,) = np.asarray(line.get_xydata())
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


@pytest.mark.parametrize("by", ["variant", "device", "client"])
def test_parts_of_energy_add_up_to_the_joules_of_the_client_table(
    result: fedsim.Result, by: str
) -> None:
    axis = analysis.plot_energy(result, by)  # type: ignore[arg-type]
    own = result.clients
    if by != "variant":
        own = own[own["variant"] == "base"]
    wanted = own.groupby(by, sort=False, observed=True)["joules"].sum() / 3
    sums = np.zeros(len(wanted))
    for bar in axis.patches:
        sums[round(bar.get_y() + 0.35)] += bar.get_width()  # type: ignore[attr-defined]
    assert np.allclose(sums, wanted)


def test_a_fan_holds_the_charges_of_the_batteries(result: fedsim.Result) -> None:
    axis = analysis.plot_batteries(result, "gd", 1)
    (line,) = axis.get_lines()
    assert line.get_label() == "phone-mid"
    own = result.clients[(result.clients["variant"] == "gd") & (result.clients["seed"] == 1)]
    left = (own["final_joules"] / own["initial_joules"]).dropna() * 50  # percent of the capacity
    assert line.get_ydata()[-1] == pytest.approx(left.median(), rel=1e-3)  # type: ignore[index]
    with pytest.raises(fedsim.DataError, match="no client of this run has a battery"):
        analysis.plot_batteries(fedsim.run(small(stop={"rounds": 1})))


def test_a_round_is_drawn_from_its_begin_to_its_end(result: fedsim.Result) -> None:
    axis = analysis.plot_round(result, 4, "gd", 1)
    rounds = result.rounds[(result.rounds["variant"] == "gd") & (result.rounds["seed"] == 1)]
    times = rounds.set_index("round")["t"]
    assert axis.get_xlim() == pytest.approx((0, times[4] - times[3]))
    ends = [bar.get_x() + bar.get_width() for bar in axis.patches]  # type: ignore[attr-defined]
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
