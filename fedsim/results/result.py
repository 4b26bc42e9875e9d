"""`Result`: recorded runs as pandas tables, figures and pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.results.best import best_round
from fedsim.results.record import read
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.models import folder_of, model_of, nodes_of, read_models
from fedsim.results.record.read import missing, run_folders
from fedsim.results.record.scenarios import Note, parse, read_text, setting_of
from fedsim.results.record.studies import read_study
from fedsim.results.record.variants import BASE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedsim.results.analysis import Causes, Comparison
    from fedsim.results.analysis.plots.curves import By
    from fedsim.results.analysis.plots.network import Layout, OnEdges
    from fedsim.results.analysis.seeds import Band, Ends
    from fedsim.results.display import Shown


@dataclass(frozen=True, repr=False)
class Result:
    """The tables of a scenario's runs, for pandas; see `fedsim.results.record.schema`.

    A notebook shows it as a table of what each variant has cost, and a figure; so does `print`,
    without the figure. Modules that draw and write pages are loaded on first use.

    Attributes:
        folder: OUT, with a folder `<variant>/seed-<n>` per run.
        runs: the folders of the runs, in the order of the scenario and of all tables.
        foreseen: notes made before the runs: on existing runs of an earlier state of the scenario,
            and on the scenario.
        temporary: whether the folder is removed when the session ends.
    """

    folder: Path
    runs: tuple[Path, ...]
    foreseen: tuple[Note, ...] = ()
    temporary: bool = False

    @cached_property
    def events(self) -> pd.DataFrame:
        """The event logs: one row per span of time of a client or the server.

        Energy that radios take after the end of the run, until they sleep, has no row: see
        `summary`.
        """
        return read.read_all(self.runs, "events")

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The round tables, one row per round; costs are those of the round."""
        return read.read_all(self.runs, "rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The client tables, one row per client and run."""
        return read.read_all(self.runs, "clients")

    @cached_property
    def edges(self) -> pd.DataFrame:
        """The traffic of each pair of sender and receiver; see `fedsim.results.analysis.edges`."""
        from fedsim.results.analysis import edges

        return edges(self.events)

    @cached_property
    def models(self) -> pd.DataFrame:
        """The stored models, one row per model; the column `model` holds arrays."""
        return read_models(self.runs)

    def model(
        self,
        variant: str | None = None,
        seed: int | None = None,
        round: int | Literal["best"] | None = None,  # noqa: A002 - as the column is called
        *,
        client: int | None = None,
    ) -> Array:
        """Return one model, of shape (d,) or a matrix, without reading other runs.

        Args:
            variant: of the run; the first one of the scenario if None.
            seed: of the run; may be left out where the variant has one only.
            round: the round; the last one if None; "best" for the round with the best value of the
                figure in `models={"best": ...}`.
            client: the number of a client, for its own model (needs `models={"clients": True}`);
                None for the server's.

        Raises:
            ValueError: there is no such run, or the model was not stored; the text lists others.
            DataError: a file is damaged.

        Example:
            >>> result.model("gd", seed=1).shape
            (10,)
        """
        number = best_round(self, variant, seed, None) if round == "best" else round
        return model_of(self.runs, variant, seed, number, client)

    def node_models(
        self,
        variant: str | None = None,
        seed: int | None = None,
        round: int | None = None,  # noqa: A002 - as the column is called
    ) -> Array:
        """Return the models of all nodes of a run among peers (`models: {clients: true}`).

        Args:
            variant: of the run; the first one of the scenario if None.
            seed: of the run; may be left out where the variant has one only.
            round: the round; the last one if None.

        Returns:
            Row i is the model of client-i, shape (M, d), or (M, ...) if a model is a matrix; NaN
            if the client has left.

        Raises:
            ValueError: there is no such run, or its models were not stored.
            DataError: a file is damaged.
        """
        return nodes_of(self.runs, variant, seed, round)

    def scenario(self, variant: str | None = None, seed: int | None = None) -> Mapping[str, Any]:
        """Return the scenario of a run as plain data, every default filled in.

        Args:
            variant: of the run; the first one of the scenario if None.
            seed: of the run; the first one if None.

        Raises:
            ValueError: there is no such run.
            DataError: a file is damaged.

        Example:
            >>> result.scenario("gd")["stop"]["rounds"]
            12
        """
        name = variant or next((path.parent.name for path in self.runs), BASE)
        own = [path for path in self.runs if path.parent.name == name]
        folder = own[0] if own and seed is None else folder_of(self.runs, name, seed)
        return parse(read_text(folder), folder / SCENARIO)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per run: its end, its final figures and its cost.

        `joules` is the energy until the end of the run, as in the log. `joules_after` is what the
        radios' last tails take afterwards. Printed tables have the sum of both.

        >>> bool((result.summary["joules_after"] > 0).all())
        True
        """
        return read.read_summaries(self.runs)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on settings without effect, or with an unexpected one."""
        return *self.foreseen, *self.seen

    @cached_property
    def seen(self) -> tuple[Note, ...]:
        """Notes on the ended runs."""
        return tuple(
            Note(f"{row['variant']}, seed {row['seed']}", *text.split(": ", 1))
            for row in self.summary.to_dict("records")
            for text in (row["notes"] if isinstance(row.get("notes"), list) else ())
        )

    def plot(
        self,
        y: str = "",
        x: str | Sequence[str] = (),
        *,
        by: "By" = "variant",
        band: "Band" = "min-max",
        ends: "Ends" = "hold",
        log: bool | None = None,
        target: float | None = None,
        labels: Mapping[str, str] | None = None,
        ax: "Axes | None" = None,
        width: float | str | None = None,
        out: str | Path | None = None,
    ) -> "Figure":
        """Draw a column of the rounds against the cost so far, or against another column.

        Args:
            y: a column of `rounds`: "gap", "objective", a measure of the scenario, or a cost; the
                gap if not given, and the objective where no optimum is known.
            x: one or several columns, one panel per column: "round", "bits", "bits_up", "t",
                "joules", or a measure; by default the first four costs, with `ax` "round". Against
                energy, a thin line at the end of a curve is what radios take after the last round.
            by: "variant" for the mean over seeds with a band, "seed" for one curve per run.
            band: "min-max" over the seeds, "std" (one standard deviation), "interval" (95 %,
                Student's t), or "none".
            ends: "hold": a seed that has ended keeps its last values, from the small bar
                across the curve on; "stop": a curve ends with the first of its seeds.
            log: whether the y axis and the means are logarithmic; if None, only for a gap.
            target: the value of y at which a line is drawn.
            labels: variant -> its name in the legend; other variants are left out. All if None.
            ax: axes of matplotlib to draw on; a new figure if None.
            width: of a new figure: inches, or a style of papers, such as "ieee" for its column.
            out: file to save the figure to; its ending gives the format: png, svg, pdf or pgf.

        Raises:
            DataError: there is no such column, variant, style or format.

        Example:
            >>> figure = result.plot("gap", x="joules", out=out / "gap.pdf")
            >>> figure.axes[0].get_xlabel()
            'energy (J); thin line: until radios sleep'
        """
        columns = (x,) if isinstance(x, str) else tuple(x)
        curves: dict[str, Any] = {"by": by, "band": band, "ends": ends, "log": log}
        curves |= {"target": target, "labels": labels}
        return self.shown.figure(columns, y, ax=ax, width=width, out=out, **curves)

    def plot_network(
        self,
        value: "OnEdges" = "bits",
        *,
        layout: "Layout" = "auto",
        variant: str | None = None,
        seed: int | None = None,
        round: int | None = None,  # noqa: A002 - the name of the column
        out: str | Path | None = None,
    ) -> "Axes":
        """Draw the graph of a run; the width of an edge shows its traffic.

        `fedsim.results.analysis.animate_network` writes all rounds as one page with a slider.

        Args:
            value: "bits", "joules" (of both ends), "messages" or "busy" (s on the air), or
                "disagreement" of the models, which `models.clients` keeps.
            layout: of networkx: "kamada-kawai", "spring", "circular", "shell" or "spectral";
                "auto" for one that suits the graph; or the place of each node, x and y in any unit.
            variant: the first one if None.
            seed: the first one if None.
            round: only messages of this round; of the whole run if None.
            out: file to save the figure to; its ending gives the format.

        Raises:
            DataError: there is no such value, layout, variant, seed or round, a node has no place,
                or nothing was sent.
            ValueError: the models of nodes, which `value` needs, were not stored.

        Example:
            >>> axes = result.plot_network("joules", out=out / "network.pdf")
        """
        from fedsim.results.analysis import plot_network

        options: dict[str, Any] = {"layout": layout, "variant": variant, "seed": seed}
        return plot_network(self, value, round=round, out=out, **options)

    def compare(
        self,
        *targets: str,
        against: str | None = None,
        confidence: float = 0.95,
        by: str | None = None,
        every: str | None = None,
    ) -> "Comparison":
        """Compare the variants by their cost to reach a target, with confidence intervals.

        Args:
            targets: such as "gap=1e-5" or "test_accuracy=0.9"; by default the gap of the stop rule,
                or the total cost without such a rule.
            against: the variant that the others are compared with; if not given, the baseline of
                the scenario, or the first one.
            confidence: of the intervals, between 0 and 1.
            by: the cost that the answers are about, such as "time"; by default CO2 if the runs
                state their electricity, else energy.
            every: time between trainings, such as "1 day": how many a battery lasts for.

        Raises:
            DataError: there is no such variant or cost, no run evaluates a target, no run can be
                compared, or `every` is no duration or without batteries.

        Example:
            >>> list(result.compare("gap=1e5").frames())
            ['runs', 'costs', 'pairs', 'causes', 'quality', 'batteries']
        """
        from fedsim.results.analysis import Comparison

        return Comparison.of([self.folder], targets, against, confidence, by=by, every=every)

    def causes(
        self, one: str, other: str, cost: str = "joules", *, target: str | None = None
    ) -> "Causes":
        """Split the difference in cost between two variants into causes that add up to it.

        Args:
            one: a variant.
            other: the variant to compare it with.
            cost: "joules", "t" (s) or "bits".
            target: costs count up to this target, such as "gap=1e-5"; as for `compare` if None.

        Raises:
            DataError: there is no such variant, cost or target, no seed in which both reached it,
                or the causes cannot be determined; the text says why.

        Example:
            >>> found = result.causes("gd", "base", "bits", target="gap=1e5")
            >>> bool(abs(found.table["share"].sum() - 1) < 1e-9)
            True
        """
        return self.compare(*filter(None, [target])).causes(one, other, cost)

    def report(self, out: str | Path | None = None, targets: Sequence[str] = ()) -> Path:
        """Write one HTML page about the study, and return its path.

        Args:
            out: the file to write; `report.html` in the folder if not given.
            targets: as for `compare`.

        Raises:
            DataError: there are no runs to report, or no run evaluates a target.
            OutputError: the file cannot be written.

        Example:
            >>> result.report(out / "report.html").name
            'report.html'
        """
        from fedsim.results.report import write

        return write(self.folder, None if out is None else Path(out), targets)

    @property
    def place(self) -> str:
        """A sentence with the folder of the runs, and its lifetime if it is temporary."""
        count = f"{len(self.runs)} run{'s' if len(self.runs) > 1 else ''}"
        stay = ", until this session ends" if self.temporary else ""
        return f"{count} in {self.folder}{stay}"

    def __repr__(self) -> str:
        try:
            return self.shown.text()
        except (DataError, OSError) as error:  # a debugger wants to see it all the same
            return f"{self.place}, which cannot be read: {error}"

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook."""
        return self.shown.html()

    @property
    def shown(self) -> "Shown":
        """The display of the result in a terminal or a notebook."""
        from fedsim.results.display import Shown

        study = read_study(self.folder)
        name, baseline = ("", "") if study is None else (study.name, study.baseline)
        runs = {
            (path.parent.name, int(path.name.removeprefix("seed-"))): path for path in self.runs
        }
        tables = self.summary, self.rounds
        return Shown(name, *tables, self.notes, self.place, self.setting, runs, baseline)

    @property
    def setting(self) -> str:
        """Return data, fleet and seeds in a few words, of the first run."""
        if not self.runs:
            return ""
        scenario = parse(read_text(self.runs[0]), self.runs[0] / SCENARIO)
        seeds = [] if self.summary.empty else self.summary["seed"].unique().tolist()
        return setting_of(scenario, seeds)


# The function `open(folder) -> Result`, for completed runs.


def open(folder: str | Path) -> Result:  # noqa: A001 - as it is called: fedsim.open
    """Return the result of the runs in a folder, as `run` returned it when they were made.

    Unfinished runs are included: their events and rounds can be read as far as they
    went, but the summary has no row for them.

    Args:
        folder: OUT with all its runs, one variant's folder in it, or one run's folder.

    Raises:
        DataError: there is no such folder, or no run in it.

    Example:
        >>> again = fedsim.open(result.folder)
        >>> again.summary["variant"].unique().tolist()
        ['base', 'gd']
    """
    place = Path(folder)
    if not place.is_dir():
        raise missing("folder", place)
    study = read_study(place)
    runs = run_folders(place)
    variants = {} if study is None else study.variants
    if variants:  # variants that the scenario no longer has stay in the folder, but are left out
        runs = [path for path in runs if path.parent.name in variants]
    if not runs:
        raise DataError("folder", read.hold_no_runs(place))
    return Result(place, tuple(runs))
