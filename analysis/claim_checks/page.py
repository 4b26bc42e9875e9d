"""Texts: a table for each claim on the terminal, and the page of all claims."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from textwrap import fill

from rich.table import Table

from claim_checks.explanations import Answer, Finding, why
from claim_checks.papers import COSTS, EXPERIMENTS
from claim_checks.probabilities import WORLDS
from claim_checks.settings import place
from claim_checks.verdicts import Cell, short
from fedsim.results.analysis import listing
from fedsim.results.analysis.compare.pairwise import PRACTICAL
from fedsim.results.analysis.compare.verdict import SURE

WIDTH = 108

LEFT_OUT = (
    "of CHB Table I's logistic regression (3 min, and 30,000 rounds to price on each radio), Table"
    " III's logistic regression (7 min) and network (15 min); of FedGradMP Figure 5 (3 min) and"
    " Figures 6 and 7 (10 and 17 min on MNIST; accuracy at the end, which no radio changes); of"
    " Fed-HT Figure 6 (24 min on MNIST, does not hold in rounds); of Fast-FedDA Figures 3 and 4 (a"
    " user's file). Fast-FedDA's first two figures have one seed here, CHB Table I's network two"
)
"""Claims of the papers that are not among the experiments."""


def table(finding: Finding) -> Table:
    """Return a claim for reading: a row a world, after what holds where the paper counts."""
    rows = [("as in the row", *map(_told, finding.found.values()))]
    rows += [(str(each.world), *map(_told, each.cells.values())) for each in finding.answers]
    return listing(_title(finding), ("world", *COSTS.values()), rows)


def _title(finding: Finding) -> str:
    claim = finding.claim
    return f"{claim.says} ({finding.setting.place}): {claim.against} over {claim.better}"


def summary(finding: Finding) -> str:
    """Return in a sentence what a claim comes to in what its paper counts."""
    claim, found = finding.claim, finding.found
    numbers = [f"{COSTS[cost]} {_told(found[cost])}" for cost in claim.counted]
    if any(found[cost].verdict == "not reached" for cost in claim.counted):
        numbers = [f"{claim.better} never gets there"]
    said = _published(finding)
    beside = f", published {said}" if said != "-" else ""
    priced = "" if finding.answers else "; not priced"
    own = f"{finding.outcome.capitalize()} in the paper's own count"
    return f"{own}: {', '.join(numbers)}{beside}{priced}."


def _told(cell: Cell) -> str:
    return str(cell) if cell.verdict in {"survives", "not reached"} else f"{cell} {cell.verdict}"


def _published(finding: Finding) -> str:
    """Return the ratio that the paper prints, or what it says in words."""
    claim, setting = finding.claim, finding.setting
    own = setting.published(claim.better, claim.measure)
    others = [setting.published(label, claim.measure) for label in claim.worse]
    ratio = min(others, key=lambda value: float("inf") if isnan(value) else value) / own
    number = "" if isnan(ratio) else short(ratio)
    return " = ".join(filter(None, (claim.words, number))) or "-"


def page(findings: Mapping[str, Sequence[Finding]]) -> str:
    """Return the page: the picture, the meaning of a cell, and a section for each figure."""
    sections = (line for own in findings.values() for line in _section(own))
    return "\n".join([*_opening(findings), *sections])


def _opening(findings: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    yield from ("# Claims in time and energy", "")
    yield fill(
        "A paper counts rounds, messages or bits. What it claims of a figure or a table is tested"
        " on the runs of that [row](papers/README.md), with its settings, first in the paper's own"
        " count; what holds there is re-priced on seven radios: does the method that needs less of"
        " that count also need less time, and less energy? Each figure is the cost of the other"
        " method over that of the better one, the geometric mean over seeds; of several others the"
        " cheapest counts, in each cost apart. In brackets is its 95 % interval, by the rule of"
        " `fedsim compare`. Above 1 the claim survives, and below it is reversed; it is a tie where"
        f" the ratio is within {PRACTICAL:.0%} of 1, and undecided where the seeds are too few or"
        " differ too much to tell; - where a method never gets there.",
        WIDTH,
    )
    yield ""
    yield fill(
        "*Sure*: it holds in nine of ten worlds. *Holds in*: the share of worlds in which the"
        " ratio is above 1, when every constant of radios and devices is sampled from its 90 %"
        f" interval (`fedsim list radios`; {WORLDS} independent worlds), and in brackets the ratio"
        " in nine of ten worlds; in bold between 10 and 90 %, where"
        " constants decide rather than methods. Runs with deadlines would need a training in each"
        " world, and those of LoRa a separate model: they are left out.",
        WIDTH,
    )
    yield ""
    yield fill(f"Not asked, with what their rows take to run, or need: {LEFT_OUT}.", WIDTH)
    yield from ("", "```sh", "python analysis/claims.py", "```", "")
    yield from ("![What survives, by claim, cost and radio](figures/claims.png)", "")
    yield (
        "| figure, table | claim | published | own count |"
        " | time: survives / tie / undecided / reversed | energy | sure in time | energy |"
    )
    yield "|---" * 9 + "|"
    for own in findings.values():
        yield from map(_line, own)
    yield ""


def _line(finding: Finding) -> str:
    """Return a claim's line of the table of all claims."""
    claim = finding.claim
    counted = ", ".join(f"{COSTS[cost]}: {_told(finding.found[cost])}" for cost in claim.counted)
    cells = [finding.setting.place, claim.says, _published(finding), counted, finding.outcome]
    if finding.answers:
        cells += [_sums(finding.answers, cost) for cost in ("t", "joules")]
        cells += [_holding(finding.answers, cost) for cost in ("t", "joules")]
    else:
        cells += ["not priced", "", "", ""]
    return f"| {' | '.join(cells)} |"


