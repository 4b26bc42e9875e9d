"""The choice of figures of `fedsim.results.accuracy` for a scenario, by its models and regime."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from fedsim.core.blocks.quantities import Rate, Seconds
from fedsim.results.accuracy import (
    CLEAN,
    CLOSED_FORMS,
    ENERGY,
    FIT,
    FRAMES,
    LARGE,
    LOSSES,
    MANY,
    MEASURED,
    ONE,
    OVERFLOW,
    REFERENCES,
    ROUNDS,
    SMALL,
    TCP,
    TRANSFERS,
    UDP,
    Accuracy,
    Range,
    percent,
)

SEGMENT, FIRST_WINDOW, PACKET = 1448, 10, 1500
"""Bytes of a segment, segments of the first window, and bytes of a packet."""

_MEGABYTE = 1e6

_RATE = TypeAdapter[Any](Rate)
_TIME = TypeAdapter[Any](Seconds)

Plain = Mapping[str, Any]
"""A block as a run records it: quantities are texts with units."""


@dataclass(frozen=True)
class RoundMessages:
    """The messages of a round.

    Attributes:
        flows: the number of simultaneous messages.
        bytes: the larger of a broadcast's copy and a mean reply.
    """

    flows: int
    bytes: float

    @classmethod
    def of_round(cls, costs: Mapping[Any, Any]) -> "RoundMessages | None":
        """Return the messages of a row of the round table; None if the round has none.

        Args:
            costs: cohort, transmissions, bits_up and bits_down.
        """
        flows, replies = costs["cohort"], costs["transmissions"]
        if not (isfinite(flows) and flows > 0):
            return None
        down, up = costs["bits_down"] / flows, costs["bits_up"] / replies if replies else 0.0
        return cls(int(flows), max(down, up) / 8)


def errors_of_models(
    network: Plain,
    fleet: Sequence[Plain],
    messages: RoundMessages | None = None,
    *,
    brief: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield the network models of a scenario, each with sentences on the errors of its times.

    Args:
        network: the block `network`, as recorded.
        fleet: the groups; groups of a calibrated fleet have intervals for radio constants.
        messages: the messages of a typical round; None if unknown.
        brief: give the median error of transfer times, and what it means, without the cases that
            were tested.
    """
    if not fleet:
        return  # ideal clients: messages take no time
    if network.get("peers") is not None:
        yield _flows(network), CLOSED_FORMS["peers"]
        return
    if (flows := _flows(network)) in ROUNDS and all(map(_is_calibrated, fleet)):
        yield flows, _error_in_live_runs(flows)
        return
    groups: dict[str, list[Plain]] = {}
    for group in fleet:
        groups.setdefault(_model(network, group["radio"]["kind"]), []).append(group)
    for model, variants in groups.items():
        if model == "lora" and network.get("lora") is not None:
            yield model, _frames()
        elif model in CLOSED_FORMS:
            yield model, CLOSED_FORMS[model]
        elif model not in {"tcp", *TRANSFERS}:
            yield model, "A user-defined model: errors of its transfer times are unknown."
        else:
            yield model, _transfers(model, network, variants, messages, brief=brief)


def doubt_of_sizes(network: Plain, fleet: Sequence[Plain], rounds: pd.DataFrame) -> str:
    """Return why times of variants are uncertain if their messages differ in size; else nothing.

    A model without TCP's windows has another error for each size, so it does not cancel.

    Args:
        network: the block `network`, as recorded.
        fleet: the groups.
        rounds: the round tables of the variants, with their names in the column `variant`.
    """
    if not fleet or network.get("peers") is not None:
        return ""
    model = _flows(network)
    groups = [group for group in fleet if _model(network, group["radio"]["kind"]) == model]
    if model not in _WITHOUT_WINDOWS or not groups or not _sizes_differ(rounds):
        return ""
    text = f"the variants' messages differ in size, and network.model {model} has a median error"
    messages = RoundMessages.of_round(rounds[_COSTS].mean().to_dict())
    medians = [
        f"{percent(TRANSFERS[table][regime].median)}{over}"
        for over, table, regime in _regimes(model, network, groups, messages)
        if table is not None
    ]
    others = [f"{each.removesuffix('connections')}ones" for each in medians[1:]]
    text += f" of {', '.join([*medians[:1], *others])}"
    return f"{text}{_REPEAT if _takes_tcp(network) else _DISTRUST}"


