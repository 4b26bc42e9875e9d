"""The function `calibrate(log, scenario) -> Calibration`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.table import Table

from fedsim.addons.calibration.constants import (
    DEVICE_POWERS,
    LATENCY,
    LINK,
    RADIO,
    RADIO_POWERS,
    SAME,
    WAYS,
    CannotTell,
    ClientGroups,
    FittedConstant,
    UnknownConstant,
)
from fedsim.addons.calibration.doubts import before_fit
from fedsim.addons.calibration.fitting import NetworkFit, messages_of, shown_messages
from fedsim.addons.calibration.fleet_block import fleet_of, format_constant, write_scenario
from fedsim.addons.calibration.meters import read_power
from fedsim.addons.calibration.powers import Metered, fit_powers
from fedsim.addons.calibration.prediction import Prediction
from fedsim.addons.calibration.readers import Direction, read_recording
from fedsim.addons.calibration.recording import (
    ALL,
    MESSAGES,
    WORK,
    in_rounds,
    join,
    number_clients,
)
from fedsim.addons.calibration.timeline import timeline
from fedsim.addons.calibration.work import fit_device
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import join_names, nearest
from fedsim.core.errors import DataError
from fedsim.core.remarks import hearing
from fedsim.core.tables import listing
from fedsim.core.text import format_number
from fedsim.physics.devices import Device
from fedsim.physics.network_models import TcpFlows
from fedsim.physics.networks import StarNetwork
from fedsim.physics.radios import Radio
from fedsim.protocol.participation.rounds import Rounds
from fedsim.scenario import Plan, load
from fedsim.scenario.building.network import read_graph
from fedsim.scenario.plan import Written

NOISE = "an observation is its prediction times exp(sigma Z), Z standard normal"


class FurtherRecording(NamedTuple):
    """A recording beside the log, such as the output of ping.

    Attributes:
        path: the path of the file.
        client: the client that was recorded, if the format has no clients.
        direction: up or down, for a Mahimahi trace.
    """

    path: Path
    client: str = ALL
    direction: Direction = ""

    @classmethod
    def of(cls, text: str) -> "FurtherRecording":
        """Read `ping.txt`, `client-3=ping.txt`, or `client-3=up:trace`."""
        client, equals, path = text.rpartition("=")
        way, colon, rest = path.partition(":")
        if colon and way == "up":
            return cls(Path(rest), client if equals else ALL, "up")
        if colon and way == "down":
            return cls(Path(rest), client if equals else ALL, "down")
        return cls(Path(path), client if equals else ALL)


class PowerFile(NamedTuple):
    """What a meter has recorded at one client.

    Attributes:
        path: the path of the file; see `fedsim.addons.calibration.meters`.
        client: the client; empty if the recording has one alone.
    """

    path: Path
    client: str = ""

    @classmethod
    def of(cls, text: str) -> "PowerFile":
        """Read `meter.csv`, or `client-3=meter.csv`."""
        client, _, path = text.rpartition("=")
        return cls(Path(path), client)


@dataclass(frozen=True)
class Calibration:
    """The constants of a fleet, fitted to a recording.

    Attributes:
        constants: the fitted constants, in the order of the fleet.
        noise: sigma by kind of observation; see `NOISE`.
        notes: notes on what the constants do not explain.
        recording: the observations; see `fedsim.addons.calibration.recording`.
        plan: the plan of the scenario.
        fleet: the groups before the calibration; one group per client with `each`.
    """

    constants: tuple[FittedConstant, ...]
    noise: Mapping[str, float]
    notes: tuple[str, ...]
    recording: pd.DataFrame
    plan: Plan
    fleet: ClientGroups

    def blocks(self) -> list[dict[str, object]]:
        """Return the fleet with the fitted constants, in the form of a scenario."""
        return fleet_of(self.fleet, self.constants)

    def write(self, source: Written, path: Path) -> None:
        """Write the scenario with the calibrated fleet.

        Args:
            source: the scenario; comments of a file are kept, except those in the fleet.
            path: the file to write; relative paths in the scenario start in its folder.

        Raises:
            OutputError: it cannot be written.
        """
        changed = {
            constant.key: format_constant(self.fleet, constant.key, constant.value)
            for constant in self.constants
            if constant.key in LINK
        }
        write_scenario(source, self.plan, self.blocks(), changed, path)

    def table(self) -> Table:
        """Return the constants with their intervals."""
        rows = []
        for constant in self.constants:
            value, low, high = (
                format_constant(self.fleet, constant.key, value, digits=4)
                for value in (constant.value, constant.low, constant.high)
            )
            rows.append((constant.key, value, f"{low}..{high}", f"{constant.observations:,}"))
        heads = ("constant", "value", "90 % interval", "from")
        return listing("constants, and the numbers of observations they are from", heads, rows)

    def describe_noise(self) -> str:
        """Return the noise model and its sigmas in a sentence."""
        shown = [f"{kind} {format_number(s, '.2g')}" for kind, s in self.noise.items()]
        return f"noise: {NOISE}; sigma: {', '.join(shown) or 'none was fitted'}"


def calibrate(
    log: str | Path,
    scenario: Written,
    *,
    further: Sequence[FurtherRecording] = (),
    keep: Sequence[str] = (),
    fit: Sequence[str] = (),
    each: bool = False,
    rounds: tuple[int, int] | None = None,
    operations: float | None = None,
    power: Sequence[PowerFile] = (),
    blocks: Sequence[type[Spec]] = (),
) -> Calibration:
    """Fit the constants of a fleet to a recording by maximum likelihood.

    Args:
        log: a folder written by `fedsim run`, or a file; see `fedsim.addons.calibration.readers`.
        scenario: the scenario whose fleet has these clients; its network, and all constants that
            are not fitted, are used as they are.
        further: further recordings of the same clients.
        keep: constants that are not fitted, "fleet.0.radio.latency"; "radio.latency" for all
            groups.
        fit: constants outside the fleet: "network.server.uplink" and "network.server.downlink".
        each: whether constants are fitted per client, instead of per group.
        rounds: the first and the last round of the recording to use; None for all.
        operations: floating-point operations per task, if the recording lacks them.
        power: power logs of clients; the powers of their groups are fitted to them.
        blocks: user-defined classes that the scenario names.

    Raises:
        DataError: a recording cannot be read, does not determine a constant (all are listed), or
            does not match the scenario.
        ScenarioError: the scenario is invalid.
    """
    plan = load(scenario, blocks=blocks)
    fleet = _fleet(plan, each=each)
    recording, notes = _read(Path(log), further, rounds, operations)
    clients = number_clients(recording, fleet.count)
    kept, link_unknowns = _Kept(fleet, keep), _check_link(fleet, fit)
    unknowns = [one for one in _unknowns(fleet, clients) if one.key not in kept]
    constants, reasons = list[FittedConstant](), dict[str, str]()
    for number in range(len(fleet.groups)):
        try:
            fitted, work_notes = _work(fleet, number, kept, recording, clients)
        except CannotTell as error:
            reasons |= error.reasons
        else:
            constants, notes = [*constants, *fitted], [*notes, *work_notes]
    metered, power_notes = _powers(fleet, power, recording, clients, kept)
    constants, notes = [*constants, *metered], [*notes, *power_notes]
    noise = dict[str, float]()
    # Also if a device has failed: all reasons are reported together.
    if unknowns or link_unknowns:
        wanted = [*unknowns, *link_unknowns]
        fitted, noise, work_notes = _fit_network(plan, fleet, wanted, recording, clients, reasons)
        constants += fitted
        notes += [*work_notes, *_overheads(fleet, fitted, recording, clients)]
    if reasons:
        raise CannotTell(reasons)
    constants.sort(key=lambda one: _place(fleet, one.key))
    return Calibration(tuple(constants), noise, tuple(notes), recording, plan, fleet)


def _fit_network(
    plan: Plan,
    fleet: ClientGroups,
    unknowns: Sequence[UnknownConstant],
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
    reasons: dict[str, str],
) -> tuple[list[FittedConstant], dict[str, float], list[str]]:
    """Fit radios and links; reasons why constants are not determined are added to `reasons`."""
    network = fleet.scenario.network
    links = network.links(fleet.count, lambda path: read_graph(plan.folder / path))
    framings = [group.radio.packaging for group in fleet.groups for _ in range(group.count)]
    prediction = Prediction(network, links, framings, messages_of(recording, clients))
    _check_latency(prediction, recording, clients)
    # `messages_of` reads the whole recording: pings that are left out are no messages, so the
    # messages of both are the same.
    kept = _select(fleet, recording, clients)
    fitting = NetworkFit(fleet, prediction, recording[kept], clients[kept], unknowns)
    try:
        fitting.check()
        if not reasons:
            constants, noise, notes = fitting.fit()
            seen = before_fit(fleet, unknowns, recording, clients, prediction.packets)
            return constants, noise, [*seen, *notes]
    except CannotTell as error:
        reasons |= error.reasons
    return [], {}, []


def _check_latency(
    prediction: Prediction, recording: pd.DataFrame, clients: NDArray[np.intp]
) -> None:
    """Check that messages and pings were not faster than the latency of the scenario's links.

    Raises:
        DataError: too many were.
    """
    trips = recording["kind"].map({"ping": 2.0, **dict.fromkeys(WAYS.values(), 1.0)}).fillna(0.0)
    seconds = (recording["end"] - recording["start"]).to_numpy(float)
    least = trips.to_numpy() * prediction.least_route_latency(clients)
    quick = np.flatnonzero(seconds < least)
    if len(quick) > len(seconds) // 20:  # some may be early, by the resolution of clocks
        row = quick[0]
        took = f"took {seconds[row] * 1e3:.3g} ms, and {least[row] * 1e3:.3g} ms is the latency"
        name = "all clients" if clients[row] < 0 else recording["client"].iloc[row]
        text = f"a {recording['kind'].iloc[row]} of {name} {took}"
        wanted = "expected links with less, such as network.server.latency: 0 s"
        wanted += ", and times of both ends by one clock"
        raise DataError("network", f"{text} of the scenario's links; {wanted}")


def _select(
    fleet: ClientGroups, recording: pd.DataFrame, clients: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return which observations to fit: no pings if messages of several sizes show the latency.

    A message may take longer than a ping and its bits, because of a handshake or work of the
    server. Only models of TCP include that; otherwise `_overheads` reports it.
    """
    kinds, sizes = recording["kind"].to_numpy(str), recording["bytes"].to_numpy(float)
    if isinstance(fleet.scenario.network.model, TcpFlows):
        return np.ones(len(kinds), bool)
    shown = shown_messages(recording)
    pings, needless = kinds == "ping", list[NDArray[np.bool_]]()
    for number in range(len(fleet.groups)):
        members = np.isin(clients, [*fleet.clients(number), -1])
        sent = [sizes[members & shown & (kinds == kind)] for kind in WAYS.values()]
        varied = any(len(bits) and bits.max() > (1 + SAME) * bits.min() for bits in sent)
        needless.append(members & pings if varied else np.zeros(len(kinds), bool))
    groups = np.stack(needless)
    # A ping of all clients is left out only if no group needs it.
    return ~np.asarray(groups.all(axis=0) | (groups.any(axis=0) & (clients >= 0)), bool)


