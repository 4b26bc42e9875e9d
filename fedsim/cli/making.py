"""After runs: what has come out."""

from rich.markup import escape

from fedsim import analysis
from fedsim.cli.terminal import out as _out
from fedsim.cli.terminal import remark as _remark
from fedsim.record.notes import marked, once
from fedsim.record.variants import labels as called_by
from fedsim.results import Result
from fedsim.scenario import Plan


def called(plan: Plan) -> dict[str, str]:
    """Return what to call each variant of a plan."""
    return called_by({each.name: each.scenario.algorithm.kind for each in plan.variants})


def report(plan: Plan, result: Result) -> None:
    """Print the table of costs, draw the figure, and say where all of it is."""
    labels = called(plan)
    rounds = result.rounds
    target = result.summary["target"].max()
    if target > 0:
        costs = analysis.cost_to_target(rounds, target)
        title = f"{plan.name}: cost to a gap below {target:g}"
    else:
        costs = analysis.final_cost(rounds)
        title = f"{plan.name}: cost of the whole run"
    costs, labels = analysis.mean_cost(costs, list(labels)), marked(labels, result.seen)
    _out.print(analysis.cost_table(costs, labels, title))
    figure = result.folder / "convergence.png"
    analysis.save(analysis.convergence(rounds, labels, plan.name), figure)
    _out.print(
        f"event logs and tables in {escape(str(result.folder))}, figure {escape(str(figure))}"
    )
    for note in once(result.seen):
        _remark(note)
