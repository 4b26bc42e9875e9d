"""Texts: a table for each claim on the terminal, and the page of all claims."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill

from rich.table import Table

from claim_checks.explanations import Answer, why
from claim_checks.papers import CLAIMS, COSTS, Claim
from claim_checks.probabilities import WORLDS
from claim_checks.verdicts import ALIKE, CONFIDENCE, Cell
from fedsim.analysis import listing
from fedsim.analysis.compare.caveats import SURE


def table(claim: Claim, answers: Sequence[Answer]) -> Table:
    """Return a claim for reading: a row a world."""
    rows = [(str(each.world), *map(_told, each.cells.values())) for each in answers]
    title = f"{claim.title} ({claim.source}): {claim.worse[1]} over {claim.better[1]}"
    return listing(title, ("world", *COSTS.values()), rows)


def _told(cell: Cell) -> str:
    return str(cell) if cell.verdict in {"survives", "not reached"} else f"{cell} {cell.verdict}"


def page(answers: Mapping[str, Sequence[Answer]]) -> str:
    """Return the page: the picture, the meaning of a cell, and a section for each claim."""
    return "\n".join(
        [*_opening(answers), *(line for key in answers for line in _section(key, answers[key]))]
    )


def _opening(answers: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    yield from ("# Claims in time and energy", "")
    yield fill(
        "A paper counts rounds, messages or bits. Here the same runs are re-priced on seven radios:"
        " does the method that needs less of that count also need less time, and less"
        " energy? Each figure is the cost of the worse method over that of the better one, the"
        f" geometric mean over seeds; in brackets its interval (Student's, {CONFIDENCE:.0%}, from"
        " five seeds on; minimum and maximum of fewer). Above 1 the claim survives. It is a"
        f" tie where the interval holds 1 or the ratio is within {ALIKE - 1:.0%} of it, and"
        " reversed below.",
        108,
    )
    yield ""
    yield fill(
        "*WorldShare*: it holds in nine of ten worlds. *Holds in*: the share of worlds in which the"
        " ratio is above 1, when every constant of radios and devices is sampled from its 90 %"
        f" interval (`fedsim list radios`; {WORLDS} independent worlds), and in brackets the ratio"
        " in nine of ten worlds; in bold between 10 and 90 %, where"
        " constants decide rather than methods. Runs with deadlines would need a training in each"
        " world, and those of LoRa a separate model: they are left out.",
        108,
    )
    yield from ("", "```sh", "python analysis/claims.py", "```", "")
    yield from ("![What survives, by claim, cost and radio](figures/claims.png)", "")
    yield from (
        "| claim | counted | time: survives / tie / reversed | energy | sure in time | energy |",
        "|---|---|---|---|---|---|",
    )
    for key, own in answers.items():
        claim = CLAIMS[key]
        counted = own[0].cells[claim.counted]
        sums = [_sums(own, cost) for cost in ("t", "joules")]
        sums += [_holding(own, cost) for cost in ("t", "joules")]
        yield f"| {claim.title} | {COSTS[claim.counted]}: {_told(counted)} | {' | '.join(sums)} |"
    yield ""


def _sums(answers: Sequence[Answer], cost: str) -> str:
    verdicts = [each.cells[cost].verdict for each in answers]
    return " / ".join(str(verdicts.count(each)) for each in ("survives", "tie", "reversed"))


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


def _section(key: str, answers: Sequence[Answer]) -> Iterator[str]:
    claim = CLAIMS[key]
    yield from (f"## {claim.title[0].upper()}{claim.title[1:]}", "")
    yield from (fill(f"{claim.source}. {claim.worse[1]} over {claim.better[1]}:", 108), "")
    yield f"| on | {' | '.join(COSTS.values())} | time holds in | energy holds in |"
    yield "|---" * (3 + len(COSTS)) + "|"
    for each in answers:
        sure = [_sure(each, cost) for cost in ("t", "joules")]
        yield f"| {each.world} | {' | '.join([*map(_told, each.cells.values()), *sure])} |"
    yield from ("", fill(why(claim, answers), 108), "")
