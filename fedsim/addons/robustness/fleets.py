"""Fleets in many worlds: the properties of clients as arrays of clients x worlds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.addons.robustness.blocks_in_worlds import (
    DeviceFigures,
    RadioFigures,
    device_figures,
    radio_figures,
)
from fedsim.addons.robustness.constants import (
    FLOPS,
    ConstantKey,
    is_measured,
    key_of,
    scores,
    server,
    spread,
)
from fedsim.addons.robustness.loads import Numbers
from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_TIMES
from fedsim.core.ports import Array
from fedsim.physics.carbon import GridCarbon
from fedsim.physics.networks import StarNetwork
from fedsim.physics.radios.stages import STAGE
from fedsim.results.record.emissions import KILOWATT_HOUR
from fedsim.scenario import Group, Scenario

World = Mapping[ConstantKey, Array]
"""Values of constants in W worlds, each of shape (W,). Other constants are as in the scenario."""


@dataclass(frozen=True)
class Lanes:
    """One direction of all radios.

    Attributes:
        rate: the rate, bit/s, shape (n, W).
        latency: the one-way latency of radio and route, s, shape (n, W).
        per_bit: the energy per bit, J/bit, including the power during its time on air, shape (n,
            W).
        power: the power during a message beyond idle power, W, shape (n, W).
        capacity: the capacity of the shared link, bit/s, shape (W,) or a number.
        contended: whether the link can be the bottleneck in any world.
    """

    rate: Array
    latency: Array
    per_bit: Array
    power: Array
    capacity: float | Array
    contended: bool


@dataclass(frozen=True)
class Clients:
    """Clients in each world; arrays are of shape (n, W).

    Attributes:
        idle: power of device and radio at rest, W.
        working: power of the device at work, beyond idle power, W.
        per_operation, per_sample: time of one operation, or of one sample, s.
        stages: the stages of radios, records of shape (n, W, stages).
        stateful: whether any radio has stages.
        paged: whether any radio cannot be reached at all times.
        reserve: energy that a battery can deliver before it reaches a mark, J; infinite on mains.
        leak: the self-discharge of that energy, W.
        emitted: grams of CO2 per joule, 0 for clients without `carbon`; None if they depend on the
            time of day, or no client has `carbon`.
        down, up: the two directions.
    """

    idle: Array
    working: Array
    per_operation: Array
    per_sample: Array
    stages: NDArray[np.void]
    stateful: bool
    paged: bool
    reserve: Array
    leak: Array
    emitted: Array | None
    down: Lanes
    up: Lanes

    def of(self, ids: Numbers | slice) -> "Clients":
        """Return some of the clients."""
        return self if isinstance(ids, slice) else _part(self, ids)


def _part(whole: Any, ids: Numbers) -> Any:
    """Return some rows of each array of clients or lanes."""
    changed: dict[str, object] = {}
    for field in fields(whole):
        value = getattr(whole, field.name)
        if isinstance(value, np.ndarray) and value.ndim > 1:  # 1-d arrays are of the shared link
            changed[field.name] = value[ids]
        elif isinstance(value, Lanes):
            changed[field.name] = _part(value, ids)
    return replace(whole, **changed)


def unplayable(scenario: Scenario) -> str:
    """Return the first setting that `clients_of` cannot express; empty if there is none.

    The recursion needs deterministic laws with constant parameters.
    """
    network = scenario.network
    if type(network) is not StarNetwork or network.peers is not None:
        return "network.topology: clients are not around one server"
    if scenario.tiers:
        return "tiers: gateways have rounds of their own with those below them"
    if network.server.discipline != "fair":
        return f"network.server.discipline: {network.server.discipline}"
    return str(next(reasons(scenario, OF_TIMES), ""))


def clients_of(scenario: Scenario, groups: Sequence[Group], world: World, worlds: int) -> Clients:
    """Return the clients of a scenario for which `unplayable` is empty.

    Args:
        scenario: the scenario, of which the network is used.
        groups: the groups of its fleet, or one group of ideal clients if it has none.
        world: see `World`.
        worlds: the number of worlds, W.
    """
    # Computed per group, as its clients have equal constants, and expanded to clients below.
    known = [_GroupInWorlds(*place, world, worlds) for place in _places(groups)]
    counts = [group.count for group in groups]

    def by_client(constant: Callable[[_GroupInWorlds], float | Array]) -> Array:
        """Expand a constant of groups to clients, shape (n, W)."""
        rows = [np.broadcast_to(constant(group), worlds) for group in known]
        return np.repeat(np.array(rows), counts, axis=0)

    # Rates and latency of the server may be uncertain, too.
    link = scenario.network.server  # type: ignore[attr-defined]  # it is a star

    def of_server(field: str) -> float | Array:
        sampled = world.get(server(field))
        return float(getattr(link, field)) if sampled is None else sampled

    def lanes(direction: int, capacity: float | Array) -> Lanes:
        # Direction 0 is down, 1 is up.
        rate = by_client(lambda group: group.radio.rates[direction])
        return Lanes(
            rate,
            by_client(lambda group: group.radio.latency) + of_server("latency"),
            by_client(lambda group: group.radio.per_bit[direction]),
            by_client(lambda group: group.radio.held),
            capacity,
            # If all radios together fit into the link in every world, it is never the bottleneck.
            bool((rate.sum(axis=0) > capacity).any()),
        )

    # Differences between devices multiply all work times.
    slower = _slower(groups, world, worlds)
    stages = _stages(known, counts, worlds)
    passing, rest = stages[..., :-1], stages[..., -1]
    return Clients(
        idle=by_client(lambda group: group.device.idle + group.radio.idle),
        working=by_client(lambda group: group.device.working),
        per_operation=by_client(lambda group: group.per_operation) * slower,
        per_sample=by_client(lambda group: group.device.per_sample) * slower,
        stages=stages,
        stateful=any(
            figure.any() for figure in (passing["time"], rest["wake_time"], rest["cycle"])
        ),
        paged=bool(stages["cycle"].any()),
        reserve=by_client(lambda group: group.reserve),
        leak=by_client(lambda group: group.leak),
        emitted=by_client(lambda group: group.emission_rate) if counts_grams(groups) else None,
        down=lanes(0, of_server("downlink")),
        up=lanes(1, of_server("uplink")),
    )


def _places(groups: Sequence[Group]) -> Iterator[tuple[str, Group]]:
    """Yield groups of the fleet with their places in the scenario."""
    for number, group in enumerate(groups):
        yield f"fleet.{number}", group


def _stages(
    known: Sequence["_GroupInWorlds"], counts: Sequence[int], worlds: int
) -> NDArray[np.void]:
    """Return the stages of all clients, records of shape (n, W, stages)."""
    longest = max(len(group.radio.stages) for group in known)
    records = np.empty((len(known), worlds, longest), STAGE)
    for row, group in zip(records, known, strict=True):
        # Padded to equal numbers of stages, which an array needs.
        for place, figures in enumerate(group.radio.pad_stages(longest).stages):
            for name, figure in zip(STAGE.fields or (), figures, strict=True):
                row[name][:, place] = figure
    return np.repeat(records, counts, axis=0)


def counts_grams(groups: Sequence[Group]) -> bool:
    """Return whether grams of CO2 can be computed: all known intensities are constant.

    With an intensity from a file they depend on when a joule is drawn, which the recursion drops.
    """
    # Clients without an intensity count as 0, unless no client has one.
    known = [group.carbon for group in groups if group.carbon is not None]
    return bool(known) and all(type(carbon) is GridCarbon for carbon in known)


def _slower(groups: Sequence[Group], world: World, worlds: int) -> Array:
    """Return the factor on each client's work times, shape (n, W) or ()."""
    if not any(spread(group.device.kind) in world for group in groups):
        return np.ones(())
    # Deviations are drawn for the devices of the whole fleet, kind by kind; see `constants.scores`.
    counts = Counter[str]()
    # A group with a measured speed has no spread: the interval of its speed includes it.
    for group in groups:
        if not is_measured(group):
            counts[group.device.kind] += group.count
    rest = {kind: scores(count) for kind, count in counts.items()}
    rows = list[Array]()
    # Quantile scores are assigned within a device kind, not within a group: a fleet that is split
    # into more groups has the same devices.
    for group in groups:
        kind = group.device.kind
        if is_measured(group):
            rows.append(np.ones((group.count, worlds)))
            continue
        assigned, rest[kind] = rest[kind][: group.count], rest[kind][group.count :]
        rows.append(np.exp(assigned[:, None] * world.get(spread(kind), np.zeros(worlds))))
    return np.vstack(rows)


