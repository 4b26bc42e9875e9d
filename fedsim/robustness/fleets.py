"""Fleets in many worlds: the properties of clients as arrays of clients x worlds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any

import numpy as np

from fedsim.physics.carbon import GridCarbon
from fedsim.physics.devices import Device
from fedsim.physics.networks import StarNetwork
from fedsim.physics.radios import NarrowbandRadio, Radio, StagedRadio
from fedsim.ports import Array
from fedsim.record.emissions import KILOWATT_HOUR
from fedsim.robustness.constants import (
    FLOPS,
    ConstantKey,
    is_measured,
    key_of,
    scores,
    server,
    spread,
)
from fedsim.robustness.loads import Numbers
from fedsim.scenario import Group, Scenario

World = Mapping[ConstantKey, Array]
"""Values of constants in W worlds, each of shape (W,); others are as in the scenario."""


@dataclass(frozen=True)
class Lanes:
    """One direction of all radios.

    Attributes:
        rate: bit/s, shape (n, W).
        latency: of radio and route, one way, s, shape (n, W).
        per_bit: J/bit, including the power during its time on air, shape (n, W).
        power: during a message, beyond idle power, W, shape (n, W).
        capacity: of the shared link, bit/s, shape (W,) or a number.
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
        tail_power, tail_time, promotion_power, promotion_time: see `fedsim.physics.radios`.
        reserve: energy that a battery can deliver before it reaches a mark, J; infinite on mains.
        stateful: whether any radio has states.
        emitted: grams of CO2 per joule, 0 for clients without `carbon`; None if they depend on the
            time of day, or no client has `carbon`.
        down, up: the two directions.
    """

    idle: Array
    working: Array
    per_operation: Array
    per_sample: Array
    tail_power: Array
    tail_time: Array
    promotion_power: Array
    promotion_time: Array
    reserve: Array
    stateful: bool
    emitted: Array | None
    down: Lanes
    up: Lanes

    def of(self, ids: Numbers | slice) -> "Clients":
        """Return some of them."""
        return self if isinstance(ids, slice) else _part(self, ids)


def _part(whole: Any, ids: Numbers) -> Any:  # noqa: ANN401 - clients or lanes
    """Return the rows of some clients of each array."""
    changed: dict[str, object] = {}
    for field in fields(whole):
        value = getattr(whole, field.name)
        if (
            isinstance(value, np.ndarray) and value.ndim == 2
        ):  # one-dimensional ones are of the shared link
            changed[field.name] = value[ids]
        elif isinstance(value, Lanes):
            changed[field.name] = _part(value, ids)
    return replace(whole, **changed)


def unplayable(scenario: Scenario) -> str:
    """Return the first setting of a scenario that `clients_of` cannot express; empty if none.

    The recursion needs deterministic laws with constant parameters.
    """
    network = scenario.network
    if type(network) is not StarNetwork or network.peers is not None:
        return "network.topology: clients are not around one server"
    if scenario.tiers:
        return "tiers: gateways have rounds of their own with those below them"
    if network.server.discipline != "fair":
        return f"network.server.discipline: {network.server.discipline}"
    if network.model != "fluid":
        return f"network.model: {network.model}"
    shared = {
        "wifi: what a message takes of the air depends on what else is sent": network.wifi,
        "cell: what a client has of its cell depends on what else is sent": network.cell,
        "lora: frames collide, and wait for windows": network.lora,
    }
    if found := [text for text, block in shared.items() if block is not None]:
        return f"network.{found[0]}"
    wrong = (_first_limitation(group) for group in scenario.fleet)
    named = [f"fleet.{number}.{text}" for number, text in enumerate(wrong) if text]
    return named[0] if named else ""


def _first_limitation(group: Group) -> str:
    """Return the first setting of a group that the recursion cannot express."""
    return next(_limitations(group), "")


def _limitations(group: Group) -> Iterator[str]:
    device, radio = group.device, group.radio
    if type(device) is not Device:
        yield f"device: {device.kind} has no constant speed or frequency"
    if device.slowdown.drawn:
        yield f"device.slowdown: {device.slowdown.kind} is random"
    if isinstance(radio, NarrowbandRadio | StagedRadio):
        yield f"radio: {radio.kind} has stages in which messages wait until it listens"
    elif type(radio) is not Radio:
        yield f"radio: {radio.kind} has no constant rate"
    if radio.traces or radio.loss.mean:
        yield f"radio: {radio.kind} follows a trace, or loses packets"
    if group.battery is not None and group.battery.charging.kind != "none":
        yield "battery.charging: the battery is charged"


_STATES = ("promotion_power", "promotion_time", "tail_power", "tail_time")


def clients_of(scenario: Scenario, groups: Sequence[Group], world: World, worlds: int) -> Clients:
    """Return the clients of a scenario for which `unplayable` is empty.

    Args:
        scenario: for its network.
        groups: of its fleet; one of ideal clients if it has none.
        world: see `World`.
        worlds: W.
    """
    groups_in_worlds = [
        _GroupInWorlds(f"fleet.{number}", group, world, worlds)
        for number, group in enumerate(groups)
    ]
    counts = [group.count for group in groups]

    def each(rows: Sequence[Array]) -> Array:
        return np.repeat(np.array(rows), counts, axis=0)

    link = scenario.network.server  # type: ignore[attr-defined]  # it is a star

    def of_server(field: str) -> float | Array:
        known = world.get(server(field))
        return float(getattr(link, field)) if known is None else known

    latency = of_server("latency")
    slower = _slower(groups, world, worlds)
    return Clients(
        idle=each(
            [own.device("idle") + own.radio("idle") + own.waiting for own in groups_in_worlds]
        ),
        working=each([own.working() for own in groups_in_worlds]),
        per_operation=each([own.per_operation() for own in groups_in_worlds]) * slower,
        per_sample=each([own.per_sample() for own in groups_in_worlds]) * slower,
        **{name: each([own.state(name) for own in groups_in_worlds]) for name in _STATES},
        reserve=each([own.reserve() for own in groups_in_worlds]),
        stateful=any(group.radio.states.stateful for group in groups),
        emitted=each([own.emission_rate() for own in groups_in_worlds])
        if counts_grams(groups)
        else None,
        down=_lanes(groups_in_worlds, each, ("down", "receive"), of_server("downlink"), latency),
        up=_lanes(groups_in_worlds, each, ("up", "send"), of_server("uplink"), latency),
    )


def counts_grams(groups: Sequence[Group]) -> bool:
    """Return whether grams of CO2 can be computed: all known intensities are constant.

    One that follows a file depends on when a joule is drawn, which the recursion does not keep.
    """
    known = [group.carbon for group in groups if group.carbon is not None]
    return bool(known) and all(type(each) is GridCarbon for each in known)


def _lanes(
    groups_in_worlds: Sequence["_GroupInWorlds"],
    each: Callable[[Sequence[Array]], Array],
    names: tuple[str, str],
    capacity: float | Array,
    latency: float | Array,
) -> Lanes:
    way, busy = names
    rate = each([own.radio(way) for own in groups_in_worlds])
    return Lanes(
        rate,
        each([own.radio("latency") for own in groups_in_worlds]) + latency,
        each([own.per_bit(way, busy) for own in groups_in_worlds]),
        each([own.held for own in groups_in_worlds]),
        capacity,
        bool((rate.sum(axis=0) > capacity).any()),
    )


def _slower(groups: Sequence[Group], world: World, worlds: int) -> Array:
    """Return the factor on each client's time of work, shape (n, W) or ()."""
    if not any(spread(group.device.kind) in world for group in groups):
        return np.ones(())
    counts = Counter[str]()
    for group in groups:
        if not is_measured(group):
            counts[group.device.kind] += group.count
    rest = {kind: scores(count) for kind, count in counts.items()}
    rows = list[Array]()
    for group in groups:  # scores are dealt by kind, however its devices are grouped
        kind = group.device.kind
        if is_measured(group):
            rows.append(np.ones((group.count, worlds)))
            continue
        own, rest[kind] = rest[kind][: group.count], rest[kind][group.count :]
        rows.append(np.exp(own[:, None] * world.get(spread(kind), np.zeros(worlds))))
    return np.vstack(rows)


