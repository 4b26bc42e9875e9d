"""To the same accuracy, what do compressors save once all that is sent is paid for?

    python analysis/studies/honest_bits.py [--out DIR]

Runs scenarios/studies/honest-bits.yaml on three radios, and beside its variants one whose
top-k says nothing of its indices, as simulators do that forget them. Prints what the gap took
in bits, seconds and joules, and draws it as analysis/figures/honest-bits.png.
honest_bits_tuning.py is the source of the scenario's step sizes and compressors.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fedsim
from fedsim.algorithms.compressed import CompressedDescent, Gradient
from fedsim.algorithms.local_steps import Model
from fedsim.core.ports import Array, Client
from fedsim.results.analysis import (
    COLOURS,
    cost_to_target,
    energy_parts,
    label_axis,
    listing,
    name_variants,
    panels,
    quantity,
    save,
    typeset,
)
from fedsim.results.analysis.style import entitle

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/studies/honest-bits.yaml"
FIGURE = ROOT / "analysis/figures/honest-bits.png"

RADIOS = {"lte": "LTE", "wifi": "Wi-Fi", "nb-iot": "NB-IoT"}

ENDS = ("nb-iot", "lte")
"""The radios that the finding is about."""

FORGETFUL = "top-k-forgetful"

METHODS = {
    "base": "nothing compressed",
    FORGETFUL: "top-k, indices forgotten",
    "top-k": "top-k",
    "rand-k": "rand-k, seed",
    "qsgd": "QSGD, sqrt(d) levels",
    "qsgd-fine": "QSGD, 128 levels",
    "sign": "sign",
    "chb": "CHB",
    "chb-qsgd": "CHB, QSGD, sqrt(d) levels",
    "chb-qsgd-fine": "CHB, QSGD, 128 levels",
}

QSGD, BOTH = ("qsgd", "qsgd-fine"), ("chb-qsgd", "chb-qsgd-fine")

COMPRESSED = [name for name in METHODS if name not in ("base", FORGETFUL)]

STEPS = ("2.5/L", "2/L", "1.5/L", "1/L", "0.5/L", "0.25/L", "0.1/L")

SIZE = 4
"""The bytes of a float32; and of an index without the shortest code."""


@dataclass(frozen=True, eq=False)
class ValuesOnly:
    """A payload that claims the bits of its values alone: no receiver could decode it.

    Attributes:
        values: what arrives, indices and all, shape (d,).
        bits: the bits of the values that are not zero.
    """

    values: Array
    bits: int


class ForgetfulDescent(CompressedDescent):
    """Compressed gradient descent whose clients count what top-k keeps, and not where it was."""

    kind: Literal["dcgd-forgetful"] = "dcgd-forgetful"  # type: ignore[assignment]

    async def handle(self, client: Client, message: Model) -> Gradient:
        """Run a client: the same gradient, at the bits of its values."""
        update: Any = (await super().handle(client, message)).g
        return Gradient(ValuesOnly(update.values, bits=8 * update.sent.entries.size * SIZE))


def forgetful(overrides: Sequence[str] = ()) -> str:
    """Return the override that adds a variant as top-k is, but for what its messages claim."""
    plan = fedsim.load(SCENARIO, overrides=overrides)
    (honest,) = (each.scenario for each in plan.variants if each.name == "top-k")
    algorithm = honest.algorithm.model_dump(mode="json") | {"kind": "dcgd-forgetful"}
    wire = honest.wire.model_dump(mode="json", exclude_none=True)
    return f"variants.{FORGETFUL}={json.dumps({'algorithm': algorithm, 'wire': wire})}"


def compared(out: Path | None = None, overrides: Sequence[str] = ()) -> pd.DataFrame:
    """Run the scenario on every radio.

    Returns:
        A row a run: radio, what it took to the gap as `cost_to_target` has it, payload_bits of
        that (up, bit), and radio_joules, J: the energy of all but the computing.
    """
    overrides = [*overrides, forgetful(overrides)]
    tables = []
    for radio in track(RADIOS, console=Console(stderr=True)):
        result = fedsim.run(
            SCENARIO,
            out=out and out / radio,
            overrides=[f"fleet.0.radio={radio}", *overrides],
            blocks=[ForgetfulDescent],
        )
        tables.append(_costs(result).assign(radio=radio))
    return pd.concat(tables, ignore_index=True)


def _costs(result: fedsim.Result) -> pd.DataFrame:
    key = ["variant", "seed"]
    events, parts = result.events, energy_parts(result.clients, key)
    sent = events[(events["event"] == "send") & (events["node"] != "server")]
    figures = {
        "payload_bits": sent.groupby(key, observed=True)["payload_bits"].sum(),
        "radio_joules": parts.drop(columns="computing").sum(axis=1),
    }
    costs = cost_to_target(result.rounds, result.summary["target"].max())
    return costs.join(pd.DataFrame(figures), on=key)


def tried(steps: Sequence[str] = STEPS, overrides: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rounds to the gap under the first seed: a row a variant, a column a step size.

    NaN is where a variant does not get there in the rounds of the scenario.
    """
    columns = {}
    for step in track(steps, console=Console(stderr=True)):
        same = [f"variants.{name}.algorithm.step_size={step}" for name in COMPRESSED]
        result = fedsim.run(
            SCENARIO, overrides=["seeds=1", f"algorithm.step_size={step}", *same, *overrides]
        )
        costs = cost_to_target(result.rounds, result.summary["target"].max())
        columns[step] = costs.set_index("variant")["round"]
    return pd.DataFrame(columns)


