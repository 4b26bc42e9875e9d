"""The synthetic experiments of Chen, Blum, Sadler (CHB): what is claimed beside what is seen.

    python analysis/papers/chb_synthetic.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The parts are linear and logistic, both where none is named; each runs its scenario under
scenarios/papers/ with two readings of alpha = 1/L: L the smoothness constant of the sum of all
losses, as a scenario's "1/L" has it, and L_1 + ... + L_M, which bounds that and is what a server
can know without the data. Prints transmissions and iterations, the claims with the number of
seeds that they hold under, and what the target costs; draws analysis/figures/chb-synthetic-*.png.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

import fedsim
from fedsim.analysis import (
    GREY,
    cost_to_target,
    entitle,
    label_axis,
    listing,
    look,
    name_variants,
    panels,
    progress,
    quantity,
    run_parts,
    save,
    typeset_labels,
)
from fedsim.analysis.style import Maths
from fedsim.ports import Array
from fedsim.problems.data import PlantedSmoothness

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

TASKS = ("linear", "logistic")

LABELS = {
    "base": "CHB",
    "hb": "HB",
    "lag": "LAG",
    "gd": "GD",
    "chb-mild": "CHB, c = 0.01",
    "chb-harsh": "CHB, c = 1",
}

WHOLE, ADDED = "1/L", "1/(L_1 + ... + L_M)"
"""The readings of the step size."""

STEPS = {WHOLE: r"$\alpha = 1/L$", ADDED: r"$\alpha = 1/(L_1 + \dots + L_M)$"}
"""The readings as figures have them."""

EDGE = r"$\sqrt{\varepsilon_1}$ of CHB, $c = 0.1$"

FIRST = 24  # so many iterations the paper looks at

COSTS = {"transmissions": "", "bits": "bit", "t": "s", "joules": "J"}


def constants(task: str) -> Array:
    """Return the L_m of a task, shape (M,)."""
    data = fedsim.load(SCENARIOS / f"chb-synthetic-{task}.yaml").variants[0].scenario.problem.data
    assert isinstance(data, PlantedSmoothness)  # noqa: S101 - the scenario names it
    return data.smoothness()


def ran(task: str, reading: str, out: Path | None, overrides: Sequence[str]) -> fedsim.Result:
    """Run a task under a reading of its step size."""
    if reading == ADDED:
        step = f"algorithm.step_size={1 / float(constants(task).sum())}"
        own = [f"variants.{name}.{step}" for name in LABELS if name != "base"]
        overrides = [step, *own, *overrides]
    folder = out and out / f"{task}-{'whole' if reading == WHOLE else 'added'}"
    return fedsim.run(SCENARIOS / f"chb-synthetic-{task}.yaml", out=folder, overrides=overrides)


class Run:
    """The methods under one seed.

    Attributes:
        constants: the L_m, shape (M,).
        sent: variant -> the workers that transmitted in each iteration, shape (iterations, M).
        eps1: the threshold of CHB.
        flat: which workers have L_m^2 <= eps1, shape (M,).
    """

    def __init__(self, task: str, result: fedsim.Result, seed: int) -> None:
        events, summary = result.events, result.summary
        own = summary[summary["seed"] == seed].set_index("variant")
        told = events[(events["seed"] == seed) & (events["event"] == "send")]
        told = told[told["message"] == "innovation"]
        self.constants = constants(task)
        self.eps1 = float(own["parameters.eps1"].to_dict()["base"])
        self.flat = self.constants**2 <= self.eps1
        shape = int(own["rounds"].max()), len(self.constants)
        self.sent: dict[str, NDArray[np.bool_]] = {}
        for name, rounds in own["rounds"].to_dict().items():
            table, own_told = np.zeros(shape, dtype=bool), told[told["variant"] == name]
            workers = own_told["node"].astype(str).str.removeprefix("client-").astype(int)
            table[own_told["round"].to_numpy() - 1, workers.to_numpy()] = True
            self.sent[str(name)] = table[: int(rounds)]

    def first(self, name: str) -> Array:
        """Return the workers' transmissions in the first iterations, shape (M,)."""
        return np.asarray(self.sent[name][:FIRST].sum(axis=0), dtype=np.float64)

    def more(self, name: str, than: str) -> tuple[float, float]:
        """Return how many times the transmissions and the iterations of another one it takes."""
        one, other = self.sent[name], self.sent[than]
        return float(one.sum() / other.sum()), len(one) / len(other)