def _sums(answers: Sequence[Answer], cost: str) -> str:
    verdicts = [each.cells[cost].verdict for each in answers]
    shown = ("survives", "tie", "undecided", "reversed")
    return " / ".join(str(verdicts.count(each)) for each in shown)


def _holding(answers: Sequence[Answer], cost: str) -> str:
    """Return on how many of its radios a claim holds in nine worlds of ten."""
    shares = [each.sure[cost].share for each in answers if each.sure]
    return f"on {sum(share >= SURE for share in shares)} of {len(shares)} radios"


def _sure(answer: Answer, cost: str) -> str:
    """Return in how many worlds a claim holds in one cost; in bold where constants decide."""
    if not answer.sure:
        return "-"
    own = answer.sure[cost]
    return f"**{own}**" if own.doubtful else str(own)


def _section(findings: Sequence[Finding]) -> Iterator[str]:
    setting = findings[0].setting
    yield from (f"## {setting.place}", "")
    yield from (fill(f"{_sentence(setting.row.claim)} Settings: those of the row.", WIDTH), "")
    for each in findings:
        claim = each.claim
        yield from (f"### {claim.says}", "")
        yield from (
            fill(f"{_sentence(claim.against)} over {claim.better}. {summary(each)}", WIDTH),
            "",
        )
        if each.answers:
            yield from _table(each)


def _table(finding: Finding) -> Iterator[str]:
    yield f"| on | {' | '.join(COSTS.values())} | time holds in | energy holds in |"
    yield "|---" * (3 + len(COSTS)) + "|"
    for each in finding.answers:
        sure = [_sure(each, cost) for cost in ("t", "joules")]
        yield f"| {each.world} | {' | '.join([*map(_told, each.cells.values()), *sure])} |"
    yield from ("", fill(why(finding.claim, finding.answers), WIDTH), "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def headings() -> list[str]:
    """Return the headings of the page, a figure and then its claims."""
    return [
        line
        for experiment in EXPERIMENTS.values()
        for line in (f"## {place(experiment)}", *(f"### {each.says}" for each in experiment.claims))
    ]
