"""The figures of a row: curves against what rounds cost, and measures by what cases vary."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

import fedsim
from fedsim.results.analysis import (
    AXES,
    EVERY_AXIS,
    GREY,
    label_axis,
    look,
    name_variants,
    over_seeds,
    panels,
    progress,
    typeset,
    typeset_labels,
)
from fedsim.results.analysis.style import Maths, against_cost, entitle, shared_upwards
from reproduction import clusters, functions, video
from reproduction.measures import Found
from reproduction.model import SEPARATOR, Drawing, Row
from reproduction.states import mean

Results = Mapping[str, fedsim.Result]
"""By case; of what a case tries, the best runs."""


def draw(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Return a figure of a row.

    Args:
        figure: how it is drawn.
        row: whose it is.
        results: of its cases.
        found: its numbers.
    """
    return DRAWN[figure.kind](figure, row, results, found)


def _title(figure: Drawing, found: Found) -> str:
    return Maths(f"{typeset(figure.title)}\n{found.setting}")


def _rounds(figure: Drawing, row: Row, results: Results) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rounds of a figure's case, and the labels of the variants that it shows."""
    case = figure.case or next(iter(results))
    labels = next(each.labels for each in row.settings() if each.name == case)
    rounds = results[case].rounds
    there = set(rounds["variant"])  # of variants that share a label the best one alone
    wanted = there.intersection(figure.variants or labels)
    return rounds, {name: label for name, label in labels.items() if name in wanted}


