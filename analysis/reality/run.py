"""How true is it? Every model of the network beside its reference, in one table.

    python analysis/reality/run.py            the table of docs/explanation/truth.md
    python analysis/reality/run.py --page     the same, and those of calibrating.md beside it and
                                              docs/howto/lora.md, written into the pages
    python analysis/reality/run.py --again    after computing all errors anew (long), with or
                                              without --page
    python analysis/reality/run.py --again transfers.py kernel.py
                                              after computing those of some of the table's scripts,
                                              where a change can move no others

Errors are relative, and of times (for LoRa: of the share of frames that are received); references
are closed forms, other simulators, packets, and the sockets of a kernel. What they said is in the
repository, and so are the errors (errors.csv, lora.csv, and calibrated.csv of both kinds of
rounds), so nothing has to be installed; each script of this folder that the table names asks its
own reference anew.
"""

import csv
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import calibrating
import energy
import kept
import kernel
import live_links
import lora
import numpy as np
import regimes
import transfers
import wifi
from stored import fill, read_errors, read_findings, write_errors

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/explanation/truth.md"
FLEETS = HERE / "calibrating.md"
LORA = HERE.parents[1] / "docs/howto/lora.md"
ERRORS = HERE / "errors.csv"
ARRIVALS = HERE.parent / "simgrid/arrivals.csv"
MARK, REGIMES = "table", "table: regimes"
LOSSES = "random losses: median"
HEAD = "| model | held against | cases | median | nine of ten | worst | not for | command |"


class Row(NamedTuple):
    """A model and its reference.

    Attributes:
        model: what a scenario says.
        reference: what it was held against.
        errors: of its cases.
        unfit: where not to use it.
        command: the script that compares them.
    """

    model: str
    reference: str
    errors: Callable[[], Sequence[float]]
    unfit: str
    command: str

    @property
    def name(self) -> str:
        """What distinguishes it from the others."""
        return f"{self.model}: {self.reference}"

    @property
    def takes_long(self) -> bool:
        """Whether its errors are stored by this script: others are stored by their own."""
        return self.command in {"transfers.py", "kernel.py", "kept.py", "wifi.py"}

    def text(self, found: Sequence[float]) -> str:
        """Return the row of the table, by its errors."""
        sizes = np.abs(found)
        shares = (np.median(sizes), np.quantile(sizes, 0.9))
        cells = [self.model, self.reference, str(len(found)), *map(percent, shares)]
        worst = found[int(sizes.argmax())]
        cells += [f"{'-' if worst < 0 else '+'}{percent(abs(worst))}", self.unfit]
        return f"| {' | '.join([*cells, f'`{self.command}`'])} |"


def percent(share: float) -> str:
    """Return a share in percent, with two digits; as rounding where it is that.

    >>> percent(0.0123), percent(4e-16), percent(2.16)
    ('1.2 %', '0 (rounding)', '216 %')
    """
    if share < 1e-12:
        return "0 (rounding)"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"


def of_simgrid(model: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of arrivals against SimGrid's."""

    def found() -> Sequence[float]:
        with ARRIVALS.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] == model]
        return [float(row["difference"]) / float(row["simgrid"]) for row in rows]

    return found


@cache
def transfer_errors(model: transfers.packets.Sharing) -> Sequence[tuple[str, float]]:
    """Return the kind and the error of unseen cases against ns-3's packets."""
    sets = [transfers.packets.UNSEEN]
    return [(kind, error) for _, kind, _, error in transfers.errors(model, sets)]


@cache
def linux_errors() -> Sequence[tuple[str, float]]:
    """Return the row of the table and the error of each case against Linux's sockets."""
    return [found for name in kernel.UNSEEN for found in kernel.errors("tcp", name)]


