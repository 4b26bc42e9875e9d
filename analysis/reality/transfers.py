"""How far is fedsim from packets?

    python analysis/reality/transfers.py             the errors against what ns-3 said once
    python analysis/reality/transfers.py simulate    the same after asking ns-3 anew (hours)

The error of a case is that of the time at which the last of its messages has arrived, relative to
ns-3's: positive where the model is too slow. Where losses are random there are two: of the median
over the seeds, and of the time that nine of ten stay below.

Where a microsecond decides, ns-3's own times differ by more than a tenth where delays vary within
one: what is left then is chance. These cases have a row, and all others do.
"""

import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np
import packets
from packets import Sharing
from stored import asked_for

KINDS = (
    "one flow",
    "many flows",
    "no losses",
    "no losses, a microsecond decides",
    "no losses, all others",
    "random losses: median",
    "random losses: 9 of 10",
)

SHARES = (0.5, 0.9)
"""The quantiles over the seeds that are compared."""

RESAMPLES = 200

SETS = tuple(packets.SETS)


Error = tuple[str, str, packets.Case, float]
"""The set, the row of the table, the case, and the relative error."""


def errors(model: Sharing, sets: Collection[str] = SETS) -> Iterator[Error]:
    """Yield the errors of a model on some sets of cases."""
    decided = packets.decided()
    for name, case, seed, times in packets.read():
        if name in sets:
            error = max(packets.by_fedsim(case, model, seed)) / max(times) - 1.0
            which = 3 if (name, case) in decided else 4
            for kind in (KINDS[case.flows > 1], KINDS[2], KINDS[which]):
                yield name, kind, case, error
    for name, case, ends in packets.read_losses():
        if name not in sets or not any(map(isfinite, ends)):
            continue
        seeds = [seed for seed, end in enumerate(ends) if isfinite(end)]
        # Only `tcp` has seeds, for only it has losses of packets.
        ours = [max(packets.by_fedsim(case, model, n)) for n in (seeds if model == "tcp" else [0])]
        for kind, share in zip(KINDS[5:], SHARES, strict=True):
            theirs = np.quantile([ends[seed] for seed in seeds], share)
            yield name, kind, case, float(np.quantile(ours, share) / theirs - 1.0)


def itself(sets: Collection[str] = SETS) -> Iterator[Error]:
    """Yield how far two samples of ns-3's runs are apart: the root mean square over resamples."""
    for name, case, ends in packets.read_losses():
        if name not in sets or not any(map(isfinite, ends)):
            continue
        rng, runs = np.random.default_rng(0), np.array([end for end in ends if isfinite(end)])
        for kind, share in zip(KINDS[5:], SHARES, strict=True):
            drawn = np.quantile(rng.choice(runs, (2, RESAMPLES, len(runs))), share, axis=2)
            apart = np.sqrt(np.mean((drawn[0] / drawn[1] - 1.0) ** 2))
            yield name, kind, case, float(apart)


def situation(case: packets.Case) -> str:
    """Return in which of the situations a case is that models differ in."""
    if case.flows == 1:
        return "one flow, above 1 MB" if case.bytes > 1e6 else "one flow, up to 1 MB"
    windows = case.flows * min(10, -(-case.bytes // packets.SEGMENT))
    fits = windows <= case.queue or case.discipline == "fq_codel"
    return f"many flows, first windows {'fit' if fits else 'overflow'} a queue"


def report() -> None:
    """Print the tables: what to take when, and all models, sets and kinds of cases."""
    every = {model: list(errors(model)) for model in packets.MODELS}
    _report_situations(every)
    print("\n| model | set | cases | number | mean | median | 9 of 10 | worst |")
    print("|---|---|---|---|---|---|---|---|")
    for model, each in every.items():
        _report_rows(f"`{model}`", each)
    _report_rows("ns-3 itself", list(itself()))


def _report_rows(model: str, each: Sequence[Error]) -> None:
    """Print the rows of a model, by set and kind of cases."""
    found: dict[tuple[str, str], list[float]] = {}
    for name, kind, _, error in each:
        found.setdefault((name, kind), []).append(error)
    for name in SETS:
        for kind in KINDS:
            if (name, kind) in found:
                print(f"| {model} | {name} | {kind} | {packets.summary(found[name, kind])} |")


def _report_situations(every: Mapping[Sharing, Sequence[Error]]) -> None:
    """Print the median and nine of ten of the sizes of errors, unseen, without random losses."""
    found: dict[tuple[str, Sharing], list[float]] = {}
    for model, each in every.items():
        for name, kind, case, error in each:
            if name == packets.UNSEEN and kind == "no losses":
                found.setdefault((situation(case), model), []).append(abs(error))
    print(f"| {packets.UNSEEN}, without random losses | cases | `{'` | `'.join(packets.MODELS)}` |")
    print("|---|---|" + "---|" * len(packets.MODELS))
    for where in sorted({where for where, _ in found}):
        cells = [
            f"{100 * np.median(sizes):.1f} % ({100 * np.quantile(sizes, 0.9):.0f} %)"
            for sizes in [found[where, model] for model in packets.MODELS]
        ]
        print(f"| {where} | {len(found[where, packets.MODELS[0]])} | {' | '.join(cells)} |")


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after a simulation if that is asked for."""
    if asked_for(arguments, "simulate"):
        with tempfile.TemporaryDirectory() as folder:
            packets.write(packets.compile_ns3(Path(folder)))
    report()


if __name__ == "__main__":
    main(sys.argv[1:])
