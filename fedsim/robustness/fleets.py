"""Fleets: what each client is in many worlds, as arrays of clients x worlds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.carbon import GridCarbon
from fedsim.physics.devices import Device
from fedsim.physics.networks import StarNetwork
from fedsim.physics.radios import Radio
from fedsim.physics.radios.base import Framing
from fedsim.ports import Array
from fedsim.record.emissions import KILOWATT_HOUR
from fedsim.repricing.history import Tape
from fedsim.robustness.constants import FLOPS, ConstantKey, scores, server, spread
from fedsim.scenario import Group, Scenario

# Loads: what each exchange of a run sends and computes, as numbers by client.

Numbers = NDArray[np.intp]


class Load(NamedTuple):
    """One exchange: an entry for each client of the cohort.

    Attributes:
        clients: their numbers; a slice where it is all of them, so that nothing is copied.
        told, said: bits down and up, header and framing included, shape (t, 1), or (t, W) where
            the framing differs by world.
        operations, samples: of all pieces of work together.
    """

    clients: Numbers | slice
    told: Array
    said: Array
    operations: Array
    samples: Array


class Loads:
    """All exchanges of a run.

    Args:
        tape: of the run.
        framings: of each client's radio.
        header_bits: in front of every message.
        overheads: of each client's packets in each world in place of its framing's, bytes, shape
            (n, W); None where it is the same in all.
    """

    def __init__(
        self,
        tape: Tape,
        framings: Sequence[Framing],
        header_bits: int,
        overheads: Array | None = None,
    ) -> None:
        tasks = tape.tasks
        self._count = len(framings)
        self._first = tape.exchanges.first
        self._clients = np.array(tasks.client, np.intp)
        kinds = list(dict.fromkeys(framings))
        own = np.array([kinds.index(each) for each in framings], np.intp)[self._clients]
        self._told = _framed_bits(tasks.told_bits, own, kinds, header_bits)
        self._said = _framed_bits(tasks.bits, own, kinds, header_bits)
        self._overheads, self._packets = overheads, np.array([each.packet for each in framings])
        if overheads is not None:  # bits without framing, which each exchange adds by world
            self._told = np.array(tasks.told_bits, np.float64) + header_bits
            self._said = np.array(tasks.bits, np.float64) + header_bits
        self._operations = _by_task(tasks.operations, tasks.begin, tasks.end)
        self._samples = _by_task(tasks.samples, tasks.begin, tasks.end)

    def clients(self, number: int) -> Numbers | slice:
        """Return the participants of an exchange, as `Load` represents them."""
        own = self._tasks(number)
        if own.stop - own.start == self._count:  # in their order, as tasks are
            return slice(None)
        return self._clients[own]

    def key(self, number: int) -> bytes:
        """Return what is the same for two exchanges of the same load, and for no others."""
        own = self._tasks(number)
        parts = self._clients, self._told, self._said, self._operations, self._samples
        return b"".join(part[own].tobytes() for part in parts)

    def _tasks(self, number: int) -> slice:
        return slice(self._first[number], self._first[number + 1])

    def of(self, number: int) -> Load:
        """Return one exchange."""
        own, clients = self._tasks(number), self.clients(number)
        told, said = (self._charge(bits[own], clients) for bits in (self._told, self._said))
        return Load(clients, told, said, self._operations[own], self._samples[own])

    def _charge(self, bits: Array, clients: Numbers | slice) -> Array:
        """Return what messages of some clients are charged for, as `Load` has them."""
        column = bits[:, None]
        if self._overheads is None:
            return column
        framing, packet = self._overheads[clients], self._packets[clients, None]
        return np.asarray(column + 8.0 * framing * np.ceil(column / (8.0 * (packet - framing))))


def _framed_bits(bits: Sequence[int], own: Numbers, kinds: Sequence[Framing], header: int) -> Array:
    """Return what messages are charged for: their own bits, the header's and the framing's."""
    whole = np.array(bits, np.int64) + header
    framed = np.zeros_like(whole)
    for number, kind in enumerate(kinds):
        room = 8 * (kind.packet - kind.overhead)
        framed += np.where(own == number, 8 * kind.overhead * -(-whole // room), 0)
    return (whole + framed).astype(np.float64)


def _by_task(amounts: Sequence[float], begin: Sequence[int], end: Sequence[int]) -> Array:
    """Add up what the pieces of work of each task take."""
    pieces = np.array(end, np.intp) - np.array(begin, np.intp)
    tasks = np.repeat(np.arange(len(pieces)), pieces)
    return np.asarray(np.bincount(tasks, np.array(amounts, np.float64), len(pieces)), np.float64)


World = Mapping[ConstantKey, Array]
"""What constants are in W worlds, each of shape (W,); what is not in it is as the scenario says."""


@dataclass(frozen=True)
class Lanes:
    """One direction of all radios.

    Attributes:
        rate: bit/s, shape (n, W).
        latency: of radio and route, one way, s, shape (n, W).
        per_bit: J/bit, the time on air included, shape (n, W).
        power: while a message is in progress, beyond power at rest, W, shape (n, W).
        capacity: of the link that all share, bit/s, shape (W,) or a number.
        contended: whether that may hold back any of all clients in any world.
    """

    rate: Array
    latency: Array
    per_bit: Array
    power: Array
    capacity: float | Array
    contended: bool


@dataclass(frozen=True)
class Clients:
    """Clients, in each world.

    Attributes:
        idle: of device and radio at rest, W, shape (n, W); and so on.
        working: beyond idle power, W.
        per_operation, per_sample: seconds that work takes, s.
        tail_power, tail_time, promotion_power, promotion_time: as `fedsim.physics.radios` has them.
        reserve: what may be drawn of a battery before its client acts on it, J; infinite on mains.
        stateful: whether any radio has states.
        emitted: grams of CO2 for a joule, 0 for clients without `carbon`, shape (n, W); None where
            grams do not follow from numbers, or no client has any.
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
        if isinstance(value, np.ndarray) and value.ndim == 2:  # not of the link, which all share
            changed[field.name] = value[ids]
        elif isinstance(value, Lanes):
            changed[field.name] = _part(value, ids)
    return replace(whole, **changed)


