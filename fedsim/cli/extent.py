"""What a whole plan comes to: how many runs, how long, in what its variants differ, their costs."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from fedsim.building import Job
from fedsim.protocol.stopping import Stop
from fedsim.record.scenarios import NOTHING, differing, shown
from fedsim.running.probe import Opening
from fedsim.scenario import Plan, Scenario
from fedsim.tables import listing, quantity

LEFT_OUT = (
    "Left out of these costs: the server's computing and energy, what the observer computes, and "
    "whatever a device does beside the method."
)

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MANY = 6  # values of a variant that are told

IN_FULL = 6
"""Of more variants only the first one is shown in full."""


def extent(plan: Plan, openings: Mapping[str, Opening], building: float) -> str:
    """Return how many runs there are, and how long they take on this machine, one by one.

    Args:
        plan: what is asked for.
        openings: how the runs of each variant begin.
        building: seconds that the variants took to be built under one seed.
    """
    counts = [len(variant.seeds) for variant in plan.variants]
    seeds = f"{counts[0]} seed{'s' * (counts[0] > 1)}" if len({*counts}) == 1 else "their seeds"
    variants = f"{len(counts)} variant{'s' * (len(counts) > 1)}"
    runs = f"{sum(counts)} run{'s' * (sum(counts) > 1)}"
    seconds = building * max(counts) + sum(
        openings[variant.name].real * variant.scenario.stop.rounds * count
        for variant, count in zip(plan.variants, counts, strict=True)
    )
    early = any(_may_end_early(variant.scenario.stop) for variant in plan.variants)
    unless = ", if no rule ends one before stop.rounds" if early else ""
    return f"{plan.name}: {variants} x {seeds} = {runs}, {duration(seconds)}{unless}"


def _may_end_early(stop: Stop) -> bool:
    """Say whether a run may be over before its last round."""
    others = (stop.time, stop.bits, stop.energy, stop.batteries)
    return bool(stop.targets) or any(rule is not None for rule in others)


def duration(seconds: float) -> str:
    """Return a duration of real time as people say it.

    >>> duration(0.2), duration(45), duration(700), duration(7200), duration(1e6)
    ('a second', 'about 45 s', 'about 12 minutes', 'about 2 hours', 'about 12 days')
    """
    if seconds < 1:
        return "a second"
    if seconds < 2 * _MINUTE:
        return f"about {seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"about {seconds / _MINUTE:.0f} minutes"
    if seconds < 2 * _DAY:
        return f"about {seconds / _HOUR:.0f} hours"
    return f"about {seconds / _DAY:.0f} days"


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


def costs(jobs: Sequence[Job], openings: Mapping[str, Opening]) -> Table:
    """Return what the last of the first rounds costs all clients, a row a variant."""
    rows = []
    for job in jobs:
        name, rounds = job.variant.name, openings[job.variant.name].rounds
        if rounds:
            cost = rounds[-1]
            spent = cost.traffic
            figures = [quantity(cost.seconds, "s"), quantity(spent.joules, "J")]
            figures += [quantity(spent.bits_down, "bit"), quantity(spent.bits_up, "bit")]
            rows.append((name, str(len(rounds)), *figures, f"{spent.cohort:,}"))
        else:
            rows.append((name, "none", *[""] * 5))
    heads = ("variant", "round", "time", "energy", "bits down", "bits up", "asked")
    return listing("costs of a round, all clients", heads, rows)


def _plain(scenario: Scenario) -> object:
    return scenario.model_dump(mode="json", exclude={"variants", "sweep"})