def overheads(groups: Sequence[Group], world: World, worlds: int) -> Array | None:
    """Return the framing of a packet of each client, whole bytes, shape (n, W).

    None if it is not among the uncertain constants.
    """
    placed = [(f"fleet.{number}", group) for number, group in enumerate(groups)]
    if not any(key_of(*each, "radio", "framing") in world for each in placed):
        return None
    rows = [_GroupInWorlds(*each, world, worlds).radio("framing") for each in placed]
    return np.floor(np.repeat(np.array(rows), [group.count for group in groups], axis=0))


class _GroupInWorlds:
    """A group with its values in all worlds, each of shape (W,)."""

    def __init__(self, place: str, group: Group, world: World, worlds: int) -> None:
        self._place = place
        self._group = group
        self._world = world
        self._worlds = worlds

    def _value(self, name: str, block: Any, field: str) -> Array:  # noqa: ANN401 - a block
        known = self._world.get(key_of(self._place, self._group, name, field))
        value = getattr(block, field)
        return np.full(self._worlds, 0.0 if value is None else value) if known is None else known

    def device(self, field: str) -> Array:
        """Return a figure of the device."""
        return self._value("device", self._group.device, field)

    def radio(self, field: str) -> Array:
        """Return a figure of the radio."""
        return self._value("radio", self._group.radio, field)

    @property
    def waiting(self) -> Array:
        """The mean power of the radio between messages, W: see `fedsim.physics.radios`."""
        share = self.radio("listening")
        return np.asarray(share * self.radio("listen") + (1.0 - share) * self.radio("sleep"))

    def beyond(self, field: str) -> Array:
        """Return a power of the radio beyond idle power, W, at least 0."""
        return np.maximum(self.radio(field) - self.waiting, 0.0)

    def state(self, field: str) -> Array:
        """Return a figure of the radio's states; 0 if it has none."""
        if not self._group.radio.states.stateful:
            return np.zeros(self._worlds)
        return self.beyond(field) if field.endswith("_power") else self.radio(field)

    @property
    def held(self) -> Array:
        """Power of the radio during a message, beyond idle power, W.

        The law of `fedsim.physics.radios.base`, vectorised over worlds.
        """
        base = self.beyond("base")
        by_state = (self.radio("send") > 0) | (self.radio("receive") > 0)
        return np.where(by_state, np.maximum(base, self.state("tail_power")), base)

    def per_bit(self, way: str, busy: str) -> Array:
        """Return the energy of a bit, including the power during its time on air, J/bit."""
        on_air = self.radio("base") + self.radio(busy) - self.waiting - self.held
        by_state = (self.radio("send") > 0) | (self.radio("receive") > 0)
        timed = np.where(by_state, np.maximum(on_air, 0.0), 0.0) / self.radio(way)
        return np.asarray(self.radio(f"energy_{way}") + timed)

    def working(self) -> Array:
        """Return the power of the device at work, beyond idle power, W."""
        if self._group.device.speed is not None:  # type: ignore[attr-defined]  # as playable
            return self.device("active") - self.device("idle")
        return self.device("kappa") * self.device("frequency") ** 3

    def per_operation(self) -> Array:
        """Return the seconds of an operation."""
        if self._group.device.constant is None:
            return np.zeros(self._worlds)
        alone = 1.0 / self.device("speed")
        return alone if is_measured(self._group) else alone * self._world.get(FLOPS, 1.0)

    def per_sample(self) -> Array:
        """Return the seconds of a sample."""
        if self._group.device.constant is not None:
            return np.zeros(self._worlds)
        return self.device("cycles_per_sample") / self.device("frequency")

    def emission_rate(self) -> Array:
        """Return the grams of CO2 per joule; 0 if the electricity is unknown."""
        if self._group.carbon is None:
            return np.zeros(self._worlds)
        return self._value("carbon", self._group.carbon, "intensity") / KILOWATT_HOUR

    def reserve(self) -> Array:
        """Return the energy that the battery can deliver before it reaches a mark, J."""
        battery = self._group.battery
        if battery is None:
            return np.full(self._worlds, inf)
        own = battery.capacity or self.device("battery")
        share = battery.charge - max(battery.threshold, battery.cutoff)
        return np.asarray(own * share * battery.discharge_efficiency) * np.ones(self._worlds)