def unplayable(scenario: Scenario) -> str:
    """Say what of a scenario `clients_of` knows no law of; nothing where it knows all.

    These are worlds in which more than numbers matters, such as what was drawn at random.
    """
    network = scenario.network
    if type(network) is not StarNetwork or network.peers is not None:
        return "network.topology: clients are not around one server"
    if network.server.discipline != "fair":
        return f"network.server.discipline: {network.server.discipline}"
    if network.model != "fluid":
        return f"network.model: {network.model}"
    wrong = (_of_group(group) for group in scenario.fleet)
    named = [f"fleet.{number}.{text}" for number, text in enumerate(wrong) if text]
    return named[0] if named else ""


def _of_group(group: Group) -> str:
    """Say what of a group is more than numbers, the first such thing."""
    return next(_beyond(group), "")


def _beyond(group: Group) -> Iterator[str]:
    device, radio = group.device, group.radio
    if type(device) is not Device:
        yield f"device: {device.kind} is no device of a speed, or of cycles"
    if device.slowdown.drawn:
        yield f"device.slowdown: {device.slowdown.kind} is drawn"
    if type(radio) is not Radio:
        yield f"radio: {radio.kind} is no radio of constant rate"
    if radio.traces or radio.loss.mean:
        yield f"radio: {radio.kind} follows a trace, or loses packets"
    if group.battery is not None and group.battery.charging.kind != "none":
        yield "battery.charging: it is charged"


_STATES = ("promotion_power", "promotion_time", "tail_power", "tail_time")


def clients_of(scenario: Scenario, groups: Sequence[Group], world: World, worlds: int) -> Clients:
    """Return all clients of a scenario that is playable.

    Args:
        scenario: for its network.
        groups: of its fleet; one of ideal clients where none was written.
        world: see `World`.
        worlds: W.
    """
    laid = [_Laid(group, world, worlds) for group in groups]
    counts = [group.count for group in groups]

    def each(rows: Sequence[Array]) -> Array:
        return np.repeat(np.array(rows), counts, axis=0)

    link = scenario.network.server  # type: ignore[attr-defined]  # it is a star

    def of_server(field: str) -> float | Array:
        known = world.get(server(field))
        return float(getattr(link, field)) if known is None else known

    latency, flops = of_server("latency"), world.get(FLOPS, np.ones(worlds))
    slower = _slower(groups, world, worlds)
    return Clients(
        idle=each([own.device("idle") + own.radio("idle") + own.waiting for own in laid]),
        working=each([own.working() for own in laid]),
        per_operation=each([own.per_operation() for own in laid]) * flops * slower,
        per_sample=each([own.per_sample() for own in laid]) * slower,
        **{name: each([own.state(name) for own in laid]) for name in _STATES},
        reserve=each([own.reserve() for own in laid]),
        stateful=any(group.radio.states.stateful for group in groups),
        emitted=each([own.emission_rate() for own in laid]) if counts_grams(groups) else None,
        down=_lanes(laid, each, ("down", "receive"), of_server("downlink"), latency),
        up=_lanes(laid, each, ("up", "send"), of_server("uplink"), latency),
    )


def counts_grams(groups: Sequence[Group]) -> bool:
    """Return whether grams of CO2 follow from numbers: some clients have a constant intensity.

    An intensity that follows a file hangs on when a joule is drawn, which no recursion keeps.
    """
    known = [group.carbon for group in groups if group.carbon is not None]
    return bool(known) and all(type(each) is GridCarbon for each in known)