def _place(fleet: ClientGroups, key: str) -> tuple[int, int]:
    """Return the order of a constant: by group, device before radio, links last."""
    if key in LINK:
        return len(fleet.groups), [*LINK].index(key)
    _, group, block, field = key.split(".")[:4]
    fields = (*DEVICE_POWERS, *RADIO, *RADIO_POWERS)
    if block == "device" and field not in fields:
        return int(group), -2 + ("slowdown" in key)
    return int(group), fields.index(field)


def _fleet(plan: Plan, *, each: bool) -> ClientGroups:
    """Return the fleet of a scenario.

    Raises:
        DataError: variants have different fleets or networks, or there is none.
    """
    first, *others = [variant.scenario for variant in plan.variants]
    for other in others:
        if other.fleet != first.fleet or other.network != first.network:
            text = "the variants have different fleets or networks"
            raise DataError("fleet", f"{text}; expected a scenario with one of each")
    if not first.fleet:
        text = "the scenario has no fleet; expected groups with the number of clients, such as"
        raise DataError("fleet", f"{text} fleet: [{{count: 10, device: pi-4, radio: wifi}}]")
    groups, written = list(first.fleet), plan.variants[0].written["fleet"]
    if each:
        counts = [range(group.count) for group in groups]
        written = [block for block, members in zip(written, counts, strict=True) for _ in members]
        groups = [
            group.model_copy(update={"count": 1}) for group in groups for _ in range(group.count)
        ]
    return ClientGroups(first, groups, written)


