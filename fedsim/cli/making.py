"""After runs: what has come out."""

import shlex

from rich.markup import escape

from fedsim import analysis
from fedsim.cli.terminal import out as _out
from fedsim.cli.terminal import remark as _remark
from fedsim.cli.terminal import suggest as _next
from fedsim.record.notes import once
from fedsim.record.variants import labels as called_by
from fedsim.results import Result
from fedsim.scenario import Plan


def called(plan: Plan) -> dict[str, str]:
    """Return what to call each variant of a plan."""
    return called_by({each.name: each.scenario.algorithm.kind for each in plan.variants})


def report(result: Result) -> None:
    """Print the answer, costs and final model quality, draw the figure, and say where all is."""
    if said := result.shown.answer():
        _out.print(f"{escape(said)}\n")
    _out.print(result.shown.costs())
    _out.print(result.shown.outcome())
    figure = result.folder / "convergence.png"
    analysis.save(result.shown.overview(), figure)
    _out.print(
        f"event logs and tables in {escape(str(result.folder))}, figure {escape(str(figure))}"
    )
    for note in once(result.seen):
        _remark(note)
    folder = shlex.quote(str(result.folder))
    _next(f"fedsim compare {folder}", f"fedsim report {folder}")
