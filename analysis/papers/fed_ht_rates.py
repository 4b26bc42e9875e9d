"""With which step sizes and readings of the data FedIter-HT is five times as fast.

    python analysis/papers/fed_ht_rates.py [--out DIR] [--set KEY=VALUE] [PART ...]

Runs Simulation I of Tong et al. (scenarios/papers/fed-ht-regression.yaml) under one seed. The
parts, all of them where none is named: rates, the paper's rates and two below them; readings,
those that the generator offers; grid, every method with every K and rate of the paper's. In rates
and readings Distributed-IHT and FedIter-HT, K = 10, have the same step size. Rates are in the
paper's units: its squared loss has no 1/2, ours has one, so that the step size of a run is twice
the rate.
"""

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

import fedsim
from fedsim.analysis import cost_to_end, cost_to_target, listing

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios/papers/fed-ht-regression.yaml"

LOCAL = "fediter-ht-10"
IHT = "distributed-iht"

RATES = ("10", "1", "0.6", "0.3", "0.1", "0.06", "0.03", "0.01", "0.001", "1.5e-4", "5e-5")
"""The paper's rates, and two below them, in the paper's units."""

GRID = (*RATES[:8], "0.003", "0.001")
"""The paper's rates, and one between its last two, 0.003."""

LOCAL_STEPS = (3, 5, 8, 10)
"""The paper's K."""

SMALL = ("5e-4", "1.5e-4", "5e-5")
"""Rates in the paper's units; the middle one is that of the scenario."""

READINGS = ("", "deviations", "client-noise", "feature-centres", "row-means")
"""Readings of the generator; the first is the literal one."""

HEADS = (
    "rate",
    "our step size",
    "Distributed-IHT ends at",
    "FedIter-HT ends at",
    "is there in rounds",
)


def step(rate: str) -> float:
    """Return the step size under our loss, |Xw-y|^2/(2n), of a rate under the paper's.

    The paper's squared loss has no 1/2, so that its gradients are twice as long.
    """
    return 2 * float(rate)


@dataclass(frozen=True)
class Sweep:
    """Runs of the scenario with what differs.

    Attributes:
        out: where run folders go.
        overrides: of every run, "KEY=VALUE".
    """

    out: Path
    overrides: tuple[str, ...] = ()

    def grid(self) -> pd.DataFrame:
        """Return the rounds of every method with every K and rate, as `gridded` names them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that the batch does not grow
            result = fedsim.run(
                SCENARIO,
                out=self.out / "grid",
                overrides=["seeds=1", f"variants={json.dumps(gridded())}", *self.overrides],
            )
        return result.rounds

    def rounds(self, name: str, variant: str, rate: str, *overrides: str) -> pd.DataFrame:
        """Return the rounds of Distributed-IHT and one variant with the same step size.

        What diverges has the rounds until then.
        """
        (algorithm,) = (
            each.scenario.algorithm
            for each in fedsim.load(SCENARIO).variants
            if each.name == variant
        )
        block = algorithm.model_dump(mode="json", exclude_none=True) | {"step_size": step(rate)}
        own = [
            f"algorithm.step_size={step(rate)}",
            f"variants={json.dumps({variant: {'algorithm': block}})}",
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that the batch does not grow
            result = fedsim.run(
                SCENARIO,
                out=self.out / f"{name}-{rate}",
                overrides=["seeds=1", *own, *overrides, *self.overrides],
            )
        return result.rounds


def gridded() -> dict[str, dict[str, object]]:
    """Return the variants of the grid, such as distributed-iht-at-1 and fed-ht-3-at-0.01."""
    (plan, *_) = fedsim.load(SCENARIO).variants
    block = plan.scenario.algorithm.model_dump(mode="json", exclude_none=True)
    local = [(kind, steps) for kind in ("fed-ht", "fediter-ht") for steps in LOCAL_STEPS]
    ways = {IHT: block} | {
        f"{kind}-{steps}": block | {"kind": kind, "local_steps": steps} for kind, steps in local
    }
    return {
        f"{name}-at-{rate}": {"algorithm": way | {"step_size": step(rate)}}
        for name, way in ways.items()
        for rate in GRID
    }


Runs = Mapping[tuple[str, ...], pd.DataFrame]
"""Round tables by what was set."""


def ends(rounds: pd.DataFrame, last: int) -> dict[str, float]:
    """Return the objective of each variant in the last round; none of what diverged before."""
    rows = rounds[rounds["round"] == last]
    return {str(row["variant"]): row["objective"] for row in rows.to_dict("records")}


def compared(runs: Runs) -> list[Sequence[str]]:
    """Return a row a run: where both methods end, and FedIter-HT's rounds to the other's end.

    The last of what was set is the rate.
    """
    last = max(rounds["round"].max() for rounds in runs.values())
    rows: list[Sequence[str]] = []
    for setting, rounds in runs.items():
        found = ends(rounds, last)
        values = [f"{found[name]:.4g}" if name in found else "diverges" for name in ("base", LOCAL)]
        there = "-"
        if "base" in found:
            costs = cost_to_end(rounds, "base").set_index("variant")
            there = f"{costs['round'][LOCAL]:.0f}" if costs["reached"].get(LOCAL) else "never"
        rows.append((*setting, f"{step(setting[-1]):g}", *values, there))
    return rows


def best(runs: Runs) -> str:
    """Return the rounds of FedIter-HT to Distributed-IHT's final value, at the best rates."""
    last = max(rounds["round"].max() for rounds in runs.values())
    ended = {rate: ends(rounds, last) for (rate,), rounds in runs.items()}
    base = {rate: found["base"] for rate, found in ended.items() if "base" in found}
    chosen = min(base, key=lambda rate: base[rate])
    costs = pd.concat(
        [
            cost_to_target(rounds[rounds["variant"] == LOCAL], base[chosen], "objective").assign(
                rate=rate
            )
            for (rate,), rounds in runs.items()
        ]
    )
    there = costs[costs["reached"]].sort_values("round")
    text = f"Distributed-IHT ends lowest, at {base[chosen]:.4g}, with the rate {chosen}; FedIter-HT"
    if there.empty:
        return f"{text} gets there with none of these rates."
    first = there.iloc[0]
    return f"{text} gets there in {first['round']:.0f} rounds with its best, {first['rate']}."


