"""The six readers of numbers in columns, and what is odd in their files."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.core.remarks import hearing
from fedsim.physics.availability import read_intervals
from fedsim.physics.graphs_in_time import read_contacts
from fedsim.physics.mobility import read_positions
from fedsim.physics.traces import read_csv, read_intensity, read_power
from tests.readers.matrix import NUMBERS, Cell, each_of, hold
from tests.scenario.building.test_headers import notes as notes_of_fleet


class Sample(NamedTuple):
    """A file as documented, and what it means.

    Attributes:
        header, rows: its content.
        times: the places of columns of times.
        read: its reader.
        answer: the right value, by hand.
        other: a header with another unit, the place of that column, and how many of it are one of
            the documented unit.
        wrong: a header with a unit of another kind.
    """

    header: str
    rows: list[list[Any]]
    times: tuple[int, ...]
    read: Callable[[Path], Any]
    answer: Any
    other: tuple[str, int, float]
    wrong: str

    @property
    def names(self) -> list[str]:
        return self.header.split(",")

    @property
    def hour(self) -> int:
        return 3600 if self.names[0] == "hours" else 1

    def timed(self, change: Callable[[float], object], header: str = "") -> str:
        """Return the file with other times."""
        rows = [
            [change(cell) if place in self.times else cell for place, cell in enumerate(row)]
            for row in self.rows
        ]
        return lines(header or self.header, rows)

    def with_cell(self, text: str, separator: str = ",") -> str:
        """Return the file with another text in the last cell of its second row."""
        first, second, *others = self.rows
        header = separator.join(self.names)
        return lines(header, [first, [*second[:-1], text], *others], separator)


def lines(header: str, rows: Iterable[Iterable[object]], separator: str = ",") -> str:
    body = [separator.join(map(str, row)) for row in rows]
    return "\n".join([*filter(None, [header]), *body]) + "\n"


def _steps(signal: Any) -> Any:
    return signal.times.tolist(), signal.values.tolist(), signal.period


def _spans(path: Path) -> Any:
    return {k: [*zip(law.begins, law.ends, strict=True)] for k, law in read_intervals(path).items()}


SAMPLES: Mapping[str, Sample] = {
    "csv": Sample(
        "seconds,Mbit/s", [[0, 1], [60, 2]], (0,), lambda path: _steps(read_csv(path, repeat=True)),
        ([0, 60], [1e6, 2e6], 120), ("seconds,rate_kbps", 1, 1000), "seconds,power_W",
    ),
    "harvest": Sample(
        "seconds,W", [[0, 1], [60, 2]], (0,), lambda path: _steps(read_power(path, repeat=True)),
        ([0, 60], [1, 2], 120), ("seconds,Power (mW)", 1, 1000), "seconds,power_J",
    ),
    "hourly": Sample(
        "hours,g/kWh", [[0, 1], [1, 2]], (0,),
        lambda path: _steps(read_intensity(path, repeat=True)),
        ([0, 3600], [1, 2], 7200), ("minutes,g/kWh", 0, 60), "hours,watts",
    ),
    "intervals": Sample(
        "client,start,end", [[0, 0, 60], [1, 30, 90]], (1, 2), _spans,
        {0: [(0, 60)], 1: [(30, 90)]}, ("client,start,end_ms", 2, 1000), "client,start,end_J",
    ),
    "contacts": Sample(
        "source,target,begin,end", [[0, 1, 0, 60], [1, 2, 30, 90]], (2, 3),
        lambda path: read_contacts(path).tolist(), [[0, 1, 0, 60], [1, 2, 30, 90]],
        ("source,target,begin [ms],end", 2, 1000), "source,target,begin_m,end",
    ),
    "positions": Sample(
        "client,time,x,y", [[0, 0, 5, 6], [0, 60, 7, 8], [1, 0, 1, 2]], (1,),
        lambda path: read_positions(path).tolist(), [[0, 0, 5, 6], [0, 60, 7, 8], [1, 0, 1, 2]],
        ("client,time,x_km,y", 2, 1e-3), "client,time,x_s,y",
    ),
}  # fmt: skip

WITH_A_FIRST_ROW: Mapping[str, Any] = {
    "intervals": {0: [(0, 60)], 1: [(2, 3), (30, 90)]},
    "contacts": [[1, 2, 3, 4], [0, 1, 0, 60], [1, 2, 30, 90]],
    "positions": [[0, 0, 5, 6], [0, 60, 7, 8], [1, 0, 1, 2], [1, 2, 3, 4]],
}
"""The value where the line 1,2,3 or 1,2,3,4 is a row before the others."""

START = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
EPOCH = 1_700_000_000


def _scaled(sample: Sample) -> str:
    header, place, scale = sample.other
    return lines(
        header, [[c * scale if n == place else c for n, c in enumerate(row)] for row in sample.rows]
    )


def _dated(sample: Sample, zone: str) -> str:
    def date(cell: float) -> str:
        time = START + timedelta(seconds=sample.hour * cell)
        return f"{time:%Y-%m-%dT%H:%M:%S}{zone}"

    return sample.timed(date)


def _since_1970(sample: Sample, count: int) -> str:
    header = ",".join("time" if n in sample.times[:1] and len(sample.times) == 1 else name
                      for n, name in enumerate(sample.names))  # fmt: skip
    return sample.timed(lambda cell: count * (EPOCH + sample.hour * cell), header)


FILES: Mapping[str, Callable[[Sample], str]] = {
    "header with another unit": _scaled,
    "header with a unit of another kind": lambda sample: lines(sample.wrong, sample.rows),
    "no header": lambda sample: lines("", sample.rows),
    "columns in another order": lambda sample: lines(
        ",".join(sample.names[::-1]), [row[::-1] for row in sample.rows]
    ),
    "a further column": lambda sample: lines(
        f"{sample.header},note", [[*row, "x"] for row in sample.rows]
    ),
    "the index of a data frame": lambda sample: lines(
        f",{sample.header}", [[number, *row] for number, row in enumerate(sample.rows)]
    ),
    "numbers for names of columns": lambda sample: lines(
        ",".join(str(place + 1) for place in range(len(sample.names))), sample.rows
    ),
    "a column twice": lambda sample: lines(
        f"{sample.header},{sample.names[-1]}", [[*row, row[-1]] for row in sample.rows]
    ),
    "dates with `Z`": lambda sample: _dated(sample, "Z"),
    "dates with an offset": lambda sample: _dated(sample, "+05:30"),
    "seconds since 1970": lambda sample: _since_1970(sample, 1),
    "milliseconds since 1970": lambda sample: _since_1970(sample, 1000),
    "`NA` for a number": lambda sample: sample.with_cell("NA"),
    "an empty cell": lambda sample: sample.with_cell(""),
    "thousands with commas": lambda sample: sample.with_cell('"1,188"'),
    "decimal commas, semicolons": lambda sample: sample.with_cell("1,5", ";"),
    "separated by blanks": lambda sample: lines(sample.header, sample.rows).replace(",", " "),
    "byte order mark": lambda sample: "\ufeff" + lines(sample.header, sample.rows),
    "empty file": lambda _: "",
    "header alone": lambda sample: f"{sample.header}\n",
}
CLIENTS = {"clients not in the fleet": [0, 1, 2, 7], "clients from 1": [1, 2, 3]}


@each_of(NUMBERS)
def test_numbers_in_columns(cell: Cell, tmp_path: Path) -> None:
    if cell.oddity in CLIENTS:
        given = CLIENTS[cell.oddity]
        hold(cell, lambda: (None, [n.text for n in notes_of_fleet(cell.reader, tmp_path, given)]),
             None)  # fmt: skip
        return
    sample = SAMPLES[cell.reader]
    path = tmp_path / "file.csv"
    path.write_text(FILES[cell.oddity](sample), encoding="utf-8")
    named = cell.oddity == "numbers for names of columns"
    answer = WITH_A_FIRST_ROW.get(cell.reader) if named else sample.answer
    with hearing() as heard:
        hold(cell, lambda: (sample.read(path), heard), answer)