def seeds(task: str, result: fedsim.Result) -> list[Run]:
    """Return what happened under each seed."""
    return [Run(task, result, int(seed)) for seed in result.summary["seed"].unique()]


def halves(run: Run) -> bool | None:
    """Return whether Lemma 2 holds of CHB at every iteration; None if it covers no worker."""
    own = run.sent["base"][:, run.flat].cumsum(axis=0)
    most = (np.arange(len(own)) + 2) // 2  # half of k iterations, the odd one rounded up
    return bool((own <= most[:, None]).all()) if own.size else None


def by_steepness(run: Run) -> bool | None:
    """Return whether flatter workers transmit less, and the steepest always; None of equal ones."""
    counts = run.first("base")
    always = counts[-1] == min(FIRST, len(run.sent["base"]))
    return bool(always and (np.diff(counts) >= 0).all()) if np.ptp(run.constants) else None


CLAIMS: dict[str, Callable[[Run], float | None]] = {
    "in 24 iterations, flatter workers transmit less, the steepest always": by_steepness,
    "Lemma 2: L_m^2 <= eps1 transmits in at most half of the iterations": halves,
    "CHB has the fewest transmissions": lambda run: all(
        run.more(name, "base")[0] > 1 for name in ("hb", "lag", "gd")
    ),
    "CHB has about HB's iterations": lambda run: run.more("base", "hb")[1],
    "LAG has more of both": lambda run: min(run.more("lag", "base")) > 1,
    "c = 0.01 has HB's iterations": lambda run: run.more("chb-mild", "hb")[1],
    "c = 0.1 saves transmissions": lambda run: run.more("base", "hb")[0],
    "c = 1 has more iterations": lambda run: run.more("chb-harsh", "base")[1],
}
"""The paper's claims: whether they hold, or the ratio that they are about."""


def seen(claim: Callable[[Run], float | None], runs: Sequence[Run]) -> str:
    """Return under how many seeds a claim holds, or from where to where its ratio goes."""
    values = [value for value in map(claim, runs) if value is not None]
    if not values:
        return "-"
    if isinstance(values[0], bool):
        return f"{sum(values):.0f} of {len(values)} seeds"
    return f"{min(values):.2f} to {max(values):.2f} times"


def claim_table(task: str, results: Mapping[str, fedsim.Result]) -> Table:
    """Return what the paper claims beside what is seen, a column a reading."""
    runs = {reading: seeds(task, result) for reading, result in results.items()}
    rows = [
        (claim, *(seen(function, runs[reading]) for reading in results))
        for claim, function in CLAIMS.items()
    ]
    flat = [f"{own[0].flat.sum()} of {len(own[0].constants)}" for own in runs.values()]
    rows.append(("workers that Lemma 2 is about", *flat))
    return listing(f"{task}: claimed, and seen at alpha =", ("claim", *results), rows)


def costs(result: fedsim.Result) -> pd.DataFrame:
    """Return what the target took on the mean over seeds: a row a method, a column of `COSTS`."""
    reached = cost_to_target(result.rounds, float(result.summary["target"].max()))
    reached["bits"] = reached["bits_up"] + reached["bits_down"]
    columns = ["round", *COSTS]
    return reached.groupby("variant", sort=False, observed=True)[columns].mean().loc[list(LABELS)]


