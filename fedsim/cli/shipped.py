"""The scenarios that come with fedsim, as a table for people."""

from rich.table import Table

from fedsim.problems import Catalogue
from fedsim.scenario import Plan, load
from fedsim.scenario.examples import examples
from fedsim.tables import listing


def examples_table() -> Table:
    """Return the examples with their questions, how many runs they are and what data they need."""
    plans = {name: load(file) for name, file in examples().items()}
    rows = [
        (name, plan.variants[0].question, str(_runs(plan)), ", ".join(_fetched(plan)))
        for name, plan in plans.items()
    ]
    return listing("examples", ("name", "question", "runs", "data to fetch"), rows)


def _runs(plan: Plan) -> int:
    return sum(len(variant.seeds) for variant in plan.variants)


def _fetched(plan: Plan) -> list[str]:
    """Return the names of the data sets that do not come with fedsim."""
    problem = plan.variants[0].scenario.problem
    parts = [each for each in (problem.data, problem.test) if isinstance(each, Catalogue)]
    return list(dict.fromkeys(part.name for part in parts))