def median_errors(
    network: Plain, fleet: Sequence[Plain], messages: RoundMessages | None
) -> Iterator[str]:
    """Yield a sentence per network model on the median error of its transfer times.

    They are the figures of `errors_of_models`, in the words of a paper.

    Args:
        network: the block `network`, as recorded.
        fleet: the groups.
        messages: the messages of a typical round; None if unknown.

    Example:
        >>> network = {"topology": "star", "model": "fluid"}
        >>> radio = {"kind": "lte", "up": "6 Mbit/s", "down": "13 Mbit/s", "latency": "30 ms"}
        >>> for sentence in median_errors(network, [{"radio": radio}], RoundMessages(10, 3e6)):
        ...     print(sentence.partition(" over")[0])
        Transfer times of the fluid model have a median error of 11 %
    """
    if not fleet or network.get("peers") is not None:
        return
    if (flows := _flows(network)) in ROUNDS and all(map(_is_calibrated, fleet)):
        yield _error_in_live_runs(flows)
        return
    groups: dict[str, list[Plain]] = {}
    for group in fleet:
        groups.setdefault(_model(network, group["radio"]["kind"]), []).append(group)
    for model, own in groups.items():
        if model not in {"tcp", *TRANSFERS}:
            continue
        errors = [
            f"{percent(TRANSFERS[table][regime].median)}{over} (compared with {REFERENCES[table]})"
            for over, table, regime in _regimes(model, network, own, messages)
            if table is not None
        ]
        if errors:
            known = " and ".join(errors)
            yield f"Transfer times of the {model} model have a median error of {known}."


_COSTS = ["bits_up", "transmissions", "bits_down", "cohort"]

_ALIKE = 1.1
"""Sizes of messages are alike if the largest is at most this multiple of the smallest."""

_REPEAT = ": repeat with network.model=tcp before you rely on their times"
_DISTRUST = ": do not rely on their times"


def _sizes_differ(rounds: pd.DataFrame) -> bool:
    """Return whether the mean size of a message, up or down, differs between variants."""
    sums = rounds.groupby("variant", observed=True)[_COSTS].sum()
    for bits, count in (("bits_up", "transmissions"), ("bits_down", "cohort")):
        some = sums[(sums[bits] > 0) & (sums[count] > 0)]
        sizes = some[bits] / some[count]
        if len(sizes) > 1 and sizes.max() > _ALIKE * sizes.min():
            return True
    return False