def of_ns3(model: transfers.packets.Sharing, kind: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors on unseen cases of a kind."""
    return lambda: [error for each, error in transfer_errors(model) if each == kind]


def of_linux(rows: Sequence[str]) -> Callable[[], Sequence[float]]:
    """Return what finds the errors against Linux's sockets in some rows of its table."""
    return lambda: [error for row, error in linux_errors() if row in rows]


def of_kept(
    model: transfers.packets.Sharing, *, ns3: bool = False
) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of rounds over kept connections of Linux, or of ns-3."""
    return lambda: [
        error for row, error in kept.errors(model, kept.UNSEEN, ns3=ns3) if row == kernel.NONE
    ]


def of_cells() -> Sequence[float]:
    """Return the errors of cells of Wi-Fi on held-out cases."""
    return [error for name, _, error in wifi.errors() if name == "held-out"]


def of_lora(*, published: bool) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of shares against what LoRaSim says, or against the laws."""
    return lambda: [error for simulated, error in lora.errors() if simulated is published]


def _of_fleet(path: Path, fleet: str, model: str = "tcp") -> Sequence[float]:
    """Return the errors of rounds' durations under a model, of a fleet."""
    return [
        error
        for _, found in read_findings(path)
        for each, own, finding in found
        for error in finding.errors
        if (each, own) == (model, fleet)
    ]


def of_rounds(fleet: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of the rounds of a fleet."""
    return lambda: _of_fleet(calibrating.FOUND, fleet)


def of_live(fleet: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of the rounds of live runs."""
    return lambda: _of_fleet(live_links.FOUND, fleet)


ROWS = (
    Row(
        "`fluid`", "SimGrid 3.32, links without TCP", of_simgrid("fluid"), "", "simgrid/compare.py"
    ),
    Row("`lv08`", "SimGrid 3.32, LV08", of_simgrid("lv08"), "", "simgrid/compare.py"),
    Row(
        "`fluid`",
        "ns-3's packets of TCP",
        of_ns3("fluid", "no losses"),
        "times of single messages: handshakes and windows are not in it",
        "transfers.py",
    ),
    Row(
        "`lv08`",
        "ns-3's packets of TCP",
        of_ns3("lv08", "no losses"),
        "messages below 1 MB, many at once",
        "transfers.py",
    ),
    *(
        Row(
            f"`{model}`",
            "the same with random losses, medians of 100 seeds",
            of_ns3(model, LOSSES),
            unfit,
            "transfers.py",
        )
        for model, unfit in (("fluid", "links that lose packets"), ("lv08", "the same"))
    ),
    Row(
        "`tcp`, `stack: ns-3`",
        "ns-3's packets of TCP",
        of_ns3("tcp", "no losses"),
        "cases that a microsecond decides",
        "transfers.py",
    ),
    Row(
        "the same, random losses",
        "ns-3, medians of 100 seeds that lose the same packets",
        of_ns3("tcp", LOSSES),
        "other draws of losses",
        "transfers.py",
    ),
    Row(
        "`tcp`, `connections: new`",
        "Linux's sockets",
        of_linux([kernel.NONE]),
        "which of many messages times out",
        "kernel.py",
    ),
    Row(
        "the same, random losses",
        "Linux, medians of 15 runs",
        of_linux(kernel.LOSSES[:1]),
        "a single run",
        "kernel.py",
    ),
    *(
        Row(f"`{model}`", "Linux's sockets, rounds over kept connections", of_kept(model), *rest)
        for model, *rest in (
            ("fluid", "first windows that overflow a queue", "kept.py"),
            ("lv08", "messages below 1 MB", "kept.py"),
            ("tcp", "which of many messages times out", "kept.py"),
        )
    ),
    Row(
        "`tcp`, `stack: ns-3`",
        "ns-3's packets, rounds over kept connections",
        of_kept("tcp", ns3=True),
        "first windows that overflow a queue",
        "kept.py",
    ),
    Row(
        "`wifi`",
        "ns-3's frames of Wi-Fi",
        of_cells,
        "when each of many messages arrives; hidden stations",
        "wifi.py",
    ),
    Row(
        "`lora`, frames received",
        "pure ALOHA, and draws with capture",
        of_lora(published=False),
        "which frame is received; a gateway's own hardware",
        "lora.py",
    ),
    Row(
        "the same",
        "LoRaSim's published rates",
        of_lora(published=True),
        "fading from frame to frame",
        "lora.py",
    ),
    Row(
        "`tcp`, a fleet of presets",
        "ns-3, durations of rounds",
        of_rounds("presets"),
        "other fleets than that of the presets",
        "calibrating.py",
    ),
    Row(
        "`tcp`, the fleet calibrated",
        "the same, its second half",
        of_rounds("calibrated"),
        "devices and links that changed since",
        "calibrating.py",
    ),
    Row(
        "`tcp`, a fleet of presets",
        "live runs over links that Linux shapes",
        of_live("presets"),
        "other fleets than that of the presets",
        "live_links.py",
    ),
    Row(
        "`tcp`, the fleet calibrated",
        "the same, their second half",
        of_live("calibrated"),
        "first windows that overflow a queue",
        "live_links.py",
    ),
    Row(
        "no model: the live runs",
        "the same settings, measured once more",
        lambda: _of_fleet(live_links.REPEATED, live_links.BEFORE, live_links.LIVE),
        "",
        "live_links.py",
    ),
)


BY_REGIME: Mapping[str, Sequence[str]] = {
    "fluid": (ROWS[2].name, ROWS[4].name),
    "lv08": (ROWS[3].name, ROWS[5].name),
    "ns-3": (ROWS[6].name, ROWS[7].name),
    "linux": (ROWS[8].name, ROWS[9].name),
    "fluid, kept": (ROWS[10].name,),
    "lv08, kept": (ROWS[11].name,),
    "linux, kept": (ROWS[12].name,),
    "ns-3, kept": (ROWS[13].name,),
}
"""The rows of each model's cases without random losses and with them, where there are any."""

CELLS = ROWS[14].name

COMPUTED = {row.command for row in ROWS} - {"simgrid/compare.py"}
"""The scripts whose errors are stored, and computed anew on request."""


def find(commands: Collection[str]) -> None:
    """Compute the errors of some scripts anew, and store them; those of the others stay."""
    for script in (calibrating, live_links, lora):
        if Path(script.__file__).name in commands:
            script.find_all()
    rows = [row for row in ROWS if row.takes_long]
    anew = {row.name: row.errors() for row in rows if row.command in commands}
    if anew:
        known = {} if len(anew) == len(rows) else read_errors(ERRORS)
        write_errors({row.name: {**known, **anew}[row.name] for row in rows}, ERRORS)


def regimes_of_all() -> Iterator[tuple[str, str, regimes.Held]]:
    """Yield the model, the regime, and its cases with their errors, as they are stored."""
    stored = read_errors(ERRORS)
    for model, pair in BY_REGIME.items():
        for regime, held in regimes.of_tcp(model, *[stored[name] for name in pair]):
            yield model, regime, held
    for regime, held in regimes.of_wifi(stored[CELLS]):
        yield "wifi", regime, held


def lines() -> Iterator[str]:
    """Yield the lines of the table."""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|"
    stored = read_errors(ERRORS)
    for row in ROWS:
        yield row.text(stored[row.name] if row.takes_long else row.errors())


def write_pages() -> None:
    """Write the tables into their pages."""
    fill(PAGE, MARK, lines())
    fill(PAGE, REGIMES, regimes.lines(regimes_of_all()))
    fill(PAGE, "table: energy", energy.lines(energy.read()))
    fill(LORA, "table: frames received", lora.lines(lora.read()))
    found = {
        "ns-3": calibrating.FOUND,
        "live runs": live_links.FOUND,
        "live runs, twice": live_links.REPEATED,
    }
    for name, path in found.items():
        fill(FLEETS, f"table: {name}, all", calibrating.lines(read_findings(path), each=False))
        fill(FLEETS, f"table: {name}, each", calibrating.lines(read_findings(path)))


def main(arguments: Sequence[str]) -> None:
    """Print the table, or write it into the pages."""
    scripts = {*arguments} - {"--page", "--again"}
    if not scripts <= COMPUTED or (scripts and "--again" not in arguments):
        wanted = f"nothing, or: --page, --again, and with it some of {', '.join(sorted(COMPUTED))}"
        sys.exit(f"got {' '.join(arguments)}; expected {wanted}")
    calibrating.be_quiet()
    if "--again" in arguments:
        find(scripts or COMPUTED)
    if "--page" in arguments:
        write_pages()
        return
    for line in lines():
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
