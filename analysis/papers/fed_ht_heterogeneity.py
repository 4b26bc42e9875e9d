r"""Figure 2 of Tong et al. (Fed-HT and FedIter-HT, Algorithms 2022): clients that differ more.

    python analysis/papers/fed_ht_heterogeneity.py [--out DIR] [--set KEY=VALUE] [--seeds N] \
        [PART ...]

The parts, all of them where none is named, are two panels each: regression (Simulation I) and
classification (Simulation II), Fed-HT on the left and FedIter-HT on the right, with K = 5. Each
draws analysis/figures/fed-ht-heterogeneity-<part>.png. Clients' models and features differ by
alpha = beta = 0.1, 0.5 and 1; what is published is that more is slower. Data of unlike
spread have objectives of unlike size, so that each is shown over its own of round 1.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

import fedsim
from fedsim.analysis import (
    entitle,
    listing,
    look,
    name_variants,
    over_seeds,
    panels,
    run_parts,
    save,
)
from fedsim.analysis.style import against_cost, shared_upwards

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios/papers"
FIGURES = ROOT / "analysis/figures"

TITLES = {
    "regression": "Simulation I, 100 clients",
    "classification": "Simulation II, 20 clients",
}

STEPS = {"regression": 1e-4, "classification": 3e-4}
"""Step sizes, of which the paper has none for this figure; 1e-4 is 5e-5 in its units."""

METHODS = {"base": "Fed-HT", "fediter-ht-5": "FedIter-HT"}
"""What each is called, a panel each; the first is the scenario's fed-ht-5."""

SPREADS = ("0.1", "0.5", "1")
"""Variances of the clients' levels and centres: alpha and beta alike."""

MARKS = (10, 20, 50, 100, 200)
"""The rounds at which shares are shown."""

Shares = Mapping[str, Mapping[str, pd.Series]]
"""The objective over that of round 1, by round: by method, by spread."""


def blocks(part: str) -> dict[str, dict[str, object]]:
    """Return the algorithm of each variant of the scenario, with the step size of the part."""
    return {
        variant.name: variant.scenario.algorithm.model_dump(mode="json", exclude_none=True)
        | {"step_size": STEPS[part]}
        for variant in fedsim.load(scenario(part)).variants
    }


def scenario(part: str) -> Path:
    """Return the scenario of a part."""
    return SCENARIOS / f"fed-ht-{part}.yaml"


def train(part: str, spread: str, out: Path, overrides: Sequence[str]) -> fedsim.Result:
    """Run both methods on clients that differ so much."""
    own = blocks(part)
    settings = [
        "seeds=1",
        f"algorithm={json.dumps(own['fed-ht-5'])}",
        f"variants={json.dumps({'fediter-ht-5': {'algorithm': own['fediter-ht-5']}})}",
        *(f"problem.data.{name}={spread}" for name in ("alpha", "beta")),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that the batch does not grow
        folder = out / f"{part}-{spread}"
        return fedsim.run(scenario(part), out=folder, overrides=[*settings, *overrides])


def shares(results: Mapping[str, fedsim.Result]) -> Shares:
    """Return each method's objective over that of its first round: means over seeds."""
    found: dict[str, dict[str, pd.Series]] = {}
    for method in METHODS:
        for spread, result in results.items():
            own = over_seeds(result.rounds[result.rounds["variant"] == method], "objective")
            means = own.set_index("round")["mean"]
            found.setdefault(method, {})[spread] = means / means.loc[1]
    return found


def share_table(part: str, found: Shares) -> Table:
    """Return a row a panel and spread: the shares by round."""
    last = max(own.index.max() for panel in found.values() for own in panel.values())
    marks = [mark for mark in MARKS if mark <= last]
    rows: list[Sequence[str]] = [
        (
            METHODS[method],
            spread,
            *(f"{own[mark]:.3f}" if mark in own else "diverges" for mark in marks),
        )
        for method, panel in found.items()
        for spread, own in panel.items()
    ]
    heads = ("method", "alpha = beta", *(f"round {mark}" for mark in marks))
    return listing(f"{TITLES[part]}: objective over that of round 1", heads, rows)


def verdict(found: Shares) -> str:
    """Return for each panel whether more heterogeneity is slower, in the middle and at the end."""
    said = []
    for method, panel in found.items():
        last = max(own.index.max() for own in panel.values())
        slower = {
            mark: all(
                mark in panel[less] and not panel[more].get(mark, float("inf")) <= panel[less][mark]
                for less, more in pairwise(panel)
            )
            for mark in (last // 2, last)
        }
        words = ", ".join(f"{'yes' if yes else 'no'} at round {m}" for m, yes in slower.items())
        said.append(f"{METHODS[method]} {words}")
    return f"Published: more heterogeneity is slower. Measured: {'; '.join(said)}."


def draw(part: str, found: Shares, setting: str) -> Figure:
    """Draw a panel a method, a curve a spread."""
    figure, every = panels(len(found), height=3.0, sharey=True)
    for axis, (method, panel) in zip(every, found.items(), strict=True):
        for number, (spread, own) in enumerate(panel.items()):
            label = rf"$\alpha = \beta = {spread}$"
            axis.plot(own.index, own, label=label, **look(number))
        against_cost(axis, "round")
        axis.set_title(f"{METHODS[method]}, $K = 5$", fontsize=10)
    shared_upwards(every, 2, "objective over\nthat of round 1", log=False)
    name_variants(figure)
    entitle(figure, f"{TITLES[part]}: clients that differ more\n{setting}", apart=True)
    return figure


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path | None = FIGURES
) -> tuple[list[Table], str]:
    """Run a part.

    Args:
        part: of `TITLES`.
        out: where the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes; None to draw none.

    Returns:
        The table of shares, and whether more heterogeneity is slower.
    """
    results = {spread: train(part, spread, out, overrides) for spread in SPREADS}
    found = shares(results)
    if figures:
        figure = draw(part, found, results[SPREADS[0]].setting)
        save(figure, figures / f"fed-ht-heterogeneity-{part}.png")
    return [share_table(part, found)], verdict(found)


def main() -> None:
    """Run the requested parts, print their tables and draw their figures."""
    run_parts(__doc__ or "", TITLES, run)


if __name__ == "__main__":
    main()