def errors_of_energy(fleet: Sequence[Plain], *, brief: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the devices and radios of a fleet, each with the errors of its presets' energy.

    Presets that were measured as one group are together, and so are those without a measurement.

    Args:
        fleet: the groups; those of a calibrated fleet have errors of their own.
        brief: give the median error only.
    """
    groups: dict[str | None, list[str]] = {}
    for each in fleet:
        for name in ("device", "radio"):
            kind = each.get(name, {}).get("kind", "ideal")
            calibrated = any(key.startswith(f"{name}.") for key in each.get("intervals") or ())
            if kind != "ideal" and not calibrated:
                found = next(
                    (group for start, group in MEASURED.items() if kind.startswith(start)), None
                )
                groups.setdefault(found, []).append(kind)
    for found, kinds in groups.items():
        presets = ", ".join(dict.fromkeys(kinds))
        if found is None:
            yield presets, "not compared with measurements."
        elif brief:
            yield presets, f"median error of {found} a factor of {ENERGY[found].median:.2g}."
        else:
            yield presets, f"{found}: {ENERGY[found]}."


def _model(network: Plain, radio: str) -> str:
    """Return the network model of a radio's messages."""
    cellular = radio.startswith(("lte", "5g", "shannon"))
    if network.get("wifi") is not None and not cellular:
        return "wifi"
    if network.get("cell") is not None and cellular:
        return "cell"
    model = _flows(network)
    if model == "fluid" and radio.startswith(("lora", "nb-iot")):
        return "lora" if radio.startswith("lora") else "nb-iot"
    return "short-range" if model == "fluid" and radio.startswith(("ble", "zigbee")) else model


def _flows(network: Plain) -> str:
    """Return the kind of `network.model`, which is a block if it has parameters."""
    model = network["model"]
    return str(model["kind"] if isinstance(model, Mapping) else model)


def _is_calibrated(group: Plain) -> bool:
    return any(key.startswith("radio.") for key in group.get("intervals") or ())


def _error_in_live_runs(model: str) -> str:
    error = ROUNDS[model]
    return (
        f"Round times of a calibrated fleet: {error} ({error.cases} rounds of live runs over links"
        f" shaped by Linux, half of them for calibration and half for comparison: {error.extent})."
    )


def _frames() -> str:
    parts = [
        f"worst error {worst:.2g} % in {cases} cases compared with {reference}"
        for reference, (_, worst, cases) in FRAMES.items()
    ]
    return (
        f"Share of frames received: {' and '.join(parts)} (30 to 300 nodes, 20 bytes at SF12). No"
        " real gateway was measured."
    )


# Transfers.


def _transfers(
    model: str,
    network: Plain,
    groups: Sequence[Plain],
    messages: RoundMessages | None,
    *,
    brief: bool,
) -> str:
    """Return sentences on the errors of transfer times for some groups, and a remedy."""
    lossy, rates, trips = _is_lossy(groups), _rates(network, groups), _trips(network, groups)
    medians, texts, beyond = list[str](), list[str](), list[str]()
    for over, table, regime in _regimes(model, network, groups, messages):
        if table is None:
            texts.append(f"Transfer times{over}: not measured.")
            continue
        errors, runs = TRANSFERS[table][regime], "medians of runs, " if regime == LOSSES else ""
        cases = f"{runs}{errors.cases} cases compared with {REFERENCES[table]}: {errors.extent}"
        texts.append(f"Transfer times{over}, {regime}: {errors} ({cases}).")
        medians.append(f"{percent(errors.median)}{over}")
        beyond += [_UNTESTED_LOSSES] if lossy and regime != LOSSES else []
        beyond += _beyond(errors, messages, rates, trips)
    differences = dict.fromkeys(beyond)
    if brief:
        both = ", ".join(
            [*medians[:1], *[each.removesuffix(" connections") for each in medians[1:]]]
        )
        text = f"Median error of times {both}."
        return " ".join([text, *[*differences][:1], *_advice(model, network)])
    return " ".join([*texts, *differences, *_remedy(model, network)])


def _regimes(
    model: str, network: Plain, groups: Sequence[Plain], messages: RoundMessages | None
) -> Iterator[tuple[str, str | None, str]]:
    """Yield the connections, the table of errors, and the regime; no table if not measured."""
    lossy, rates, trips = _is_lossy(groups), _rates(network, groups), _trips(network, groups)
    for over, table in _tables(model, network, lossy=lossy).items():
        regime = LOSSES
        if table is not None and not (lossy and LOSSES in TRANSFERS[table]):
            regime = _regime(TRANSFERS[table], network, messages, rates, trips)
        yield over, table, regime


def _is_lossy(groups: Sequence[Plain]) -> bool:
    """Return whether a radio loses packets at random."""
    return any(group["radio"].get("loss", {}).get("kind", "none") != "none" for group in groups)


_WITHOUT_WINDOWS = ("fluid", "lv08")
"""Models without handshakes and windows: whether connections are kept is up to the user."""

_CONNECTIONS = {"tcp": "kept", "wifi": "new"}
"""The defaults of `connections` by model."""

_OVER_KEPT, _OVER_NEW = " over kept connections", " over new connections"


def _tables(model: str, network: Plain, *, lossy: bool) -> Mapping[str, str | None]:
    """Return the tables of a model's errors by the connections that they are of.

    That of kept connections is None if they were not measured.
    """
    law = network.get(model) or {}
    name = law.get("stack", "linux") if model == "tcp" else model
    kept = None if lossy else f"{name}, kept"
    kept = kept if kept in TRANSFERS else None
    if model in _WITHOUT_WINDOWS:
        return {_OVER_KEPT: kept, _OVER_NEW: name}
    if law.get("connections", _CONNECTIONS[model]) == "new":
        return {_OVER_NEW if model == "tcp" else "": name}  # Wi-Fi's may be of UDP
    return {_OVER_KEPT: kept} if kept else {_OVER_KEPT: None, _OVER_NEW: name}


_UNTESTED_LOSSES = "Your losses are random; those tested were not."


def _advice(model: str, network: Plain) -> Iterator[str]:
    """Yield what a simpler model's errors mean for a comparison, in short."""
    if model not in _WITHOUT_WINDOWS:
        return
    if _takes_tcp(network):
        yield "If message sizes differ, repeat with network.model=tcp."
    else:
        yield "Do not rely on times of variants that differ in message size."


def _remedy(model: str, network: Plain) -> Iterator[str]:
    """Yield what the errors of a simpler model mean for a comparison, and how to simulate TCP."""
    if model not in _WITHOUT_WINDOWS:
        return
    yield "In a comparison messages of equal size have the same error."
    yield "How much time smaller messages save is uncertain."
    if _takes_tcp(network):
        yield "If a ranking may depend on it, repeat with `network.model=tcp`."


def _takes_tcp(network: Plain) -> bool:
    shares_air = any(network.get(key) is not None for key in ("wifi", "cell", "lora"))
    return not shares_air and network.get("broadcast") != "cell"


def _regime(
    table: Mapping[str, Accuracy],
    network: Plain,
    messages: RoundMessages | None,
    rates: Range | None,
    trips: Range | None,
) -> str:
    """Return the regime of a scenario without random losses, among those of a table."""
    many = MANY
    if TCP in table:
        many = TCP if network["wifi"]["transport"] == "tcp" else UDP
    if messages is None:
        return CLEAN if CLEAN in table else many
    if messages.flows > 1:
        if many in table:
            return many
        return FIT if _fit(network.get("tcp") or {}, messages, rates, trips) else OVERFLOW
    if ONE in table:
        return ONE
    return SMALL if messages.bytes <= _MEGABYTE else LARGE


def _fit(tcp: Plain, messages: RoundMessages, rates: Range | None, trips: Range | None) -> bool:
    """Return whether the first TCP windows of all messages fit into one queue."""
    if tcp.get("discipline") == "fq-codel":
        return True
    queue = tcp.get("queue", 1000)
    if tcp.get("queue_bdp") is not None:
        if rates is None or trips is None or not isfinite(rates[0]):
            return True
        queue = tcp["queue_bdp"] * rates[0] * trips[1] / (8 * PACKET)
    window = min(tcp.get("initial_window", FIRST_WINDOW), ceil(messages.bytes / SEGMENT))
    return bool(messages.flows * window <= queue)


def _links(network: Plain) -> Sequence[Plain]:
    """Return the links that all messages share, of a star or a tree."""
    return [network[key] for key in ("server", "gateway") if network.get(key) is not None]


def _rates(network: Plain, groups: Sequence[Plain]) -> Range | None:
    """Return the lowest and the highest rate of the narrowest link of a message, bit/s."""
    rates = []
    for way, link_way in (("up", "uplink"), ("down", "downlink")):
        shared = [link.get("rate") or link[link_way] for link in _links(network)]
        for group in groups:
            rate = group["radio"].get(way)
            if rate is None:
                return None  # a trace, or a radio without constant rates
            rates.append(min(map(_RATE.validate_python, (rate, *shared))))
    return min(rates), max(rates)


def _trips(network: Plain, groups: Sequence[Plain]) -> Range | None:
    """Return the shortest and the longest round trip without queues, s."""
    if "server" not in network:
        return None  # a graph
    shared = sum(_TIME.validate_python(link["latency"]) for link in _links(network))
    latencies = [_TIME.validate_python(group["radio"].get("latency", "0 s")) for group in groups]
    return 2 * (shared + min(latencies)), 2 * (shared + max(latencies))


def _beyond(
    tested: Accuracy, messages: RoundMessages | None, rates: Range | None, trips: Range | None
) -> Iterator[str]:
    """Yield a sentence for each range of the tested cases that a scenario leaves."""
    flows = size = None
    if messages is not None:
        flows, size = (messages.flows,) * 2, (messages.bytes,) * 2
    for actual, limits, low, high in (
        (flows, tested.flows, "Fewer of your messages overlap", "More of your messages overlap"),
        (size, tested.bytes, "Your messages are smaller", "Your messages are larger"),
        (rates, tested.rates, "Your links are slower", "Your links are faster"),
        (trips, tested.trips, "Your round trips are shorter", "Your round trips are longer"),
    ):
        if actual is not None and limits is not None:
            if actual[0] < limits[0]:
                yield f"{low} than tested."
            if actual[1] > limits[1]:
                yield f"{high} than tested."
