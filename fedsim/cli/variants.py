"""In what the variants of a plan differ, as a table for people."""

from rich.table import Table

from fedsim.record.scenarios import NOTHING, differing, shown
from fedsim.scenario import Plan, Scenario
from fedsim.tables import listing

LEFT_OUT = (
    "Left out of these costs: the server's computing and energy, what the observer computes, and "
    "whatever a device does beside the method."
)

_MANY = 6  # values of a variant that are told

IN_FULL = 6
"""Of more variants only the first one is shown in full."""


def differences(plan: Plan) -> Table:
    """Return in which values each variant differs from the first one."""
    first, *others = plan.variants
    rows = [(first.name, "")]
    for variant in others:
        values = [
            f"no {key}" if seen == NOTHING else f"{key}: {shown(seen)}"
            for key, _, seen in differing(_plain(first.scenario), _plain(variant.scenario))
        ]
        more = [f"and {len(values) - _MANY} more"] if len(values) > _MANY else []
        rows.append((variant.name, ", ".join([*values[:_MANY], *more]) or "nothing"))
    return listing("variants", ("variant", f"differs from {first.name} in"), rows)


def _plain(scenario: Scenario) -> object:
    return scenario.model_dump(mode="json", exclude={"variants", "sweep"})