def means(costs: pd.DataFrame) -> pd.DataFrame:
    """Return the means over the seeds, by radio and variant in the order of `METHODS`."""
    figures = costs.drop(columns="seed").groupby(["radio", "variant"], observed=True).mean()
    return figures.reindex(pd.MultiIndex.from_product([RADIOS, METHODS], names=figures.index.names))


def grid(rounds: pd.DataFrame) -> Table:
    """Return the rounds under every step size as a table for reading."""
    rows = [
        (METHODS[str(name)], *(quantity(each) for each in row))
        for name, row in zip(rounds.index, rounds.to_numpy(), strict=True)
    ]
    return listing("Rounds to the gap by step size", ("method", *map(str, rounds)), rows)


def table(costs: pd.DataFrame) -> Table:
    """Return the means as a table for reading."""
    rows = [
        (
            *(RADIOS[row["radio"]], METHODS[row["variant"]]),
            *(quantity(round(row["round"], 1)), quantity(round(row["transmissions"], 1))),
            *(quantity(row[bits], "bit") for bits in ("payload_bits", "bits_up", "bits_down")),
            quantity(row["t"], "s"),
            *(quantity(row[energy], "J") for energy in ("radio_joules", "joules")),
        )
        for row in means(costs).reset_index().to_dict("records")
    ]
    heads = ("radio", "method", "rounds", "messages", "payloads up", "bits up", "bits down")
    return listing("Ten clients until the gap is reached", (*heads, "time", "radios", "all"), rows)


def finding(costs: pd.DataFrame) -> str:
    """Return the answer in the numbers of these runs."""
    figures = means(costs)
    sent, quick = (figures.loc[[radio]].droplevel("radio") for radio in ENDS)
    narrow, fast = (each / each.loc["base"] for each in (sent, quick))
    lost = 1 - sent.loc[FORGETFUL] / sent.loc["top-k"]
    payloads = sent["payload_bits"].to_dict()
    naive = 2 * payloads[FORGETFUL] / payloads["top-k"]
    return fill(
        f"Top-k without its indices would seem to take {lost['payload_bits']:.0%} fewer bits of "
        f"payload than it does, {lost['bits_up']:.0%} fewer on the uplink of NB-IoT, and "
        f"{lost['t']:.1%} less time; and indices of {8 * SIZE} bits would make its payloads "
        f"{naive:.2f} times as long as their shortest code does. "
        f"Of the {quantity(sent['bits_up']['base'], 'bit')} that go up over NB-IoT with nothing "
        f"compressed, top-k takes {_shares(narrow, 'bits_up', 'top-k')}, rand-k "
        f"{_shares(narrow, 'bits_up', 'rand-k')}, the sign {_shares(narrow, 'bits_up', 'sign')}, "
        f"CHB {_shares(narrow, 'bits_up', 'chb')}, QSGD {_shares(narrow, 'bits_up', *QSGD)} by its "
        f"levels, and both together {_shares(narrow, 'bits_up', *BOTH)}. "
        f"But the model comes down whole in every round, so that rounds count for more: top-k "
        f"takes {_shares(narrow, 't', 'top-k')} of the time and "
        f"{_shares(narrow, 'radio_joules', 'top-k')} of the radios' energy there, CHB "
        f"{_shares(narrow, 't', 'chb')} and {_shares(narrow, 'radio_joules', 'chb')}, QSGD "
        f"{_shares(narrow, 't', *QSGD)} of the time and {_shares(narrow, 'radio_joules', *QSGD)} "
        f"of the energy, and both together {_shares(narrow, 't', *BOTH)} and "
        f"{_shares(narrow, 'radio_joules', *BOTH)}; over LTE both together take "
        f"{_shares(fast, 't', *BOTH)} of the time.",
        88,
    )


def _shares(shares: pd.DataFrame, column: str, *names: str) -> str:
    return " or ".join(f"{shares[column][name]:.0%}" for name in names)


def draw(costs: pd.DataFrame) -> Figure:
    """Draw bits up, seconds and joules to the gap: a row a method, a mark a radio."""
    figure, every = panels(3, 2, 3.2, sharey=True)
    figures, names = means(costs), [typeset(name) for name in METHODS.values()]
    columns = {
        "bits_up": ("bits up to the gap", "bit"),
        "t": ("time to the gap", "s"),
        "radio_joules": ("energy of all radios to the gap", "J"),
    }
    for axis, (column, (label, unit)) in zip(every, columns.items(), strict=True):
        for (radio, name), colour, mark in zip(RADIOS.items(), COLOURS, "osD", strict=False):
            own = figures.loc[radio][column]
            axis.plot(own, names, mark, color=colour, ms=5, label=name)
        label_axis(axis.xaxis, label, unit, log=True)
    payloads = figures.loc["nb-iot"]["payload_bits"]
    every[0].plot(payloads, names, "x", color="black", ms=5, label="payloads alone")
    every[0].invert_yaxis()
    name_variants(figure)
    setting = f"smoothness; 10 cortex-m7; means over {costs['seed'].nunique()} seeds"
    entitle(figure, f"Honest bits: what compressors save\n{setting}")
    return figure


def main() -> None:
    """Run the study, print its table and its finding, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    costs = compared(parser.parse_args().out)
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(grid(tried()))
    console.print(table(costs))
    print(finding(costs))
    save(draw(costs), FIGURE)


if __name__ == "__main__":
    main()
