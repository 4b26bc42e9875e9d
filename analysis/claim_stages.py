"""Claims in time and energy under cellular radios with stages, beside those with a flat tail.

    python analysis/claim_stages.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The methods of figures of analysis/claims.py (`PARTS`) are trained once, with beacons, and re-priced
under each pair of `PAIRS`, a preset with a flat tail and one with stages (connected DRX,
RRC inactive, paging): with devices as fast as the row has them, and with slower ones, whose work
takes `SLOW` seconds a round. A claim moves where its verdict in time or in energy is another one.
When all parts run, writes analysis/claim_stages.md. With --out the runs are kept, and an
interrupted command resumes. A part whose files are not here is left out, and then the page stays as
it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from claim_checks.asking import ask_parts
from claim_checks.costs import costs
from claim_checks.papers import EXPERIMENTS, RADIOS, Claim, Experiment
from claim_checks.settings import Setting, place, read
from claim_checks.verdicts import Cell, cells, outcome
from claim_checks.worlds import price_on, train
from rich.table import Table

import fedsim

PAGE = Path(__file__).parent / "claim_stages.md"
PAIRS = {
    "lte-drx": "lte",
    "lte-2020-drx": "lte-2020",
    "5g-low-drx": "5g-low",
    "5g-sa": "5g-low",
}
"""The presets that are compared: with stages, and with a flat tail."""

PARTS = (
    "chb-figure-2",
    "chb-table-1-linear",
    "chb-table-1-lasso",
    "chb-table-2-linear",
    "chb-table-2-lasso",
    "chb-table-3-linear",
    "chb-figure-11",
    "fedsgm-figure-1",
    "fedgradmp-figure-11",
    "fed-ht-figure-3-grid",
    "fed-ht-figure-3-ii-grid",
)
"""The experiments that are asked, of those of analysis/claims.py: most of the cheaper ones."""

SLOW = 5.0
"""The seconds that the work of a round takes on slower devices, in the mean."""

PACES = {"fast": "Devices of the rows", "slow": f"Devices that work for {SLOW:g} s a round"}
TITLES = {radio: RADIOS.get(old, old) for radio, old in PAIRS.items()} | {"5g-sa": "5G standalone"}
COSTS = {"t": "time", "joules": "energy"}


class Priced(NamedTuple):
    """A claim under a radio with a flat tail and under one with stages.

    Attributes:
        before: a cell for each of `COSTS`, with the tail.
        after: with stages.
        joules: what the better method needs with stages, over what it needs with the tail.
    """

    before: Mapping[str, Cell]
    after: Mapping[str, Cell]
    joules: float

    def moved(self, cost: str) -> bool:
        """Return whether the verdict is another one."""
        return bool(self.before[cost].verdict != self.after[cost].verdict)


class Row(NamedTuple):
    """A claim that holds in what its paper counts, under each pair of `PAIRS`, at one pace.

    Attributes:
        pace: a key of `PACES`.
        place: of the figure or table.
        claim: what the paper says.
        priced: by the preset with stages.
    """

    pace: str
    place: str
    claim: Claim
    priced: Mapping[str, Priced]


def examine(experiment: Experiment, out: Path, overrides: Sequence[str]) -> list[Row]:
    """Train the methods of an experiment, and price its claims under all radios."""
    setting = read(experiment, out, overrides)
    trained = train(setting, out)
    claims = [
        claim
        for claim in experiment.claims
        if outcome(claim, cells(claim, setting, trained)) != "does not hold"
    ]
    if not claims:
        return []
    found = []
    for pace in PACES:
        further = _slower(setting, trained) if pace == "slow" else ()
        radios = dict.fromkeys(radio for pair in PAIRS.items() for radio in pair)
        results = {
            radio: price_on(radio, setting, trained, out / pace, further) for radio in radios
        }
        for claim in claims:
            pairs = PAIRS.items()
            both = {new: _priced(claim, setting, results[old], results[new]) for new, old in pairs}
            found.append(Row(pace, place(experiment), claim, both))
    return found


def _slower(setting: Setting, trained: fedsim.Result) -> list[str]:
    """Return the overrides by which the work of a round takes `SLOW` seconds in the mean."""
    work = trained.events[trained.events["event"] == "compute"]
    tasks = work.groupby(["variant", "seed", "round", "node"], observed=True)["operations"].sum()
    groups = range(len(setting.scenario["fleet"]))
    return [f"fleet.{number}.device.speed={tasks.mean() / SLOW:.6g} flop/s" for number in groups]


def _priced(claim: Claim, setting: Setting, old: fedsim.Result, new: fedsim.Result) -> Priced:
    before, after = (
        costs(claim, setting, each).loc[claim.better]["joules"].mean() for each in (old, new)
    )
    return Priced(cells(claim, setting, old), cells(claim, setting, new), float(after / before))


def table(rows: Sequence[Row]) -> Table:
    """Return what moved of some claims, for the terminal."""
    made = Table("claim", *_HEADS)
    for row in rows:
        made.add_row(f"{row.claim.says} ({row.pace})", *_cells(row, mark=""))
    return made


def _cells(row: Row, mark: str = "**") -> Iterator[str]:
    """Yield the ratio before and after for each radio and cost; marked where the verdict moved."""
    for priced in row.priced.values():
        for cost in COSTS:
            old, new = (_short(each[cost]) for each in (priced.before, priced.after))
            text = old if old == new else f"{old} → {new}"
            verdict = f" ({priced.after[cost].verdict})"
            yield f"{mark}{text}{verdict}{mark}" if priced.moved(cost) else text


def _short(cell: Cell) -> str:
    return str(cell).partition(" (")[0]


def page(found: Mapping[str, Sequence[Row]]) -> str:
    """Return the page: what moved by radio, which claims, and each claim."""
    rows = [row for own in found.values() for row in own]
    lines = [
        *_OPENING,
        "",
        f"Not asked, for the time that they take: {'; '.join(_left_out())}.",
        "",
        _HEAD,
        "|---|---|---|---|---|---|---|---|",
        *(_summary(pace, radio, rows) for pace in PACES for radio in PAIRS),
        *("", "## What moves", ""),
        *(list(_moves(rows)) or ["No verdict of a claim is another one with stages."]),
    ]
    for pace, title in PACES.items():
        own = [row for row in rows if row.pace == pace]
        lines += [
            *("", f"## {title}", ""),
            "| figure, table | claim | " + " | ".join(_HEADS) + " |",
            "|---|---|" + "---|" * len(_HEADS),
            *(f"| {row.place} | {row.claim.says} | {' | '.join(_cells(row))} |" for row in own),
        ]
    return "\n".join(lines) + "\n"


def _left_out() -> Iterator[str]:
    """Yield the figures and tables that are not asked, and of which some claim may hold."""
    yield from (place(each) for name, each in EXPERIMENTS.items() if name not in PARTS)


def _moves(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each verdict that is another one with stages."""
    for row in rows:
        for radio, priced in row.priced.items():
            for cost, name in COSTS.items():
                old, new = priced.before[cost], priced.after[cost]
                if priced.moved(cost):
                    where = f"{TITLES[radio]}, {PACES[row.pace].lower()}, {name}"
                    verdicts = f"{_short(old)} ({old.verdict}) → {_short(new)} ({new.verdict})"
                    yield f"- {row.place}, {row.claim.says}. {where}: {verdicts}."