def _read(
    log: Path,
    further: Sequence[FurtherRecording],
    rounds: tuple[int, int] | None,
    operations: float | None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return the observations of nonzero duration, and a note on messages without one."""
    recording = read_recording(log)
    if rounds is not None:
        recording = in_rounds(recording, *rounds)
    more = [read_recording(one.path, client=one.client, direction=one.direction) for one in further]
    whole = join([recording, *more])
    if operations is not None:
        whole["operations"] = whole["operations"].fillna(operations)
    # The fit takes logarithms of durations, which have to be above 0.
    timed = whole["end"] > whole["start"]
    lost = ~timed & whole["kind"].isin(MESSAGES) & shown_messages(whole)
    notes = [f"{lost.sum()} messages took no time by their clocks, and are left out"]
    return whole[timed].reset_index(drop=True), notes if lost.any() else []


class _Kept:
    """The constants that are not fitted, by their keys.

    Args:
        fleet: the groups.
        names: the keys that the user has listed.

    Raises:
        DataError: one of the names is not a constant of the fleet.
    """

    def __init__(self, fleet: ClientGroups, names: Sequence[str]) -> None:
        fields = [f"radio.{name}" for name in RADIO]
        fields += ["device.speed", "device.frequency", "device.slowdown.sigma"]
        fields += [f"device.{name}" for name in DEVICE_POWERS]
        fields += [f"radio.{name}" for name in RADIO_POWERS]
        known = [*fields, *(f"fleet.{n}.{f}" for n in range(len(fleet.groups)) for f in fields)]
        for name in names:
            if name not in known:
                wanted = f"expected {join_names(fields, 'or')}, of one group as fleet.0.{fields[0]}"
                text = f"--keep: got {name!r}{nearest(name, known)}; {wanted}"
                raise DataError("keep", text)
        self._names = set(names)

    def __contains__(self, key: str) -> bool:
        # A name without its group, "radio.latency", keeps the constants of all groups.
        return key in self._names or key.split(".", 2)[2] in self._names


def _check_link(fleet: ClientGroups, names: Sequence[str]) -> list[UnknownConstant]:
    """Return the rates of the server's link to fit.

    Raises:
        DataError: there is no such link.
    """
    for name in names:
        if name not in LINK:
            wanted = f"expected {join_names([*LINK], 'or')}; a fleet's constants are fitted anyway"
            raise DataError("fit", f"--fit: got {name!r}{nearest(name, [*LINK])}; {wanted}")
        if not isinstance(fleet.scenario.network, StarNetwork):
            text = f"got {name} with topology: {fleet.scenario.network.topology}; expected a star"
            raise DataError("fit", f"--fit: {text}")
    return [
        UnknownConstant(name, LINK[name], np.arange(fleet.count)) for name in dict.fromkeys(names)
    ]


def _unknowns(fleet: ClientGroups, clients: NDArray[np.intp]) -> Iterator[UnknownConstant]:
    """Yield the constants of radios whose clients are in the recording.

    Raises:
        DataError: a radio has no constant rates, or a group is not in the recording.
    """
    for number, group in enumerate(fleet.groups):
        members = fleet.clients(number)
        if not np.isin(clients, [*members, -1]).any():
            text = f"fleet.{number}: the recording has no client of this group"
            raise DataError("fleet", f"{text}, {_names(members)}; expected each group in it")
        if type(group.radio) is not Radio or group.radio.traces:
            text = f"fleet.{number}.radio: got {group.radio.kind}, whose rate is not constant"
            raise DataError("fleet", f"{text}; expected a radio with up and down, such as wifi")
        for field in RADIO:
            yield UnknownConstant(f"fleet.{number}.radio.{field}", field, members)


def _names(members: NDArray[np.intp]) -> str:
    ends = [f"client-{members[0]}", f"client-{members[-1]}"]
    return " to ".join(dict.fromkeys(ends))


def _work(
    fleet: ClientGroups,
    number: int,
    kept: _Kept,
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
) -> tuple[list[FittedConstant], list[str]]:
    """Return the constants of a group's device, and notes on its tasks.

    Raises:
        CannotTell: the recording does not determine them.
        DataError: the device has no speed.
    """
    group = fleet.groups[number]
    if type(group.device) is not Device:
        text = f"fleet.{number}.device: got {group.device.kind}, whose speed is drawn"
        raise DataError("fleet", f"{text}; expected a device with a speed, such as pi-4")
    field = "speed" if group.device.speed is not None else "frequency"
    if f"fleet.{number}.device.{field}" in kept:
        return [], []
    mean_of = _clients_of_a_round(fleet)
    fitted, notes = fit_device(number, group, recording, clients, fleet.clients(number), mean_of)
    return [constant for constant in fitted if constant.key not in kept], notes


def _powers(
    fleet: ClientGroups,
    files: Sequence[PowerFile],
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
    kept: _Kept,
) -> tuple[list[FittedConstant], list[str]]:
    """Return the powers of the groups whose clients have a power log, and notes.

    Raises:
        DataError: a log cannot be read, is of no recorded client, or does not follow what it did.
    """
    meters, notes = dict[int, list[Metered]](), list[str]()
    for file in files:
        client, rows = _recorded(file, recording, clients)
        number = next(n for n in range(len(fleet.groups)) if client in fleet.clients(n))
        group = fleet.groups[number]
        if type(group.device) is not Device or type(group.radio) is not Radio:
            text = f"fleet.{number}: got {group.device.kind} with {group.radio.kind}"
            wanted = "expected a device and a radio of constant powers, such as pi-4 and wifi"
            raise DataError("power", f"{text}; {wanted}")
        with hearing() as heard:
            log = read_power(file.path)
        notes += heard
        name = str(rows["client"].iloc[0])
        meters.setdefault(number, []).append(Metered(name, timeline(rows, group.radio), log))
    constants = list[FittedConstant]()
    for number, found in meters.items():
        fitted, more = fit_powers(number, fleet.groups[number], found)
        constants += [each for each in fitted if each.key not in kept]
        notes += more
    return constants, notes


def _recorded(
    file: PowerFile, recording: pd.DataFrame, clients: NDArray[np.intp]
) -> tuple[int, pd.DataFrame]:
    """Return the client of a power log, from 0, and the client's observations.

    Raises:
        DataError: it has none, or they are of several runs.
    """
    known = {str(name): int(n) for name, n in zip(recording["client"], clients, strict=True)}
    known.pop(ALL, None)
    numbers = {str(n): n for n in known.values()}
    if not file.client and len(known) == 1:
        client = next(iter(known.values()))
    elif file.client in known or file.client in numbers:
        client = known[file.client] if file.client in known else numbers[file.client]
    else:
        got = f"got the client {file.client!r}" if file.client else "got no client"
        wanted = f"expected CLIENT={file.path}, with one of {join_names([*known], 'or')}"
        raise DataError("power", f"--power: {got}; {wanted}")
    rows = recording[(clients == client) & recording["kind"].isin([*MESSAGES, *WORK])]
    runs = rows["run"].nunique()
    if runs != 1:
        text = f"the recording has {runs} runs of {file.client or 'the client'}"
        raise DataError("power", f"--power: {text}; expected one, to which the power log belongs")
    return client, rows


def _clients_of_a_round(fleet: ClientGroups) -> int | None:
    """Return the number of replies per round; None if it varies, or the clients differ."""
    policy = fleet.scenario.participation.among(fleet.count)
    if len(fleet.groups) > 1 or not isinstance(policy, Rounds):
        return None
    return fleet.count if policy.asks_all else policy.wanted


def _overheads(
    fleet: ClientGroups,
    constants: Sequence[FittedConstant],
    recording: pd.DataFrame,
    clients: NDArray[np.intp],
) -> Iterator[str]:
    """Yield notes on the time of messages beyond half a ping and their bits."""
    trips = (recording["end"] - recording["start"]).to_numpy(float)
    bounds = recording["least"].to_numpy(float)
    trips = np.where(np.isfinite(bounds), (trips + bounds) / 2, trips)  # mid-range of a bound
    pings = (recording["kind"] == "ping").to_numpy()
    messages = recording["kind"].isin([*WAYS.values()]).to_numpy()
    for constant in constants:
        _, number, _, field = constant.key.split(".")[:4] if constant.key not in LINK else [""] * 4
        if field != LATENCY:
            continue
        rows = np.isin(clients, [*fleet.clients(int(number)), -1])
        if (rows & pings).any() and (rows & messages).any():
            half = float(np.median(trips[rows & pings])) / 2
            more = max(constant.value - half, 0.0)
            yield (
                f"fleet.{number}: half a ping is {half * 1e3:.3g} ms, so the overhead of a message"
                f" is {more * 1e3:.3g} ms; radio.latency includes both"
            )