def cost_table(task: str, results: Mapping[str, fedsim.Result]) -> Table:
    """Return transmissions, iterations and costs as a table for reading."""
    rows = [
        (
            reading,
            LABELS[str(name)],
            *(f"{row[column]:.1f}" for column in ("transmissions", "round")),
            *(quantity(row[column], unit) for column, unit in COSTS.items() if unit),
        )
        for reading, result in results.items()
        for name, row in costs(result).iterrows()
    ]
    heads = ("alpha", "method", "transmissions", "iterations", "bits", "time", "energy")
    return listing(f"{task}: to the target on nine phones over LTE, means", heads, rows)


def finding(task: str, results: Mapping[str, fedsim.Result]) -> str:
    """Return a sentence on the remaining part of CHB's saving in bits, seconds and joules."""
    texts = []
    for reading, result in results.items():
        table = costs(result)
        sent, bits, t, joules = (table[cost]["base"] / table[cost]["hb"] for cost in COSTS)
        texts.append(f"{sent:.0%} ({bits:.0%}, {t:.0%}, {joules:.0%}) at {reading}")
    text = "of HB's transmissions (bits, seconds, joules) CHB takes"
    return fill(f"{task}: {text} {' and '.join(texts)}.", 88)


def draw_workers(results: Mapping[str, fedsim.Result]) -> Figure:
    """Draw each worker's transmissions in the first iterations, a panel a reading."""
    figure, every = panels(len(results), height=3.0, sharey=True)
    names, ways = typeset_labels(LABELS), ("chb-mild", "base", "chb-harsh", "lag")
    for axis, (reading, result) in zip(every, results.items(), strict=True):
        runs = seeds("linear", result)
        steepness = runs[0].constants
        for name in ways:
            own, sent = look(list(LABELS).index(name)), np.array([run.first(name) for run in runs])
            axis.plot(steepness, sent.mean(axis=0), marker="o", ms=4, label=names[name], **own)
            ends = sent.min(0), sent.max(0)
            axis.fill_between(steepness, *ends, color=own["color"], alpha=0.2, linewidth=0)
        edge = np.sqrt([run.eps1 for run in runs]).mean()
        axis.axvline(edge, color=GREY, linestyle="--", label=EDGE)
        axis.axhline(FIRST / 2, color=GREY, linestyle=":", label="half of the iterations")
        label_axis(axis.xaxis, "smoothness $L_m$ of the worker", log=True)
        axis.set_title(STEPS[reading], fontsize=10)
    every[0].set_ylabel(f"transmissions in the\nfirst {FIRST} iterations")
    name_variants(figure)
    setting = results[WHOLE].setting
    entitle(figure, f"CHB: transmitting workers, synthetic linear data\n{setting}", apart=True)
    return figure


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path | None = None
) -> tuple[list[Table], str]:
    """Run a part under both readings of its step size, and draw its figures.

    Args:
        part: of `TASKS`.
        out: where the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figures go, `FIGURES` where not given.

    Returns:
        What the target costs, the claims, and what is left of CHB's saving.
    """
    results = {each: ran(part, each, out, overrides) for each in (WHOLE, ADDED)}
    for reading, name in {WHOLE: "whole", ADDED: "added"}.items():
        own, names = results[reading], typeset_labels(LABELS)
        title = Maths(f"CHB, synthetic {part} regression, {STEPS[reading]}\n{own.setting}")
        figure = progress(own.rounds, names, title=title)
        save(figure, (figures or FIGURES) / f"chb-synthetic-{part}-{name}.png")
    if part == "linear":
        save(draw_workers(results), (figures or FIGURES) / "chb-synthetic-workers.png")
    return [cost_table(part, results), claim_table(part, results)], finding(part, results)


def main() -> None:
    """Run the requested tasks, print what they show and draw their figures."""
    run_parts(__doc__ or "", TASKS, run)


if __name__ == "__main__":
    main()
