"""How true is it? Every model of the network beside its reference, in one table.

    python analysis/reality/run.py            the table of docs/explanation/truth.md
    python analysis/reality/run.py --page     the same, written into the page

Errors are relative, and of times; references are closed forms, other simulators, packets, and the
sockets of a kernel. What they said is in the repository, so nothing has to be installed; each
script of this folder that the table names asks its own reference anew.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import calibrating
import kernel
import live_links
import numpy as np
import transfers
import wifi

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/explanation/truth.md"
ARRIVALS = HERE.parent / "simgrid/arrivals.csv"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
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

    def __str__(self) -> str:
        found = self.errors()
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
    return list(kernel.errors("tcp", "held-out"))


def of_ns3(model: transfers.packets.Sharing, kind: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors on unseen cases of a kind."""
    return lambda: [error for each, error in transfer_errors(model) if each == kind]


def of_linux(rows: Sequence[str]) -> Callable[[], Sequence[float]]:
    """Return what finds the errors against Linux's sockets in some rows of its table."""
    return lambda: [error for row, error in linux_errors() if row in rows]


def of_cells() -> Sequence[float]:
    """Return the errors of cells of Wi-Fi on held-out cases."""
    return [error for name, _, error in wifi.errors() if name == "held-out"]


@cache
def rounds() -> Mapping[str, Sequence[float]]:
    """Return the errors of rounds' durations under `model: tcp`, by fleet."""
    return _by_fleet(SETTINGS, calibrating.findings)


@cache
def live_rounds() -> Mapping[str, Sequence[float]]:
    """Return the same of live runs."""
    return _by_fleet(range(live_links.SETTINGS), live_links.findings)


def _by_fleet(
    settings: Sequence[int], find_one: Callable[[int], calibrating.Findings]
) -> Mapping[str, Sequence[float]]:
    errors = dict[str, list[float]]()
    for _, found in calibrating.each_of(settings, find_one):
        for model, fleet, finding in found:
            if model == "tcp":
                errors.setdefault(fleet, []).extend(finding.errors)
    return errors


def of_rounds(fleet: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of the rounds of a fleet."""
    return lambda: rounds()[fleet]


def of_live(fleet: str) -> Callable[[], Sequence[float]]:
    """Return what finds the errors of the rounds of live runs."""
    return lambda: live_rounds()[fleet]


SETTINGS = range(calibrating.SETTINGS)
"""The settings of calibrated fleets."""

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
        of_ns3("tcp", "random losses: median"),
        "other draws of losses",
        "transfers.py",
    ),
    Row(
        "`tcp`",
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
    Row(
        "`wifi`",
        "ns-3's frames of Wi-Fi",
        of_cells,
        "when each of many messages arrives; hidden stations",
        "wifi.py",
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
)


def lines() -> Iterator[str]:
    """Yield the lines of the table."""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|"
    yield from map(str, ROWS)


def main(arguments: Sequence[str]) -> None:
    """Print the table, or write it into the page."""
    if list(arguments) not in ([], ["--page"]):
        sys.exit(f"got {' '.join(arguments)}; expected nothing, or: --page")
    calibrating.be_quiet()
    if not arguments:
        for line in lines():
            print(line, flush=True)
        return
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    table = "".join(f"{line}\n" for line in lines())
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