def overheads(groups: Sequence[Group], world: World, worlds: int) -> NDArray[np.int64] | None:
    """Return the framing per packet of each client, whole bytes, shape (n, W).

    None if it is not among the uncertain constants.
    """
    if not any(key_of(*place, "radio", "framing") in world for place in _places(groups)):
        return None
    rows = [_GroupInWorlds(*place, world, worlds).framing for place in _places(groups)]
    # By client, as the number of packets differs between messages.
    return np.repeat(np.array(rows), [group.count for group in groups], axis=0)


class _GroupInWorlds:
    """The constants of a group, each a number or a column of shape (W,).

    Args:
        place: the place of the group in the scenario.
        group: the group.
        world: see `World`.
        worlds: the number of worlds, W.
    """

    def __init__(self, place: str, group: Group, world: World, worlds: int) -> None:
        self._place = place
        self._group = group
        self._world = world
        self._worlds = worlds

    def _columns(self, name: str) -> dict[str, Array]:
        """Return the uncertain constants of a block by field."""
        block = getattr(self._group, name)
        keys = {
            field: key_of(self._place, self._group, name, field)
            for field in type(block).model_fields
        }
        # Only sampled constants: the block itself has the others.
        return {field: self._world[key] for field, key in keys.items() if key in self._world}

    @cached_property
    def device(self) -> DeviceFigures:
        """The constants of the device."""
        return device_figures(self._group.device, self._columns("device"), self._worlds)

    @cached_property
    def radio(self) -> RadioFigures:
        """The constants of the radio."""
        return radio_figures(self._group.radio, self._columns("radio"), self._worlds)

    @property
    def framing(self) -> NDArray[np.int64]:
        """The framing per packet, whole bytes, shape (W,)."""
        overhead = self._group.radio.packaging.overhead
        overheads = self._columns("radio").get("framing", np.full(self._worlds, overhead))
        # A scenario states whole bytes, so a sampled overhead is rounded down, as in
        # `pricing._write`.
        return np.floor(overheads).astype(np.int64)

    @property
    def per_operation(self) -> float | Array:
        """Seconds per operation, at the speed that work of this kind reaches."""
        nominal = self.device.per_operation
        return nominal if is_measured(self._group) else nominal * self._world.get(FLOPS, 1.0)

    @property
    def emission_rate(self) -> float | Array:
        """Grams of CO2 per joule; 0 if the source of electricity is unknown."""
        if self._group.carbon is None:
            return 0.0
        intensity: float = self._group.carbon.intensity  # type: ignore[attr-defined]  # it is constant
        return self._columns("carbon").get("intensity", intensity) / KILOWATT_HOUR

    @property
    def reserve(self) -> float | Array:
        """The energy that the battery can deliver before it reaches a mark, J."""
        battery = self._group.battery
        if battery is None:
            return inf
        # Threshold and cut-off are marks: below either one a client stops, which the recursion
        # cannot express. So the reserve ends at the higher mark.
        share = battery.charge - max(battery.threshold, battery.cutoff)
        return battery.holds(self.device.battery) * share * battery.discharge_efficiency

    @property
    def leak(self) -> float | Array:
        """The self-discharge of that energy, W."""
        battery = self._group.battery
        if battery is None:
            return 0.0
        return battery.leak(battery.holds(self.device.battery)) * battery.discharge_efficiency
