"""The scenario: as the first variant had it, and where the others differ."""

from fedsim.record.scenarios import differing, flat, shown
from fedsim.report.parts import Table, words
from fedsim.report.study import Study


def differences(study: Study) -> Table | None:
    """Return the values in which variants differ from the one they are compared with, if any."""
    rows = [
        words(study.labels[variant], key, shown(held), shown(seen))
        for variant, run in study.variants.items()
        for key, held, seen in differing(study.first.scenario, run.scenario)
    ]
    if not rows:
        return None
    first = study.labels[study.first.variant]
    heads = ("variant", "key", f"in {first}", "in the variant")
    return Table(f"Where the variants differ from {first}", heads, rows)


def parameters(study: Study) -> Table:
    """Return the parameters of the methods, as they were worked out for the problem."""
    rows = [
        words(study.labels[variant], name, _figure(value))
        for variant, run in study.variants.items()
        for name, value in flat(run.summary.get("parameters", {}))
        if name
    ]
    return Table("Parameters, worked out", ("variant", "parameter", "value"), rows)


def concerns(study: Study) -> Table | None:
    """Return what the theory of the methods does not cover; None where there is nothing."""
    rows = [
        words(study.labels[variant], concern)
        for variant, run in study.variants.items()
        for concern in run.summary.get("concerns", ())
    ]
    return Table("Beyond theory", ("variant", "what does not hold"), rows) if rows else None


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else shown(value)
