"""Uncertain constants: values that the results of a study depend on, each with an interval.

Most are values of presets (see `fedsim.addons.robustness.uncertain_inputs`). Three kinds belong to
every study instead: the rates of a server's link differ from the advertised ones, tasks do not
reach the operations per second of the benchmark from which a device's speed is taken, and devices
of one model differ. Their keys name the block "network", "work" or "device"; see
`fedsim.addons.robustness.fleets`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import inf, log, nan, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fedsim.core.blocks.presets import Citation, Presettable
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.physics.networks import ServerLink
from fedsim.scenario import Group, Scenario


class ConstantKey(tuple[str, str, str]):
    """The key of a constant: block, preset and field.

    If a group of the fleet states the interval itself, the path of the group's block replaces the
    preset. If it states another value than its preset, that value follows the preset: it is another
    constant, to which the preset's interval does not apply.

    >>> str(ConstantKey(("radio", "lte", "tail_time")))
    'lte.tail_time'
    >>> str(ConstantKey(("radio", "fleet.0.radio", "up")))
    'fleet.0.radio.up'
    >>> str(ConstantKey(("device", "phone-mid=2000000.0", "speed")))
    'phone-mid.speed'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self[1].partition('=')[0]}.{self[2]}"


class UncertainConstant(NamedTuple):
    """A constant with the interval that contains it with a probability of 90 %.

    Attributes:
        key: its key.
        value, low, high: value and interval in the SI unit of the field.
        unit: the SI unit of the field.
        basis: "meas", "lit" or "est"; "given" for an interval of the user.
        source: the source of the interval, in words.
    """

    key: ConstantKey
    value: float
    low: float
    high: float
    unit: str
    basis: str
    source: str

    @property
    def positive(self) -> bool:
        """Whether it is sampled log-uniformly: the whole interval is above 0."""
        return self.low > 0

    def at(self, share: Array) -> Array:
        """Return quantiles at probabilities `share`, each in [0, 1].

        The distribution is log-uniform; a constant that may be zero is uniform.
        """
        if self.positive:
            # Log-uniform: equal probability for equal ratios.
            return np.asarray(np.exp(log(self.low) + share * (log(self.high) - log(self.low))))
        return np.asarray(self.low + share * (self.high - self.low))

    def share(self, value: float) -> float:
        """Return the probability below a value: the inverse of `at`."""
        if self.positive:
            return (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return (value - self.low) / (self.high - self.low)


FCC_2011 = Citation(
    "Federal Communications Commission",
    "Measuring Broadband America: most providers are within 20 % of the speed they advertise",
    2011,
    "docs.fcc.gov, DOC-308829A1",
)
ROOFLINE = Citation(
    "Williams, Waterman, Patterson",
    "Roofline: An Insightful Visual Performance Model for Multicore Architectures",
    2009,
    "Communications of the ACM 52(4), doi 10.1145/1498765.1498785",
)
SRINIVASA_2017 = Citation(
    "Srinivasa, Begum, Haseley, Hempstead, Challen",
    "Separated by Birth: Hidden Differences Between Seemingly-Identical Smartphone CPUs",
    2017,
    "HotMobile, pages 103-108",
)

FLOPS = ConstantKey(("work", "kernel", "flops"))
"""Factor on the operations of every task."""

_LINK = {"uplink": "bit/s", "downlink": "bit/s", "latency": "s"}
_RATES, _DELAYS, _KERNELS = (0.8, 1.2), (0.5, 2.0), (0.5, 2.0)
_SPREAD = 0.1
"""Devices of one model differ by up to 20 % in speed: the fastest is 10 % above the median, the
slowest 10 % below."""


def placed_groups(scenario: Scenario) -> Iterator[tuple[str, Group]]:
    """Yield the groups of the fleet, and the gateways of each tier, with their places."""
    for place, groups in (("fleet", scenario.fleet), ("tiers", scenario.tiers)):
        for number, group in enumerate(groups):
            yield f"{place}.{number}", group


def key_of(place: str, group: Group, name: str, field: str) -> ConstantKey:
    """Return the key of a constant of a group.

    Args:
        place: the place of the group in the scenario, such as "fleet.0".
        group: the group.
        name: the name of the block, such as "radio".
        field: the field of the block.
    """
    if f"{name}.{field}" in group.intervals:
        return ConstantKey((name, f"{place}.{name}", field))
    block = getattr(group, name)
    kind, value = block.kind, getattr(block, field)
    if isinstance(block, Presettable) and kind in block.presets:
        own = value == getattr(_preset(type(block), kind), field)
        kind = kind if own else f"{kind}={value}"
    return ConstantKey((name, kind, field))


@cache
def _preset(block: type[Presettable], kind: str) -> Presettable:
    """Return the block of a preset as it is, in SI units."""
    return block.model_validate({"kind": kind})


def is_measured(group: Group) -> bool:
    """Return whether the scenario states an interval for this group's own speed at this work."""
    return bool({"device.speed", "device.frequency"} & group.intervals.keys())


def server(field: str) -> ConstantKey:
    """Return the key of a constant of the server's link."""
    return ConstantKey(("network", "server", field))


def spread(device: str) -> ConstantKey:
    """Return the key of the spread among devices of a kind."""
    return ConstantKey(("device", device, "spread"))


def general(scenarios: Sequence[Scenario]) -> Iterator[UncertainConstant]:
    """Yield the constants outside presets that have the same value in all scenarios.

    Args:
        scenarios: the scenarios of all variants, which the recursion can price.
    """
    for field, unit in _LINK.items():
        links = [getattr(scenario.network, "server", None) for scenario in scenarios]
        values = {getattr(link, field, 0.0) for link in links}
        # A rate that differs between variants is a design choice, not an uncertainty.
        if len(values) == 1 and 0.0 < (value := float(values.pop())) < inf:
            low, high = (value * share for share in (_DELAYS if unit == "s" else _RATES))
            yield UncertainConstant(server(field), value, low, high, unit, "lit", str(FCC_2011))
    groups = [group for scenario in scenarios for group in scenario.fleet if not is_measured(group)]
    # A device whose speed is not constant, or infinite, has no operations per second that could be
    # overstated.
    if any(group.device.constant not in {None, inf} for group in groups):
        yield UncertainConstant(FLOPS, 1.0, *_KERNELS, "", "est", str(ROOFLINE))
    fleets = [_counts(scenario) for scenario in scenarios]
    for kind in sorted({kind for fleet in fleets for kind, count in fleet.items() if count > 1}):
        yield UncertainConstant(spread(kind), 0.0, 0.0, _SPREAD, "", "meas", str(SRINIVASA_2017))


def parse_interval(constant: UncertainConstant, text: str) -> UncertainConstant:
    """Return a constant with the user's interval, such as "0.8..1.5" or "1 ms..9 ms".

    Raises:
        DataError: it is not an interval.
    """
    first, dots, second = text.partition("..")
    field = constant.key[2]
    try:
        if constant.unit:
            low, high = (
                # Validated as the scenario would, with its units.
                float(getattr(ServerLink.model_validate({field: end.strip()}), field))
                for end in (first, second)
            )
        else:
            low, high = float(first), float(second)
    except ValueError:
        low = high = nan
    # 5e-324 is the smallest positive number: a log-uniform constant has to stay above 0.
    least = 0.0 if constant.low == 0.0 else 5e-324
    if not (dots and least <= low < high < inf):
        wanted = f"{constant.low:g} {constant.unit}".strip(), f"{constant.high:g} {constant.unit}"
        example = f"{constant.key}={wanted[0]}..{wanted[1].strip()}"
        text = f"got {constant.key}={text}; expected an interval such as {example}"
        raise DataError("interval", f"--interval: {text}")
    return constant._replace(low=low, high=high, basis="given", source="--interval")


def _counts(scenario: Scenario) -> Counter[str]:
    """Return the number of clients per kind of device whose work takes time."""
    counts = Counter[str]()
    for group in scenario.fleet:
        # Devices without work time have no spread.
        if group.device.seconds(1.0, 1.0) > 0.0 and not is_measured(group):
            counts[group.device.kind] += group.count
    return counts


def scores(count: int) -> Array:
    """Return a score for each device of a kind, shape (count,).

    A device takes exp(spread * score) times as long as its preset states. The scores are normal
    quantiles at evenly spaced probabilities, scaled to a maximum of 1, in a fixed pseudo-random
    order: the spread is uncertain, but which device is the slowest is not sampled.
    """
    if count < 2:
        return np.zeros(count)
    # Midpoints of equal shares of probability.
    shares = (np.arange(count) + 0.5) / count
    # Scaled by the largest, so that the spread is that of the extreme devices, whatever their
    # number.
    quantiles = np.asarray(ndtri(shares)) / float(ndtri(shares[-1]))
    golden = (sqrt(5.0) - 1.0) / 2.0  # a low-discrepancy order: neighbours get distant scores
    return np.asarray(quantiles[np.argsort(np.argsort((np.arange(count) * golden) % 1.0))])
