"""A language model learns on three continents: what do long distances cost, and what hides them?

    python analysis/studies/language_model.py [--out DIR]

Runs scenarios/studies/language-model.yaml: DiLoCo with 16, 64 and 128 local steps between two
synchronisations, and Streaming DiLoCo with parts of the model, with steps that overlap with their
transfer, and with updates of 4 bits. Prints what a loss took in local steps, bits, seconds and
joules, writes that as language_model.csv, and draws it as analysis/figures/language-model.png.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import fedsim
from fedsim.results.analysis import cost_to_target, listing, progress, quantity, save

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/language-model.yaml"
FIGURE = ROOT / "analysis/figures/language-model.png"
COSTS = Path(__file__).with_suffix(".csv")

METHODS = {
    "h-16": "DiLoCo, H = 16",
    "base": "DiLoCo, H = 64",
    "h-128": "DiLoCo, H = 128",
    "4-bit": "DiLoCo, H = 64, 4 bits",
    "parts": "4 parts, one after the other",
    "overlap-4": "4 parts, 4 steps overlap",
    "overlap-16": "4 parts, 16 steps overlap",
    "overlap-16-4-bit": "4 parts, 16 overlap, 4 bits",
    "two-parts": "2 parts, 32 steps overlap",
    "eight-parts": "8 parts, 8 steps overlap",
}
DRAWN = ("h-16", "base", "4-bit", "parts", "overlap-16", "overlap-16-4-bit")
LOSSES = (2.6, 2.4)
MEASURE = "objective"


def trained(out: Path | None = None, overrides: Sequence[str] = ()) -> fedsim.Result:
    """Run the scenario."""
    return fedsim.run(SCENARIO, out=out, overrides=overrides)


def local_steps() -> dict[str, int]:
    """Return the local steps of a round, by variant."""
    plan = fedsim.load(SCENARIO)
    return {each.name: getattr(each.scenario.algorithm, "local_steps", 0) for each in plan.variants}


def costs(rounds: pd.DataFrame, losses: Sequence[float] = LOSSES) -> pd.DataFrame:
    """Return what each loss took, and what all rounds of a variant took.

    Returns:
        A row a loss and variant, and one a variant whose loss is that of its last round: loss,
        variant, steps (of a client), bits_up, bits_down, t (s), joules; NaN where it was not
        reached.
    """
    seen = ["variant", "round", "bits_up", "bits_down", "t", "joules"]
    tables = [cost_to_target(rounds, loss, MEASURE)[seen].assign(loss=loss) for loss in losses]
    for _, own in rounds.groupby("variant", observed=True, sort=False):
        last = own.iloc[-1]
        sums = {key: own[key].sum() for key in ("bits_up", "bits_down", "joules")}
        kept = {key: last[key] for key in ("variant", "round", "t")}
        tables.append(pd.DataFrame([{"loss": last[MEASURE], **kept, **sums}]))
    found = pd.concat(tables, ignore_index=True)
    found["steps"] = found["round"] * found["variant"].astype(str).map(local_steps())
    figures = ["steps", "bits_up", "bits_down"]  # of one type, whether all reach a loss or not
    found[figures] = found[figures].astype(float)
    return found[["loss", "variant", "steps", "bits_up", "bits_down", "t", "joules"]]


def table(spent: pd.DataFrame) -> Table:
    """Return what losses took as a table for reading."""
    rows = [
        (
            *(f"{row['loss']:.2f}", METHODS[row["variant"]], quantity(row["steps"])),
            *(quantity(row[bits], "bit") for bits in ("bits_up", "bits_down")),
            *(quantity(row["t"], "s"), quantity(row["joules"], "J")),
        )
        for row in spent.to_dict("records")
    ]
    heads = ("loss", "method", "steps", "bits up", "bits down", "time", "energy")
    return listing("Six clients on three continents, until a loss is reached", heads, rows)


def finding(spent: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    whole = {str(row["variant"]): row for row in spent.to_dict("records")}  # the last of each
    first, parts = whole["base"], []
    for name in ("parts", "overlap-4", "overlap-16", "overlap-16-4-bit"):
        row = whole[name]
        parts.append(
            f"{METHODS[name]}: {row['t'] / first['t']:.2f} of the time,"
            f" {row['joules'] / first['joules']:.2f} of the energy, a loss of {row['loss']:.2f}"
        )
    last = spent[spent["loss"] == LOSSES[-1]].dropna().set_index("variant")["t"]
    to = [f"{METHODS[str(name)]} {quantity(float(t), 's')}" for name, t in last.items()]
    reached = f" A loss of {LOSSES[-1]:.1f} takes {', '.join(to)}." if to else ""
    return fill(
        f"All local steps take {METHODS['base']} {quantity(first['t'], 's')} and"
        f" {quantity(first['joules'], 'J')}, to a loss of {first['loss']:.2f}. {'; '.join(parts)}."
        f"{reached}",
        88,
    )


def draw(result: fedsim.Result) -> Figure:
    """Draw the loss against local steps, bits, seconds and joules."""
    rounds = result.rounds[result.rounds["variant"].isin(DRAWN)]
    steps = rounds["round"] * rounds["variant"].astype(str).map(local_steps())
    figure = progress(
        rounds.assign(round=steps),
        {name: METHODS[name] for name in DRAWN},
        MEASURE,
        axes=("round", "bits", "t", "joules"),
        ylabel="loss (nats a byte)",
        title=f"A language model on three continents\n{result.setting}",
        log=False,
        target=LOSSES[-1],
    )
    figure.axes[0].set_xlabel("local steps of a client")
    for axis in figure.axes:
        axis.set_ylim(2.1, 3.2)
    return figure


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    result = trained(parser.parse_args().out)
    spent = costs(result.rounds)
    Console(width=None if sys.stdout.isatty() else 150).print(table(spent))
    print(finding(spent))
    spent.to_csv(COSTS, index=False, float_format="%.6g")
    save(draw(result), FIGURE)


if __name__ == "__main__":
    main()