def _summary(pace: str, radio: str, rows: Sequence[Row]) -> str:
    own = [row.priced[radio] for row in rows if row.pace == pace]
    moved = [sum(each.moved(cost) for each in own) for cost in COSTS]
    changes = [
        max((abs(each.after[cost].ratio / each.before[cost].ratio - 1) for each in own
             if 0 < each.before[cost].ratio < float("inf")), default=0.0)
        for cost in COSTS
    ]  # fmt: skip
    joules = [each.joules for each in own if each.joules > 0]
    ends = f"{median(joules):.2f}, {min(joules):.2f} to {max(joules):.2f}" if joules else "-"
    return (
        f"| {PACES[pace]} | {TITLES[radio]} | {len(own)} | {moved[0]} | {moved[1]} |"
        f" {changes[0]:.1%} | {changes[1]:.1%} | {ends} |"
    )


_OPENING = """# Claims under radios with stages

The presets `lte`, `lte-2020` and `5g-low` have a flat tail, at the base power in the two later
ones. Their counterparts with stages, `lte-drx`, `lte-2020-drx` and `5g-low-drx`, listen now and
then while they are connected, and are paged while they are idle; `5g-sa`, which is compared with
`5g-low`, is in RRC inactive in between, and sends at other speeds ("Why tails dominate" has the
numbers). Here the [claims](claims.md) that may hold in what their papers count are priced under
both, with beacons. A figure is what the other method needs over what the better one needs, without
stages → with stages; in bold where the verdict is another one. Deadlines, which would be a training
each, are left out.

On the devices of the rows a round takes less than the 0.3 s for which a radio listens after a bit.
It never gets to doze: what moves ratios there is the first promotion, 0.3 s of a short run, which
the flat presets of 2020 do not have. Where the work of a round takes 5 s, the radio dozes in it.

Where clients are sampled (FedGradMP, Figure 11), a round waits until one that is idle is paged: on
5G, ten rounds take 7 s with cohorts of 30 and 12 s with cohorts of 10, in place of 0.5 s.

```sh
python analysis/claim_stages.py
```
""".splitlines()
_HEAD = (
    "| | radio | claims | moved in time | moved in energy | largest change of a ratio in time |"
    " in energy | energy of the better method, with stages over without (median, range) |"
)
_HEADS = [f"{TITLES[radio]}, {cost}" for radio in PAIRS for cost in COSTS.values()]


def main() -> None:
    """Price the claims, print a table a part, and write the page."""
    found = ask_parts(__doc__ or "", PARTS, examine, lambda rows: ([table(rows)], ""))
    if found is not None:
        PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
