"""What the file of a paper says: its figures and tables, how each is measured, and what it claims.

FORMAT.md, beside the files, states the format for authors; here is what it is checked against.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from ruamel.yaml import YAML

FOLDER = Path(__file__).resolve().parents[1]
"""Where the files are, a paper each."""

SCENARIOS = FOLDER.parents[1] / "scenarios/papers"

END: Literal["end"] = "end"
TARGET: Literal["target"] = "target"
WORST = "worst"

SEPARATOR = " | "
"""Between the case, the variant and the measure in the name of a number."""


class Part(BaseModel):
    """A part of a file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class At(Part):
    """The round in which a column first reaches a level.

    Attributes:
        column: of the round table.
        level: what it is to reach; "$name" for the value of an axis of the case.
        end_of: in place of a level, the variant whose last value is the level, seed by seed;
            "worst" for the largest last value of all runs.
    """

    column: str = "gap"
    level: float | str | None = None
    end_of: str = ""

    def of(self, fields: Mapping[str, Any]) -> "At":
        """Return this with the level of a case."""
        if not isinstance(self.level, str):
            return self
        level = float(Template(self.level).substitute(fields))
        return self.model_copy(update={"level": level})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.level is None) == (not self.end_of):
            raise ValueError("expected either a level or end_of")
        return self


class Measure(Part):
    """How a number is taken of a run.

    Attributes:
        column: of the round table, costs added up; "bits" are those of both directions.
        at: the round: the last one (end), the first one with the gap that the scenario stops at
            (target), that of a number, or where a column reaches a level.
        total: whether all values up to that round are added up; costs are, anyway.
        power: the value is raised to.
        minus: is subtracted from the value.
        function: in place of a column, a name of `functions.MEASURES`.
        given: what that function is given besides the result.
        show: the format of a value, as after the colon of an f-string.
        unit: shown with prefixes (kbit, MJ) in place of a format.
    """

    column: str = ""
    at: Literal["end", "target"] | int | At = END
    total: bool = False
    power: float = 1
    minus: float = 0
    function: str = ""
    given: Mapping[str, Any] = Field(default_factory=dict)
    show: str = "g"
    unit: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.column) == bool(self.function):
            raise ValueError("expected either a column or a function")
        return self


class Setting(NamedTuple):
    """A case with one value of each axis.

    Attributes:
        name: of the case, filled in.
        scenario: its file.
        overrides: of the scenario.
        tried: overrides of which the best is taken, each a run; empty for one run without.
        fields: the values of the axes.
        labels: variant -> what it is called; of variants that share a label the best is taken.
        search: keys of algorithms and their values, of which the best are taken likewise.
    """

    name: str
    scenario: Path
    overrides: tuple[str, ...]
    tried: tuple[str, ...]
    fields: Mapping[str, Any]
    labels: Mapping[str, str]
    search: tuple[Mapping[str, Any], ...] = ()


