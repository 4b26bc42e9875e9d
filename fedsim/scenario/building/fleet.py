"""The fleet: from groups of clients to the component models of each client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedsim.core.ports import ClientId, Oracle
from fedsim.core.streams import stream
from fedsim.physics.availability import (
    ALWAYS,
    NEVER,
    Availability,
    IntervalAvailability,
    PresenceLaw,
)
from fedsim.physics.batteries import NO_POWER
from fedsim.physics.carbon import Carbon, Intensity
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.radios import RadioLaw, Rates
from fedsim.physics.signals import Signal, Steps
from fedsim.physics.tables import check_clients
from fedsim.scenario import Group
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.network import Files
from fedsim.sim.members import ClientConfig


@dataclass(frozen=True)
class BuiltGroup:
    """The common properties of the clients of a group.

    Attributes:
        number: the number of the group in the fleet.
        spec: the group in the scenario.
        signals: the signals of its radio's traces, by their keys.
        rates: the rates of its radio; all traces start at their beginning.
        source: the charging power on offer, W, from its beginning.
        availability: the availability of all clients, or by their numbers.
        carbon: the intensity of their electricity; None if not tracked.
        place: the key of the group in the scenario.
    """

    number: int
    spec: Group
    signals: Mapping[str, Steps]
    rates: Rates
    source: Signal
    availability: PresenceLaw | Mapping[ClientId, PresenceLaw]
    carbon: Intensity | None = None
    place: str = ""

    @property
    def device(self) -> DeviceLaw:
        """The law of the device: seconds and joules of work, and idle power."""
        return self.spec.device

    @property
    def radio(self) -> RadioLaw:
        """The law of the radio: its rates, framing, losses and power."""
        return self.spec.radio

    @property
    def name(self) -> str:
        """The name of the group in messages."""
        return f"{self.spec.device.kind} over {self.spec.radio.kind}"

    @property
    def alike(self) -> bool:
        """Whether its clients differ only in the start of traces, with one device and one law."""
        return not (isinstance(self.availability, Mapping) or self.device.varies)

    def least_compute(self, operations: float, samples: float) -> float:
        """Return the shortest possible time of a task, s."""
        return self.device.slowdown.least * self.device.fastest.seconds(operations, samples)

    def member(self, client: ClientId, oracle: Oracle, seed: int) -> ClientConfig:
        """Return one client.

        The start of its traces is drawn from its stream "trace", and its device from "device".
        """
        rates, source, availability = self.rates, self.source, self.availability
        device = self.device
        if device.varies:
            device = device.one(stream(seed, "device", client))
        if any(self._shifts):
            rates, source = self._shift(client, seed)
        if isinstance(availability, Mapping):
            availability = availability.get(client, NEVER)
        spec = self.spec
        return ClientConfig(
            device,
            spec.radio,
            rates,
            oracle,
            battery=spec.battery,
            source=source,
            availability=availability,
            group=self.number,
            carbon=self.carbon,
        )

    @cached_property
    def _shifts(self) -> tuple[frozenset[str], bool]:
        """The traces of the radio that start anywhere, and whether the charger's does."""
        shifted = [key for key, trace in self.radio.traces.items() if trace.starts_anywhere]
        charging = self.spec.battery.charging if self.spec.battery else None
        return frozenset(shifted), charging is not None and charging.starts_anywhere

    def _shift(self, client: ClientId, seed: int) -> tuple[Rates, Signal]:
        """Return the rates and the charging power of a client, with random starts of traces.

        All traces of a radio start at the same share of their patterns, so that the two traces of
        one drive stay together.
        """
        radio, charger = stream(seed, "trace", client).random(2).tolist()
        keys, power = self._shifts
        signals = {
            key: _from(signal, radio) if key in keys else signal
            for key, signal in self.signals.items()
        }
        rates = self.radio.rates(signals) if keys else self.rates
        return rates, _from(self.source, charger) if power else self.source


