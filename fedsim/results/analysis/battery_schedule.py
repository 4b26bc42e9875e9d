"""How long a charge lasts if a training like that of a run begins at a fixed interval.

Each training takes a share of the charge, with the tails of the radio after it, and the pauses take
idle power. With R trainings per charge, an idle life I, and a training of length T that begins
every P,

    n/R + (n - 1)(P - T)/I <= 1

holds for the number n of trainings that a charge completes. R and I are those of `battery_lives`.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError
from rich.markup import escape
from rich.table import Table

from fedsim.core.blocks.quantities import Duration
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.tables import plain
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis.batteries import enough, lives_of

_SLEEPING = 0.02
"""W, an example of a sleeping device: what is shown where idle power empties a battery."""

_DURATION = TypeAdapter[Any](Duration)

_WHOLE = 1e-9  # relative; a number of trainings that is whole but for rounding


def interval(text: str) -> float:
    """Return the interval of trainings, s, that a text such as "1 day" gives.

    Raises:
        DataError: it is no duration above 0.
    """
    try:
        return float(_DURATION.validate_python(text))
    except ValidationError:
        message = f'--every: got {text!r}; give a duration, such as "1 day"'
        raise DataError("every", message) from None


def lifetimes(every: float, training: Array, per_charge: Array, idle: Array) -> tuple[Array, Array]:
    """Return the number of trainings of a charge, and the time until it is used up, s.

    The arrays have one entry per battery. A training takes the same power throughout.

    Args:
        every: time between the starts of two trainings, s.
        training: length of a training, s; at most `every`.
        per_charge: trainings of a charge without idle power in between; infinite for no cost.
        idle: how long a charge lasts if the client only idles, s; infinite for no power.

    >>> one_day, an_hour = 86400.0, 3600.0
    >>> count, seconds = lifetimes(one_day, *np.array([[an_hour], [100.0], [10 * one_day]]))
    >>> int(count[0]), round(float(seconds[0]) / one_day, 2)
    (10, 9.42)
    """
    cost, pause = 1 / per_charge, (every - training) / idle
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.floor((1 + pause) / (cost + pause) * (1 + _WHOLE))
        count = np.where(cost + pause > 0, count, np.inf)
        left = np.maximum(1 - count * cost - (count - 1) * pause, 0.0)
        begun = (count - 1) * every + training
        in_pause = np.where(left > 0, left * idle, 0.0)
        in_training = every - training + (left - pause) / cost * training
    after = begun + np.where(left > pause, in_training, in_pause)
    seconds = np.where(count > 0, after, per_charge * training)
    return count, np.where(np.isinf(count), np.inf, seconds)


def schedule(lives: pd.DataFrame, every: float) -> pd.DataFrame:
    """Return how many trainings a charge lasts if one begins at a fixed interval, and how long.

    Args:
        lives: as `battery_lives` returns them.
        every: time between the starts of two trainings, s.

    Returns:
        One row per battery: variant, seed, client, trainings, lasts_s, idle_watts, and
        asleep_s, how long it would last at an idle power of 20 mW. NaN for batteries that
        were empty or charged during the run, and for trainings longer than the interval.
    """
    names = "run_s", "lasts_runs", "lasts_idle_s", "idle_watts"
    run, per_charge, idle, watts = (lives[name].to_numpy(np.float64) for name in names)
    known = np.isfinite(watts) & (run <= every)
    count, seconds = lifetimes(every, run, per_charge, idle)
    with np.errstate(invalid="ignore"):
        _, asleep = lifetimes(every, run, per_charge, idle * watts / _SLEEPING)
    return lives[["variant", "seed", "client"]].assign(
        trainings=np.where(known, count, np.nan),
        lasts_s=np.where(known, seconds, np.nan),
        idle_watts=np.where(known, watts, np.nan),
        asleep_s=np.where(known & (watts > _SLEEPING), asleep, np.nan),
    )


@dataclass(frozen=True)
class BatterySchedule:
    """How long the batteries of variants last if a training begins at a fixed interval.

    Attributes:
        every: time between the starts of two trainings, s.
        figures: one row per variant: variant, every_s, run_s (the longest training), and the
            medians over batteries and seeds of trainings, lasts_s, idle_watts and asleep_s, as
            `schedule` has them.
        labels: what to call each variant.
        seeds: their number.
    """

    every: float
    figures: pd.DataFrame
    labels: Mapping[str, str]
    seeds: int

    @classmethod
    def of(
        cls, runs: Mapping[tuple[str, int], Path], labels: Mapping[str, str], every: float
    ) -> "BatterySchedule":
        """Read the batteries of runs.

        Raises:
            DataError: no client has a battery.
        """
        lives = lives_of(runs)
        if not len(lives):
            raise DataError("every", "--every: no client of these runs has a battery")
        found = schedule(lives, every).astype({"variant": object})
        known = found.dropna(subset=["trainings"]).groupby("variant", sort=False)
        middle = known[["trainings", "lasts_s", "idle_watts", "asleep_s"]].median()
        longest = lives.astype({"variant": object}).groupby("variant", sort=False)["run_s"].max()
        figures = pd.DataFrame({"run_s": longest}).join(middle)
        figures.insert(0, "every_s", every)
        shown = [name for name in labels if name in figures.index]
        figures = figures.loc[shown].rename_axis("variant").reset_index()
        return cls(every, figures, labels, found["seed"].nunique())

    def answer(self) -> str:
        """Return which variant one charge is enough for most trainings of, and the next one.

        The figures are those of the table. The text is empty if fewer than two are known.
        """
        known = self.figures.dropna(subset=["trainings"]).set_index("variant")["trainings"]
        if len(known) < 2:
            return ""
        counts = np.floor(known).sort_values(ascending=False, kind="stable")
        most, rest = counts.iloc[0], counts[counts < counts.iloc[0]]
        first = [self.labels[str(name)] for name in counts.index[counts == most]]
        names = join_names(first, "and") if len(rest) else "every variant"
        more = ""
        if len(rest):
            more = f", and {_count(rest.iloc[0])} with {self.labels[str(rest.index[0])]}"
        seeds = "one seed" if self.seeds == 1 else f"median over {self.seeds} seeds"
        begins = f"if a training begins every {quantity(self.every, 's')}"
        text = f"{begins}, one charge {enough(most)} with {names}{more} ({seeds})"
        return f"{text}; idle power between trainings counts"

    def table(self) -> Table:
        """Return one row per variant, and below them sentences on short lives."""
        table = plain(f"batteries if a training begins every {quantity(self.every, 's')}", keys=1)
        for head in ("variant", "trainings per charge", "life", "idle power"):
            table.add_column(head, justify="left" if head == "variant" else "right")
        sentences = []
        for row in self.figures.to_dict("records"):
            label = self.labels[str(row["variant"])]
            cells = "-", "-", "-"
            if np.isnan(row["trainings"]):
                sentences.append(f"{label}: {self._unknown(row['run_s'])}")
            else:
                watts = quantity(row["idle_watts"], "W")
                cells = _count(row["trainings"]), _time(row["lasts_s"]), watts
                if row["lasts_s"] < self.every:
                    sentences.append(_describe_short(label, row))
            table.add_row(escape(label), *cells)
        table.caption = "\n".join([*map(escape, sentences), _RULE])
        return table

    def _unknown(self, longest: float) -> str:
        """Return why it is not known how long the batteries of a variant last."""
        if longest > self.every:
            return f"a training takes {quantity(longest, 's')}, longer than the interval"
        return "batteries were empty or charged during the run: their idle power is not known"


_RULE = (
    "medians over batteries and seeds; n trainings of length T every P fit in a charge if n /"
    " (trainings of a charge without pauses) + (n - 1) (P - T) / (idle life) <= 1; life: until"
    " a battery is empty, or too low for its client to take part; idle power: what a client"
    " without work takes from its battery (device, radio and battery losses)"
)


def _describe_short(label: str, middle: Mapping[Hashable, Any]) -> str:
    """Return why a charge does not last until the second training."""
    count, watts = int(middle["trainings"]), middle["idle_watts"]
    done = "one training" if count == 1 else "no training"
    text = f"{label}: {done}, the battery lasts {_time(middle['lasts_s'])}"
    if count < 1 or not np.isfinite(middle["asleep_s"]):
        return text
    return (
        f"{text}: the device takes {quantity(watts, 'W')} while it waits, as if it stayed awake;"
        f" asleep at {quantity(_SLEEPING, 'W')} (`idle` of its device) it would last"
        f" {_time(middle['asleep_s'])}"
    )


def _count(trainings: float) -> str:
    return "no limit" if np.isinf(trainings) else format_number(float(np.floor(trainings)), ",.0f")


def _time(seconds: float) -> str:
    return "never" if np.isinf(seconds) else quantity(seconds, "s")