def combinations(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each combination of values: a value is a scalar, or a mapping of several names."""
    choices = [
        [value if isinstance(value, Mapping) else {axis: value} for value in values]
        for axis, values in axes.items()
    ]
    for values in product(*choices):
        yield {key: value for each in values for key, value in each.items()}


class Case(Part):
    """The scenario, or another one, under some overrides.

    Attributes:
        scenario: if not that of the row.
        set: overrides, "KEY=VALUE", in which $name stands for the value of an axis.
        vary: axes; of each value a run. A value is a scalar, or a mapping of several names.
        tried: overrides, each a run, of which the one with the least value of the row's `best`
            is taken, variant by variant.
        search: keys of algorithms -> values, which all variants have in turn: of each combination
            the best is taken, as of what is tried.
        variants: variant -> label, if not those of the row.
    """

    scenario: str = ""
    set: tuple[str, ...] = ()
    vary: Mapping[str, Sequence[Any]] = Field(default_factory=dict)
    tried: tuple[str, ...] = ()
    search: Mapping[str, Sequence[Any]] = Field(default_factory=dict)
    variants: Mapping[str, str] = Field(default_factory=dict)

    def settings(self, name: str, row: "Row") -> Iterator[Setting]:
        """Yield the runs of this case."""
        file = SCENARIOS / f"{self.scenario or row.scenario}.yaml"
        searched = tuple(combinations(self.search)) if self.search else ()
        for fields in combinations(self.vary):
            own = tuple(Template(text).substitute(fields) for text in self.set)
            called = Template(name).substitute(fields)
            labels = self.variants or row.variants
            yield Setting(called, file, own, self.tried, fields, labels, searched)


class Check(Part):
    """A condition of the numbers.

    Attributes:
        holds: an expression, see `states`.
        seeds: under which seeds it has to hold: "each", "mean" for the means over seeds, or the
            least number of seeds.
    """

    holds: str
    seeds: Literal["each", "mean"] | int = "each"


class Drawing(Part):
    """How a figure is drawn.

    Attributes:
        kind: progress (a column against what rounds cost), against (measures by an axis of the
            cases), or a name of `drawing.DRAWN`.
        title: above it.
        case: whose rounds are drawn; the first one if empty.
        column: of the round table.
        columns: in place of one column, several, each with what its axis says: a panel a column.
        label: of the axis upwards.
        against: the costs, a panel each; rounds, bits, seconds and joules if empty.
        variants: those drawn, all where none is named.
        log: whether the column is drawn on a logarithmic axis.
        log_costs: whether costs are drawn on logarithmic axes.
        target: where a line is to be.
        x: the axis of the cases that `against` draws by, or a name of the cases' fields.
        measures: those that `against` draws, a panel each.
        given: what a function is given besides.
    """

    kind: str = "progress"
    title: str = ""
    case: str = ""
    column: str = "gap"
    columns: Mapping[str, str] = Field(default_factory=dict)
    label: str = ""
    against: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    log: bool = True
    log_costs: bool = False
    target: float | None = None
    x: str = ""
    measures: tuple[str, ...] = ()
    given: Mapping[str, Any] = Field(default_factory=dict)


class Reduced(Part):
    """The form in which tests run a row.

    Attributes:
        set: overrides.
        cases: how many of the cases run; all if 0.
        search: how many combinations of a search run; all if 0.
        quick: whether the default tests run it, too.
        stand_in: a name of `tests.stand_ins`, which makes files in place of the user's.
        holds: names of checks that hold in this form, too.
        given: what functions and figures are given instead, where a row gives them something else.
    """

    set: tuple[str, ...] = ("seeds=1", "stop.rounds=3")
    cases: int = 0
    search: int = 2
    quick: bool = False
    stand_in: str = ""
    holds: tuple[str, ...] = ()
    given: Mapping[str, Any] = Field(default_factory=dict)


Source = Literal["published", "checked"]
"""Where numbers beside measured ones are from: the paper, or a computation without fedsim."""

SOURCES: tuple[Source, ...] = get_args(Source)

Lines = Mapping[str, Sequence[float | str | None] | Mapping[str, float | str]]
"""Line of a row's table -> values, in the order of the measures or by name."""


class Row(Part):
    """A figure or a table of the paper, or a part of one.

    Attributes:
        place: its number in the paper, and what of it ("Table I, linear").
        claim: what the paper says, in one sentence.
        substitute: what stands in place of data that the paper states; empty where the data are
            the paper's.
        concludes: whether the paper draws a conclusion from it, which its checks test; otherwise
            all checks are ours. Rows beyond the paper never do.
        stated, cited, ours: the settings that the paper states, that are read from code it
            cites, and that are ours.
        scenario: its file below scenarios/papers, without the ending.
        data: names of the catalogue whose files it needs.
        needs: a file of the user's that it needs, in words.
        prepared: a name of `functions.PREPARED`, which makes what the scenario needs.
        cases: name -> overrides; one case without any if none is given.
        variants: variant of the scenario -> what the page calls it.
        measures: name -> how it is taken.
        published: "label" or "case | label" -> the paper's values, in the order of `measures`, or
            by name; null for none. A text is shown, and held against nothing.
        checked: values in the same form that a computation without fedsim has.
        tolerance: measure -> how far a published or checked number may be off, "3 %" or absolute.
        checks: what the paper claims -> the expression that holds if it is so.
        cross_checks: likewise, what a computation without fedsim has; they do not count towards
            the state of a row that concludes something.
        best: the measure by which the best of what is tried is chosen: the least.
        figures: name of the file -> how it is drawn.
        notes: Markdown below the row's numbers.
        reduced: the form in which tests run it.
    """

    place: str
    claim: str
    substitute: str = ""
    concludes: bool = True
    stated: str = ""
    cited: str = ""
    ours: str = ""
    scenario: str
    data: tuple[str, ...] = ()
    needs: str = ""
    prepared: str = ""
    cases: Mapping[str, Case] = Field(default_factory=lambda: {"": Case()})
    variants: Mapping[str, str]
    measures: Mapping[str, Measure]
    published: Lines = Field(default_factory=dict)
    checked: Lines = Field(default_factory=dict)
    tolerance: Mapping[str, float | str] = Field(default_factory=dict)
    checks: Mapping[str, Check] = Field(default_factory=dict)
    cross_checks: Mapping[str, Check] = Field(default_factory=dict)
    best: str = ""
    figures: Mapping[str, Drawing] = Field(default_factory=dict)
    notes: str = ""
    reduced: Reduced = Reduced()

    @field_validator("checks", "cross_checks", mode="before")
    @classmethod
    def _expressions(cls, checks: Mapping[str, object]) -> dict[str, object]:
        """Take a text for a check that has nothing else."""
        return {
            name: {"holds": check} if isinstance(check, str) else check
            for name, check in checks.items()
        }

    def settings(self) -> list[Setting]:
        """Return all runs of the row, in the order of the file."""
        return [each for name, case in self.cases.items() for each in case.settings(name, self)]

    def names(self) -> list[str]:
        """Return the names of all numbers that the row can have."""
        return [
            SEPARATOR.join(filter(None, (setting.name, label, measure)))
            for setting in self.settings()
            for label in dict.fromkeys(setting.labels.values())
            for measure in self.measures
        ]

    def lines(self, source: Source) -> Lines:
        """Return the published or the checked values of the row's table."""
        return self.published if source == "published" else self.checked

    def values(self, line: str, source: Source = "published") -> dict[str, float | str]:
        """Return the published or the checked values of a line of its table, by measure."""
        given_values = self.lines(source).get(line, {})
        if isinstance(given_values, Mapping):
            return dict(given_values)
        pairs = zip(self.measures, given_values, strict=False)
        return {name: value for name, value in pairs if value is not None}


class Paper(Part):
    """The file of a paper.

    Attributes:
        name: what tables call it.
        title: of its section.
        source: authors, title, venue.
        settings: Markdown: what its rows have in common.
        rows: the paper's figures and tables; the keys name them in the command.
        further: what is beyond the paper, likewise.
        notes: Markdown at the end of the section.
        before: how many of its rows were reproduced, in part, not, and not run, before the papers'
            texts were at hand; without it the page has no earlier states of the paper.
        shared: parts of the file that others refer to by YAML's anchors.
    """

    name: str
    title: str
    source: str
    settings: str = ""
    rows: Mapping[str, Row] = Field(default_factory=dict)
    further: Mapping[str, Row] = Field(default_factory=dict)
    notes: str = ""
    before: tuple[int, int, int, int] | None = None
    shared: Any = None

    @field_validator("further")
    @classmethod
    def _beyond(cls, further: Mapping[str, Row]) -> dict[str, Row]:
        """Let no row beyond the paper conclude something for it."""
        return {key: row.model_copy(update={"concludes": False}) for key, row in further.items()}

    @property
    def every(self) -> dict[str, Row]:
        """All rows, those beyond the paper last."""
        return {**self.rows, **self.further}


def read(file: Path) -> Paper:
    """Return the paper of a file.

    Raises:
        ValidationError: the file is not of the format.
    """
    return Paper.model_validate(YAML(typ="safe").load(file.read_text(encoding="utf-8")))


def names() -> list[str]:
    """Return the names of all papers: those of their files."""
    return [name for name in ORDER if (FOLDER / f"{name}.yaml").exists()]


ORDER = ("chb", "fedsgm", "fedgradmp", "fed-ht", "fast-fedda", "further")
"""The papers as the page has them."""