def build_groups(
    groups: Sequence[Group], files: Files, findings: Findings, key: str = "fleet", first: int = 0
) -> tuple[BuiltGroup, ...]:
    """Build the groups of a fleet, or of tiers.

    Args:
        groups: the groups of the scenario.
        files: reads their files.
        findings: collects faults.
        key: the key of the groups in the scenario.
        first: the number of the first group.
    """
    return tuple(
        _build_group(first + place, group, files, findings, f"{key}.{place}")
        for place, group in enumerate(groups)
    )


def _build_group(
    number: int, group: Group, files: Files, findings: Findings, key: str
) -> BuiltGroup:
    signals = _signals(group.radio, files, findings, f"{key}.radio")
    return BuiltGroup(
        number,
        group,
        signals,
        group.radio.rates(signals),
        _source(group, files, findings, f"{key}.battery.charging.path"),
        _availability(group.availability, files, findings, f"{key}.availability.path"),
        _carbon(group.carbon, files, findings, f"{key}.carbon"),
        key,
    )


def _signals(radio: RadioLaw, files: Files, findings: Findings, key: str) -> dict[str, Steps]:
    """Return the signals of the traces of a radio; faults are reported at their keys."""
    signals: dict[str, Steps] = {}
    for name, trace in radio.traces.items():
        place = f"{key}.{name}"
        with findings.at(place):
            signals[name] = files.rate(trace)
            _check_traffic(signals[name], findings, place)
    return signals


def _check_traffic(trace: Steps, findings: Findings, key: str) -> None:
    """Register a rate that stays zero, so that messages would never arrive."""
    if trace.average > 0:
        return
    if trace.peak > 0:
        last = float(trace.times[-1])
        text = (
            f"the trace ends at 0 Mbit/s after {last:g} s and does not repeat, so that no message"
            " arrives after that; use repeat: true, or end it above 0"
        )
    else:
        text = "the trace has no traffic: its rate is 0 Mbit/s at all times; give another file"
    findings.add(key, text)


def _source(group: Group, files: Files, findings: Findings, key: str) -> Signal:
    """Return the charging power on offer for a battery, W; faults of its file are reported."""
    source: Signal = NO_POWER
    if group.battery is not None:
        with findings.at(key):
            source = group.battery.charging.source(files.power)
    return source


def _availability(
    law: Availability, files: Files, findings: Findings, key: str
) -> PresenceLaw | Mapping[ClientId, PresenceLaw]:
    presence: PresenceLaw | Mapping[ClientId, PresenceLaw] = ALWAYS
    with findings.at(key):
        presence = law.among(files.presence)
    return presence  # noqa: RET504 - ALWAYS if `at` has registered a fault


def check_presence(groups: Sequence[BuiltGroup], findings: Findings) -> None:
    """Register files of intervals whose clients are not those of the fleet.

    Args:
        groups: the groups of the fleet, and then the tiers, whose gateways are numbered on.
        findings: collects faults.
    """
    count, first = sum(group.spec.count for group in groups), 0
    for group in groups:
        members = range(first, first := first + group.spec.count)
        law, there = group.spec.availability, group.availability
        if isinstance(law, IntervalAvailability) and isinstance(there, Mapping):
            with findings.at(f"{group.place}.availability.path"):
                check_clients(there, count, "path", Path(law.path), members)


def _carbon(law: Carbon | None, files: Files, findings: Findings, key: str) -> Intensity | None:
    """Return the carbon intensity of electricity; faults of its file are reported."""
    intensity: Intensity | None = None
    if law is not None:
        with findings.at(f"{key}.path" if "path" in type(law).model_fields else key):
            intensity = files.carbon(law)
    return intensity  # None if `at` has registered a fault


def _from(signal: Signal, share: float) -> Signal:
    """Return a signal that starts at a share of its pattern."""
    return signal.shift(share * signal.period) if isinstance(signal, Steps) else signal
