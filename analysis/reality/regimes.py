"""How far was a model off from packets in cases like those of a scenario?

The cases of the table of `run.py`, divided by what decides the error: random losses, one message or
many at once, its size, and whether first windows fit the queue; and cells of Wi-Fi by transport.
`fedsim.results.accuracy` has the figures of these regimes, which a check and a report state. All of
it follows from the errors that are stored: nothing is simulated here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, Protocol

import kept
import kernel
import numpy as np
import packets
import transfers
import wifi

from fedsim.results import accuracy
from fedsim.results.accuracy import Range, between, percent

HEAD = (
    "| model | cases | held against | number | median | nine of ten | worst | messages at once |"
    " of | narrowest link | round trips |"
)

NAMES = {
    "fluid": "`fluid`",
    "lv08": "`lv08`",
    "ns-3": "`tcp`, `stack: ns-3`",
    "linux": "`tcp`",
    "wifi": "`wifi`",
    "fluid, kept": "`fluid`, kept connections",
    "lv08, kept": "`lv08`, kept connections",
    "linux, kept": "`tcp`, kept connections",
    "ns-3, kept": "`tcp`, `stack: ns-3`, kept connections",
}
"""What a scenario says for each model."""

_SITUATIONS = {
    "one flow, up to 1 MB": accuracy.SMALL,
    "one flow, above 1 MB": accuracy.LARGE,
    "many flows, first windows fit a queue": accuracy.FIT,
    "many flows, first windows overflow a queue": accuracy.OVERFLOW,
}


class Held(NamedTuple):
    """The errors of a model in the cases of a regime, and what these cases are.

    Attributes:
        errors: of each, relative.
        flows: the least and the most messages at once.
        bytes: of a message.
        rates: of the narrowest link on the way, bit/s; None for Wi-Fi.
        trips: round trips without queues, s; None for Wi-Fi.
    """

    errors: Sequence[float]
    flows: Range
    bytes: Range
    rates: Range | None
    trips: Range | None


Pair = tuple[packets.Case, float]
"""A case of TCP, and its error."""


def narrowest(case: packets.Case) -> float:
    """Return the rate of the narrowest link on the way of a message, bit/s."""
    rates: list[float] = [case.rate, case.own_rate]
    return min([*rates, case.gateway_rate] if case.gateways else rates)


def _range(values: Iterable[float]) -> Range:
    found = list(values)
    return min(found), max(found)


def _held(pairs: Sequence[Pair]) -> Held:
    cases = [case for case, _ in pairs]
    return Held(
        [error for _, error in pairs],
        _range(case.flows for case in cases),
        _range(case.bytes for case in cases),
        _range(map(narrowest, cases)),
        _range(2 * (case.delay + own) for case in cases for own in case.own_delays),
    )


def _groups(
    model: str, clean: Sequence[Pair], lossy: Sequence[Pair]
) -> Mapping[str, Sequence[Pair]]:
    """Return the cases of a model by regime."""
    found: dict[str, list[Pair]] = {accuracy.CLEAN: [*clean], accuracy.LOSSES: [*lossy]}
    for case, error in clean:
        regime = _SITUATIONS[transfers.situation(case)]
        if case.flows == 1 and cases_of(model) is not ns3_cases:
            regime = accuracy.ONE  # too few of each size
        elif model.startswith(("fluid", "lv08")) and case.flows > 1:
            regime = accuracy.MANY  # they know no queue
        found.setdefault(regime, []).append((case, error))
    return found


def of_tcp(
    model: str, clean: Sequence[float], lossy: Sequence[float] = ()
) -> Iterator[tuple[str, Held]]:
    """Yield the regimes of a model and their cases.

    Args:
        model: fluid, lv08, ns-3 or linux: the last two are `tcp` with that stack; with ", kept"
            over kept connections.
        clean: its errors in the cases without random losses, in their order.
        lossy: its errors in those with them.
    """
    both = (clean, False), (lossy, True)
    cases = cases_of(model)
    pairs = [[*zip(cases(losing=losing), errors, strict=True)] for errors, losing in both]
    for regime, found in _groups(model, *pairs).items():
        if found:
            yield regime, _held(found)


class Cases(Protocol):
    """What has the cases of a reference that no model was made with."""

    def __call__(self, *, losing: bool) -> Sequence[packets.Case]:
        """Return those with random losses, or those without."""
        ...


def cases_of(model: str) -> Cases:
    """Return what finds the cases that a model was compared in."""
    if model.endswith("kept"):
        return kept_cases
    return linux_cases if model == "linux" else ns3_cases


def ns3_cases(*, losing: bool) -> Sequence[packets.Case]:
    """Return the cases of ns-3's that no model was made with."""
    if not losing:
        return [case for name, case, _, _ in packets.read() if name == packets.UNSEEN]
    return [
        case
        for name, case, ends in packets.read_losses()
        if name == packets.UNSEEN and any(map(isfinite, ends))
    ]


def linux_cases(*, losing: bool) -> Sequence[packets.Case]:
    """Return the cases of Linux's that no model was made with."""
    cases = [
        kernel.draw(kernel.SETS[name], number)
        for name in kernel.UNSEEN
        for number in kernel.read(name)
    ]
    return [case for case in cases if (case.loss > 0) == losing]


def kept_cases(*, losing: bool) -> Sequence[packets.Case]:
    """Return the stars of rounds over Linux's kept connections; none loses packets at random."""
    numbers = kept.read(kept.UNSEEN) if not losing else ()
    return [kept.drawn(kept.SETS[kept.UNSEEN], number).star for number in numbers]


def of_wifi(errors: Sequence[float]) -> Iterator[tuple[str, Held]]:
    """Yield the regimes of Wi-Fi and their cases, by the errors of all in their order."""
    cases = [case for name, case, _ in wifi.read() if name == "held-out"]
    groups: dict[str, list[tuple[wifi.Case, float]]] = {}
    for case, error in zip(cases, errors, strict=True):
        one = case.stations == 1
        many = accuracy.TCP if case.transport == "tcp" else accuracy.UDP
        groups.setdefault(accuracy.ONE if one else many, []).append((case, error))
    for regime, found in groups.items():
        yield (
            regime,
            Held(
                [error for _, error in found],
                _range(case.stations for case, _ in found),
                _range(case.bytes for case, _ in found),
                None,
                None,
            ),
        )


def lines(found: Iterable[tuple[str, str, Held]]) -> Iterator[str]:
    """Yield the lines of the table, by model, regime and cases."""
    yield HEAD
    yield "|---" * HEAD.count(" |") + "|"
    for model, regime, held in found:
        sizes = 100 * np.abs(held.errors)
        errors = map(percent, (np.median(sizes), np.quantile(sizes, 0.9), sizes.max()))
        cells = [NAMES[model], regime, accuracy.REFERENCES[model], str(len(sizes)), *errors]
        low, high = held.flows
        cells += ["1" if high == 1 else f"{low:g} to {high:g}"]
        cells += [between(held.bytes, "B")]
        cells += ["" if held.rates is None else between(held.rates, "bit/s")]
        cells += ["" if held.trips is None else between(held.trips, "s")]
        yield f"| {' | '.join(cells)} |"