def rates(sweep: Sweep) -> list[Table | str]:
    """Run both methods with the same step size, and compare each at its best."""
    runs: Runs = {(rate,): sweep.rounds("rates", LOCAL, rate) for rate in RATES}
    title = "By step size, literal reading; published: about 20 rounds"
    return [listing(title, HEADS, compared(runs)), best(runs)]


def readings(sweep: Sweep) -> list[Table | str]:
    """Run both methods in every reading of the paper."""
    runs: Runs = {
        (reading or "literal", rate): sweep.rounds(
            f"readings-{reading or 'literal'}",
            LOCAL,
            rate,
            f"problem.data.reading={json.dumps([reading] if reading else [])}",
        )
        for reading in READINGS
        for rate in SMALL
    }
    title = "By reading of the data; published: about 20 rounds"
    return [listing(title, ("reading", *HEADS), compared(runs))]


def grid(sweep: Sweep) -> list[Table | str]:
    """Run every method with every K and rate, and compare each with Distributed-IHT at its best."""
    rounds = sweep.grid()
    found = ends(rounds, rounds["round"].max())
    base = min(end for name, end in found.items() if name.startswith(IHT))
    costs = cost_to_target(rounds, base, "objective").set_index("variant")

    def cell(name: str) -> str:
        if name not in found:
            return "diverges"
        there = f"{costs['round'][name]:.0f}" if costs["reached"][name] else "never"
        return f"{found[name]:.4g}, {there}"

    names = [name.split("-at-") for name in gridded()]
    shown = [rate for rate in GRID if any(name.endswith(f"-at-{rate}") for name in found)]
    ways = dict.fromkeys(way for way, _ in names)
    rows = [(way, *(cell(f"{way}-at-{rate}") for rate in shown)) for way in ways]
    title = f"Objective at the end, and rounds to {base:.4g}, by rate; all diverge with the others"
    return [listing(title, ("method, K", *shown), rows)]


PARTS: dict[str, Callable[[Sweep], list[Table | str]]] = {
    "rates": rates,
    "readings": readings,
    "grid": grid,
}


def main() -> None:
    """Run the requested parts and print their tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory() as temporary:
        sweep = Sweep(options.out or Path(temporary), tuple(options.overrides))
        for part in parts:
            console.print(*PARTS[part](sweep), sep="\n")


if __name__ == "__main__":
    main()
