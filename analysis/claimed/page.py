"""What is read: a table a claim for the terminal, and the page of all."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill

from rich.table import Table

from claimed.papers import CLAIMS, COSTS, Claim
from claimed.reasons import Answer, why
from claimed.verdicts import ALIKE, CONFIDENCE, Cell
from fedsim.analysis import listing


def table(claim: Claim, answers: Sequence[Answer]) -> Table:
    """Return a claim for reading: a row a world."""
    rows = [(str(each.world), *map(_told, each.cells.values())) for each in answers]
    title = f"{claim.title} ({claim.source}): {claim.worse[1]} over {claim.better[1]}"
    return listing(title, ("world", *COSTS.values()), rows)


def _told(cell: Cell) -> str:
    return str(cell) if cell.verdict in {"survives", "not reached"} else f"{cell} {cell.verdict}"


def page(answers: Mapping[str, Sequence[Answer]]) -> str:
    """Return the page: the picture, what a cell says, and a section a claim."""
    return "\n".join(
        [*_opening(answers), *(line for key in answers for line in _section(key, answers[key]))]
    )


def _opening(answers: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    yield from ("# Which claims survive", "")
    yield fill(
        "A paper counts rounds, messages or bits. Here the same runs are priced on seven radios:"
        " does the method that needs less of what was counted also need less time, and less"
        " energy? Each figure is what the worse method needs over what the better one needs, the"
        f" geometric mean over seeds; in brackets its interval (Student's, {CONFIDENCE:.0%}, from"
        " four seeds on; the least and the largest of fewer). Above 1 the claim survives. It is a"
        f" tie where the interval holds 1 or the ratio is within {ALIKE - 1:.0%} of it, and"
        " reversed below.",
        108,
    )
    yield from ("", "```sh", "python analysis/claims.py", "```", "")
    yield from ("![What survives, by claim, cost and radio](figures/claims.png)", "")
    yield from (
        "| claim | counted | time: survives / tie / reversed | energy |",
        "|---|---|---|---|",
    )
    for key, own in answers.items():
        claim = CLAIMS[key]
        counted = own[0].cells[claim.counted]
        sums = [_sums(own, cost) for cost in ("t", "joules")]
        yield f"| {claim.title} | {COSTS[claim.counted]}: {_told(counted)} | {' | '.join(sums)} |"
    yield ""


def _sums(answers: Sequence[Answer], cost: str) -> str:
    verdicts = [each.cells[cost].verdict for each in answers]
    return " / ".join(str(verdicts.count(each)) for each in ("survives", "tie", "reversed"))


def _section(key: str, answers: Sequence[Answer]) -> Iterator[str]:
    claim = CLAIMS[key]
    yield from (f"## {claim.title[0].upper()}{claim.title[1:]}", "")
    yield from (fill(f"{claim.source}. {claim.worse[1]} over {claim.better[1]}:", 108), "")
    yield f"| on | {' | '.join(COSTS.values())} |"
    yield "|---" * (1 + len(COSTS)) + "|"
    for each in answers:
        yield f"| {each.world} | {' | '.join(map(_told, each.cells.values()))} |"
    yield from ("", fill(why(claim, answers), 108), "")