def _lanes(
    laid: Sequence["_Laid"],
    each: Callable[[Sequence[Array]], Array],
    names: tuple[str, str],
    capacity: float | Array,
    latency: float | Array,
) -> Lanes:
    way, busy = names
    rate = each([own.radio(way) for own in laid])
    return Lanes(
        rate,
        each([own.radio("latency") for own in laid]) + latency,
        each([own.per_bit(way, busy) for own in laid]),
        each([own.held for own in laid]),
        capacity,
        bool((rate.sum(axis=0) > capacity).any()),
    )


def _slower(groups: Sequence[Group], world: World, worlds: int) -> Array:
    """Return how much longer each client takes than its preset says, shape (n, W) or ()."""
    if not any(spread(group.device.kind) in world for group in groups):
        return np.ones(())
    counts = Counter[str]()
    for group in groups:
        counts[group.device.kind] += group.count
    rest = {kind: scores(count) for kind, count in counts.items()}
    rows = list[Array]()
    for group in groups:  # devices of a kind differ by kind, however they are grouped
        kind = group.device.kind
        own, rest[kind] = rest[kind][: group.count], rest[kind][group.count :]
        rows.append(np.exp(own[:, None] * world.get(spread(kind), np.zeros(worlds))))
    return np.vstack(rows)


def overheads(groups: Sequence[Group], world: World, worlds: int) -> Array | None:
    """Return what the transport adds to a packet of each client, whole bytes, shape (n, W).

    None where no world says anything of it.
    """
    if not any(ConstantKey(("radio", group.radio.kind, "framing")) in world for group in groups):
        return None
    rows = [_Laid(group, world, worlds).radio("framing") for group in groups]
    return np.floor(np.repeat(np.array(rows), [group.count for group in groups], axis=0))


class _Laid:
    """A group with its values in all worlds, each of shape (W,)."""

    def __init__(self, group: Group, world: World, worlds: int) -> None:
        self._group = group
        self._world = world
        self._worlds = worlds

    def _value(self, name: str, block: Any, field: str) -> Array:  # noqa: ANN401 - a block
        known = self._world.get(ConstantKey((name, block.kind, field)))
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
        """Return a power of the radio beyond that at rest, W; none is less."""
        return np.maximum(self.radio(field) - self.waiting, 0.0)

    def state(self, field: str) -> Array:
        """Return a figure of the radio's states; nothing where it has none."""
        if not self._group.radio.states.stateful:
            return np.zeros(self._worlds)
        return self.beyond(field) if field.endswith("_power") else self.radio(field)

    @property
    def held(self) -> Array:
        """What the radio draws while a message is in progress, beyond rest, W.

        It is the law of `fedsim.physics.radios.base`, of numbers in many worlds.
        """
        base = self.beyond("base")
        by_state = (self.radio("send") > 0) | (self.radio("receive") > 0)
        return np.where(by_state, np.maximum(base, self.state("tail_power")), base)

    def per_bit(self, way: str, busy: str) -> Array:
        """Return the energy of a bit, its time on the air included, J/bit."""
        on_air = self.radio("base") + self.radio(busy) - self.waiting - self.held
        by_state = (self.radio("send") > 0) | (self.radio("receive") > 0)
        timed = np.where(by_state, np.maximum(on_air, 0.0), 0.0) / self.radio(way)
        return np.asarray(self.radio(f"energy_{way}") + timed)

    def working(self) -> Array:
        """Return what it draws while it works, beyond idle power, W."""
        if self._group.device.speed is not None:  # type: ignore[attr-defined]  # as playable
            return self.device("active") - self.device("idle")
        return self.device("kappa") * self.device("frequency") ** 3

    def per_operation(self) -> Array:
        """Return the seconds of an operation."""
        if self._group.device.constant is None:
            return np.zeros(self._worlds)
        return 1.0 / self.device("speed")

    def per_sample(self) -> Array:
        """Return the seconds of a sample."""
        if self._group.device.constant is not None:
            return np.zeros(self._worlds)
        return self.device("cycles_per_sample") / self.device("frequency")

    def emission_rate(self) -> Array:
        """Return the grams of CO2 for a joule; 0 where nothing is said of its electricity."""
        if self._group.carbon is None:
            return np.zeros(self._worlds)
        return self._value("carbon", self._group.carbon, "intensity") / KILOWATT_HOUR

    def reserve(self) -> Array:
        """Return what may be drawn before the battery falls to a mark, J."""
        battery = self._group.battery
        if battery is None:
            return np.full(self._worlds, inf)
        own = battery.capacity or self.device("battery")
        share = battery.charge - max(battery.threshold, battery.cutoff)
        return np.asarray(own * share * battery.discharge_efficiency) * np.ones(self._worlds)