def by_cost(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw a column against what rounds cost, a panel a cost."""
    rounds, shown = _rounds(figure, row, results)
    drawing = progress(
        rounds,
        typeset_labels(shown),
        figure.column,
        axes=figure.against,
        ylabel=figure.label,
        title=_title(figure, found),
        log=figure.log,
        target=figure.target,
    )
    if figure.log_costs:
        for axis, cost in zip(drawing.axes, figure.against or AXES, strict=False):
            every = np.concatenate([line.get_xdata() for line in axis.lines])
            low, high = every[every > 0].min(), every.max()
            if low < high:  # linear axes begin at 0; a run of one round has no width
                axis.set_xlim(low, high)
            label_axis(axis.xaxis, *EVERY_AXIS[cost], log=True)
    return drawing


def by_column(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw several columns against the rounds, a panel a column.

    `given` may name those whose axis is not logarithmic, `linear`, and a least round, `since`.
    """
    rounds, shown = _rounds(figure, row, results)
    drawing, every = panels(len(figure.columns), 2)
    for axis, (column, called) in zip(every, figure.columns.items(), strict=True):
        log = column not in figure.given.get("linear", ())
        table = over_seeds(rounds[rounds["variant"].isin(list(shown))], column, log=log)
        table = table[table["round"] >= figure.given.get("since", 0)]
        for number, (name, label) in enumerate(shown.items()):
            own, style = table[table["variant"] == name], look(number)
            axis.plot(own["round"], own["mean"], label=typeset(label), **style)
            ends = own["low"], own["high"]
            axis.fill_between(own["round"], *ends, color=style["color"], alpha=0.2, linewidth=0)
        label_axis(axis.yaxis, typeset(called), log=log)
        label_axis(axis.xaxis, "round")
    name_variants(drawing)
    entitle(drawing, _title(figure, found))
    return drawing


def by_case(figure: Drawing, row: Row, _: Results, found: Found) -> Figure:
    """Draw measures against an axis of the cases, a panel a measure, a curve all else."""
    drawing, every = panels(len(figure.measures), height=3.0)
    for axis, measure in zip(every, figure.measures, strict=True):
        curves: dict[str, dict[float, tuple[float, ...]]] = {}
        for setting in row.settings():
            if figure.x not in setting.fields:
                continue
            for label in setting.labels.values():
                key = SEPARATOR.join(filter(None, (setting.name, label, measure)))
                if key in found.numbers:
                    own = found.numbers[key]
                    rest = setting.fields.get("curve", label)
                    x = float(setting.fields[figure.x])
                    curves.setdefault(str(rest), {})[x] = (mean(own), min(own), max(own))
        for number, (label, points) in enumerate(curves.items()):
            look_of, xs = look(number), list(points)
            middle, low, high = np.array(list(points.values())).T
            axis.plot(xs, middle, marker="o", ms=4, label=typeset(label), **look_of)
            axis.fill_between(xs, low, high, color=look_of["color"], alpha=0.2, linewidth=0)
        ticks = sorted({x for points in curves.values() for x in points})
        label_axis(axis.xaxis, typeset(figure.label or figure.x), log=True)
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.minorticks_off()
        if figure.log:
            label_axis(axis.yaxis, measure, log=True)
        else:
            axis.set_ylabel(measure)
    name_variants(drawing)
    entitle(drawing, _title(figure, found))
    return drawing


def workers(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw each worker's transmissions in the first iterations, a panel a case."""
    first = int(figure.given["first"])
    drawing, every = panels(len(results), height=3.0, sharey=True)
    steep = functions.constants(row)
    for axis, (case, result) in zip(every, results.items(), strict=True):
        seeds = result.summary["seed"].unique()
        labels = next(each.labels for each in row.settings() if each.name == case)
        for number, name in enumerate(figure.variants or labels):
            own = look(number)
            sent = np.array(
                [functions.transmitting(result, name, int(seed))[:first].sum(0) for seed in seeds]
            )
            called = typeset_labels(labels)[name]
            axis.plot(steep, sent.mean(axis=0), marker="o", ms=4, label=called, **own)
            ends = sent.min(0), sent.max(0)
            axis.fill_between(steep, *ends, color=own["color"], alpha=0.2, linewidth=0)
        eps1 = result.summary["parameters.eps1"].dropna()
        if len(eps1):
            axis.axvline(
                float(np.sqrt(eps1).mean()),
                color=GREY,
                linestyle="--",
                label=Maths(r"$\sqrt{\varepsilon_1}$"),
            )
        axis.axhline(first / 2, color=GREY, linestyle=":", label="half of the iterations")
        label_axis(axis.xaxis, "smoothness $L_m$ of the worker", log=True)
        axis.set_title(typeset(case), fontsize=10)
    every[0].set_ylabel(f"transmissions in the\nfirst {first} iterations")
    name_variants(drawing)
    entitle(drawing, _title(figure, found), apart=len(results) > 1)
    return drawing


def descents(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw the mean descent per transmission against the gap, under the first seed."""
    drawing, (axis,) = panels(1, height=3.4)
    result = next(iter(results.values()))
    start = result.summary.set_index(["variant", "seed"])["start"]
    rounds = result.rounds[result.rounds["seed"] == result.rounds["seed"].min()]
    for number, name in enumerate(figure.variants or row.variants):
        own = rounds[rounds["variant"] == name]
        first = start[(name, own["seed"].iloc[0])]
        sent = own["transmissions"].cumsum() - own["transmissions"]  # of the rounds before
        value = ((first - own["objective"]) / sent.where(sent > 0))[1:]
        axis.plot(own["gap"][1:], value, label=typeset(row.variants[name]), **look(number))
    label_axis(axis.xaxis, "objective error $f - f^\\star$", log=True)
    label_axis(axis.yaxis, "descent per\ntransmission", log=True)
    name_variants(drawing)
    entitle(drawing, _title(figure, found))
    return drawing


def by_round(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw a column by rounds, a panel a variant, a curve a case whose name begins with a text.

    `given` has that text (`cases`), what a curve is called, with a star for the rest of the name
    (`called`), and whether values are shares of the initial model's objective (`of_start`).
    """
    labels = {name: row.variants[name] for name in figure.variants or row.variants}
    begins = str(figure.given.get("cases", ""))
    cases = [case for case in results if case.startswith(begins)]
    drawing, every = panels(len(labels), height=3.0, sharey=True)
    for axis, (name, label) in zip(every, labels.items(), strict=True):
        for number, case in enumerate(cases):
            rounds, runs = results[case].rounds, results[case].summary
            own = over_seeds(rounds[rounds["variant"] == name], figure.column, log=figure.log)
            start = float(runs["start"].mean()) if figure.given.get("of_start") else 1.0
            rest = case.removeprefix(begins).strip(" ,")
            called = Maths(str(figure.given["called"]).replace("*", rest))
            axis.plot(own["round"], own["mean"] / start, label=called, **look(number))
        against_cost(axis, "round")
        axis.set_title(typeset(label), fontsize=10)
    shared_upwards(every, 2, figure.label or figure.column, log=figure.log)
    name_variants(drawing)
    entitle(drawing, _title(figure, found), apart=len(labels) > 1)
    return drawing


def in_plane(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw rows where t-SNE puts them, in the colours of their clusters, under the first seed."""
    (run, *_) = next(iter(results.values())).runs
    shown = clusters.picture(run, int(figure.given["most"]))
    drawing, (axis,) = panels(1, height=4.5)
    colours = colormaps["tab10"](shown.kinds % 10)
    axis.scatter(shown.places[:, 0], shown.places[:, 1], c=colours, s=4, linewidths=0)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlabel(f"{len(shown.kinds)} rows by t-SNE, a colour a cluster")
    entitle(drawing, _title(figure, found))
    return drawing


def recovered(figure: Drawing, row: Row, results: Results, found: Found) -> Figure:
    """Draw a frame of a video, the model in its place under the first seed, and the difference."""
    frames = video.VIDEOS[figure.given["video"]]()
    basis, _, frame = video.span(frames)
    result = next(iter(results.values()))
    (name, *_) = figure.variants or row.variants
    model = basis @ result.model(name, int(result.summary["seed"].min()))
    pictures = {
        "frame 82": (frame, 0, 1),
        row.variants[name]: (model, 0, 1),
        "difference": (np.abs(model - frame), 0, 1),
    }
    drawing, every = panels(len(pictures), len(pictures), height=2.0)
    for axis, (label, (pixels, low, high)) in zip(every, pictures.items(), strict=True):
        axis.imshow(pixels.reshape(frames.shape[1:]), cmap="gray", vmin=low, vmax=high)
        axis.set(xticks=[], yticks=[], xlabel=label)
        axis.spines[:].set_visible(False)
    entitle(drawing, _title(figure, found))
    return drawing


DRAWN: dict[str, Callable[[Drawing, Row, Results, Found], Figure]] = {
    "progress": by_cost,
    "columns": by_column,
    "against": by_case,
    "workers": workers,
    "descents": descents,
    "recovered": recovered,
    "by-round": by_round,
    "plane": in_plane,
}
"""The kinds of figures."""
